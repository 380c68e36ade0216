import { allContainerStatuses, containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { Container, ContainerState, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { describeInvalidReference } from "../../../proto/kubernetes/values/image-reference.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { type ImageUse, imageNeed, imageOf, imageUses, pullFailureMessage } from "../container/image.ts";
import { startableContainers, startableEphemeralContainers } from "../container/initialization.ts";
import { sandboxNeed } from "../container/sandbox.ts";
import { pullErrorShownUntil } from "../pod/backoff.ts";
import type { FailureRecord, PodMemory } from "../pod/memory.ts";
import { newestInstanceOf, type ObservedContainer } from "../pod/observed.ts";
import {
  isWaitingForPullSecrets,
  waitingForNetwork,
  waitingForRuntimeClass,
  waitingForServices,
} from "../pod/prerequisites.ts";
import { neededResources } from "../pod/resources.ts";
import type { PodSettings } from "../settings.ts";
import type { StatusInput } from "./status-input.ts";

/** Why a container waits if there is no other reason. */
export const startingReasonOf = ({ spec }: Pod): string =>
  (spec.initContainers ?? []).length > 0 ? "PodInitializing" : "ContainerCreating";

/** Why a container waits that has yet to start, with Kubernetes' own reasons and messages. */
export function waitingBeforeStart(
  input: StatusInput,
  container: Container,
  newest: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> {
  const { desired, observed, memory, settings, now } = input;
  const { pod } = desired;
  const startable = [
    ...startableContainers(pod, observed, observed.sandboxes[0]?.id),
    ...startableEphemeralContainers(pod, observed),
  ];
  const reason = startingReasonOf(pod);
  // The reason for the delay is reported on the containers before this one.
  if (!startable.includes(container)) return { reason };
  const failure = ownFailureOf(input, container, newest);
  if (failure !== undefined) return failure;
  const services = newest === undefined ? waitingForServices(desired, settings) : undefined;
  // Before that, this container waits for the pod's sandbox and its own image like any other.
  const hasSandbox = sandboxNeed(desired.pod, observed, now).kind === "ready";
  const isReadyToCreate = hasSandbox && areImagesReady(input, container);
  if (services !== undefined && isReadyToCreate) return { reason: "CreateContainerConfigError", message: services };
  // The reason is the kubelet's. The kubelet leaves the message out; here it says what the pod is waiting for.
  const predecessorMessage =
    desired.predecessorUid === undefined
      ? undefined
      : `the pod of this name with uid ${desired.predecessorUid} has to end first`;
  const network = hasSandbox ? undefined : waitingForNetwork(desired, settings);
  const outage = memory.failures.values().find(({ isOutage }) => isOutage);
  const blockingFailure = resourceFailureOf(pod, memory, settings) ?? memory.failures.get({ of: "sandbox" }) ?? outage;
  const prerequisiteMessage = waitingForRuntimeClass(desired, settings) ?? activePullMessage(input, container);
  const message = predecessorMessage ?? network ?? blockingFailure?.message ?? prerequisiteMessage;
  return { reason, ...(message === undefined ? {} : { message }) };
}

/** Why resources of the pod could not be made: one failure does not hide another. */
function resourceFailureOf(
  pod: Pod,
  { failures }: PodMemory,
  settings: PodSettings,
): Pick<FailureRecord, "message"> | undefined {
  const messages = neededResources(pod, settings).flatMap(
    (resource) => failures.get({ of: "resource", resource })?.message ?? [],
  );
  return messages.length === 0 ? undefined : { message: [...new Set(messages)].join("; ") };
}

function areImagesReady({ desired: { pod }, observed, memory }: StatusInput, container: Container): boolean {
  return imageUses(pod, container).every((use) => imageNeed(use, observed, memory).kind === "ready");
}

function activePullMessage({ desired: { pod }, memory }: StatusInput, container: Container): string | undefined {
  const messages = imageUses(pod, container).flatMap((use) => pullMessage(imageOf(use), memory) ?? []);
  return messages[0];
}

function pullMessage(image: string, { pulls }: PodMemory): string | undefined {
  const pull = pulls.get(image);
  switch (pull?.state) {
    case "queued":
      return `the pull of image "${image}" waits for earlier pulls`;
    case "pulling":
      return `image "${image}" is being pulled since ${formatTime(pull.since)}`;
    case "pulled":
    case undefined:
      return undefined;
  }
}

/** Why this container cannot start, with Kubernetes' own reasons and messages. */
export function ownFailureOf(
  input: StatusInput,
  container: Container,
  previous: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> | undefined {
  const containerFailure = input.memory.failures.get({ of: "container", name: container.name });
  if (containerFailure !== undefined && !containerFailure.isOutage)
    return { reason: containerFailure.reason, message: containerFailure.message };
  return unusableImageOf(input, container, previous)?.failure;
}

/**
 * The images that the waiting containers of a status cannot use, by the container's name: what their waiting reasons are
 * about if these name an image.
 */
export function unusableImages(input: StatusInput, status: PodStatus): ReadonlyMap<string, ImageUse> {
  const { desired, observed } = input;
  const uses = allContainerStatuses(status).flatMap(({ name, state }): [string, ImageUse][] => {
    const container = state?.waiting === undefined ? undefined : containerNamed(desired.pod, name);
    const image = container && unusableImageOf(input, container, newestInstanceOf(observed, name));
    return image === undefined ? [] : [[name, image.use]];
  });
  return new Map(uses);
}

interface UnusableImage {
  readonly use: ImageUse;
  readonly failure: NonNullable<ContainerState["waiting"]>;
}

/** Like the kubelet: of the volumes' failures the last one, and the container's own only if the volumes have none. */
function unusableImageOf(
  input: StatusInput,
  container: Container,
  previous: ObservedContainer | undefined,
): UnusableImage | undefined {
  const [own, ...volumes] = imageUses(input.desired.pod, container).toReversed();
  for (const use of [...volumes, ...(own === undefined ? [] : [own])]) {
    const failure = imageFailureOf(input, use, previous);
    if (failure !== undefined) return { use, failure };
  }
  return undefined;
}

/** Why the container cannot use one of its images. */
function imageFailureOf(
  { desired, observed, memory, settings, now }: StatusInput,
  use: ImageUse,
  previous: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> | undefined {
  const { image = "" } = use;
  const pull = memory.failures.get({ of: "image", image: imageOf(use) });
  const need = previous?.state === "created" ? undefined : imageNeed(use, observed, memory);
  if (pull !== undefined && !pull.isOutage && need?.kind !== "ready") return pullFailure(image, pull, now);
  if (need?.kind === "uninspectable")
    return {
      reason: "ImageInspectError",
      message: `Failed to inspect image "${image}": ${need.message}`,
    };
  if (need?.kind === "invalid")
    return {
      reason: "InvalidImageName",
      message: `Failed to apply default image tag "${image}": couldn't parse image name "${image}": ${describeInvalidReference(image)}`,
    };
  if (need?.kind === "missing" && !isWaitingForPullSecrets(desired.pod, settings))
    return {
      reason: "ErrImageNeverPull",
      message: `Container image "${image}" is not present with pull policy of Never`,
    };
  return undefined;
}

/** A failed pull is reported as an error until `pullErrorShownUntil`, for the rest of its delay as a back-off. */
function pullFailure(image: string, failure: FailureRecord, now: number): NonNullable<ContainerState["waiting"]> {
  const { reason } = failure;
  const message = pullFailureMessage(image, failure);
  if (now < pullErrorShownUntil(failure, now)) return { reason, message };
  return { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}": ${reason}: ${message}` };
}
