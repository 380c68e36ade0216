import { allContainers, isEphemeral, isRunToCompletion, isSidecar } from "../../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerState,
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  VolumeMountStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import { describeInvalidReference } from "../../../proto/kubernetes/values/image-reference.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { truncateUtf8 } from "../../../proto/utf8.ts";
import { isOutdated } from "../container/container-hash.ts";
import { imageNeed, imageOf, pullFailureMessage } from "../container/image.ts";
import {
  isInitialized,
  isInitStepDone,
  startableContainers,
  startableEphemeralContainers,
} from "../container/initialization.ts";
import { isInferredExit, reportedExit } from "../container/missing-containers.ts";
import { isRemovedForRestart, removedForRestart } from "../container/removed-for-restart.ts";
import { resourcesOfInstance } from "../container/resize.ts";
import { exitShownUntil, isBackoffReset, restartAt, restartDelayMs, shouldRestart } from "../container/restart.ts";
import { isRestartingAll } from "../container/restart-all.ts";
import { sandboxNeed } from "../container/sandbox.ts";
import { pullErrorShownUntil } from "../pod/backoff.ts";
import { type FailureRecord, type PodMemory, postStartFailureOf } from "../pod/memory.ts";
import {
  awaitsPostStart,
  type ExitedContainer,
  healthOf,
  newestInstanceOf,
  type ObservedContainer,
} from "../pod/observed.ts";
import {
  isWaitingForPullSecrets,
  waitingForNetwork,
  waitingForRuntimeClass,
  waitingForServices,
} from "../pod/prerequisites.ts";
import { neededResources } from "../pod/resources.ts";
import { haveContainersStopped } from "../pod/stage.ts";
import { previousStatusOfInstance } from "./previous-status.ts";
import type { StatusInput } from "./status-input.ts";

/**
 * One entry of `status.containerStatuses`, `initContainerStatuses` or `ephemeralContainerStatuses`, as the API
 * documents it.
 */
export function containerStatus(input: StatusInput, container: Container): ContainerStatus {
  const { desired, previousStatus, observed, settings } = input;
  const { pod } = desired;
  const newest = newestInstanceOf(observed, container.name);
  const state = stateOf(input, container, newest);
  const reported =
    newest !== undefined && isInferredExit(newest) ? reportedExit(previousStatus, container.name) : undefined;
  // No instance is left on the node: the reported exit has more detail than an inferred one.
  if (state.terminated !== undefined && reported?.restartCount === newest?.attempt && reported !== undefined)
    return reported;
  const lastExit = lastTermination(input, container.name, newest, state);
  const runsOnce = isRunToCompletion(pod, container);
  const health = newest && healthOf(observed, newest);
  const reportedInstance = isAboutToStart(input, newest) ? undefined : newest;
  return {
    name: container.name,
    state,
    ...(lastExit === undefined ? {} : { lastState: { terminated: lastExit } }),
    ...(isEphemeral(pod, container.name)
      ? { ready: false }
      : {
          ready: runsOnce ? state.terminated?.exitCode === 0 : health?.isReady === true,
          started: health?.isStarted === true,
        }),
    restartCount: newest?.attempt ?? attemptWithoutInstance(input, container),
    image: reportedInstance?.image || (container.image ?? ""),
    imageID: reportedInstance?.imageRef ?? "",
    ...(reportedInstance === undefined || isInferredExit(reportedInstance)
      ? {}
      : {
          containerID: `${settings.runtimeName}://${reportedInstance.id}`,
          ...resourcesOfInstance(previousStatus, container, reportedInstance.id),
        }),
    ...(reportedInstance?.user === undefined ? {} : { user: { linux: reportedInstance.user } }),
    ...(settings.containerStopSignals === true &&
      reportedInstance?.stopSignal !== undefined && { stopSignal: reportedInstance.stopSignal }),
    ...(container.volumeMounts === undefined ? {} : { volumeMounts: container.volumeMounts.map(mountStatus) }),
  };
}

/** The attempt of a container without an instance; after `RestartAllContainers` that of its next instance. */
function attemptWithoutInstance({ observed, memory }: StatusInput, { name }: Container): number {
  const removedAttempt = observed.removedAttempts.get(name);
  return removedAttempt === undefined ? (memory.startedAttempts.get(name) ?? 0) : removedAttempt + 1;
}

/**
 * A first instance that is created but not started is reported as before its creation, as with the kubelet: a status
 * that lasts some ten milliseconds would cost one more request per start. If the start fails, or the instance was
 * already reported, it is shown.
 */
function isAboutToStart({ previousStatus, memory }: StatusInput, newest: ObservedContainer | undefined): boolean {
  if (
    newest?.state !== "created" ||
    newest.attempt !== 0 ||
    memory.failures.has({ of: "container", name: newest.name })
  )
    return false;
  return previousStatusOfInstance(previousStatus, newest.id) === undefined;
}

function mountStatus({ name, mountPath, readOnly }: NonNullable<Container["volumeMounts"]>[number]): VolumeMountStatus {
  return { name, mountPath, ...(readOnly === true ? { readOnly, recursiveReadOnly: "Disabled" } : {}) };
}

function stateOf(input: StatusInput, container: Container, newest: ObservedContainer | undefined): ContainerState {
  const haveStopped = haveContainersStopped(input.stage);
  if (newest !== undefined && awaitsPostStart(input.observed, newest)) return { waiting: waitingForPostStart(input) };
  if (newest?.state === "running") return { running: { startedAt: formatTime(newest.startedAt) } };
  if (newest?.state === "exited") {
    const waiting = input.stage.kind !== "syncing" ? undefined : waitingAfterExit(input, container, newest);
    return waiting ?? { terminated: terminated(input, newest) };
  }
  if (newest === undefined && isRestartingWithAll(input, container)) return { waiting: waitingForRestart };
  const reported = newest === undefined ? reportedOrAssumedState(input, container) : undefined;
  if (reported !== undefined) return reported;
  if (newest?.state === "unknown" || (haveStopped && mayHaveRun(input, container)))
    return { terminated: unknownTermination };
  if (haveStopped) return { waiting: { reason: "PodInitializing" } };
  return { waiting: waitingBeforeStart(input, container, newest) };
}

/**
 * A container counts as started only after its hook has succeeded. The kubelet reports the reason without a message.
 */
function waitingForPostStart({ desired }: StatusInput): NonNullable<ContainerState["waiting"]> {
  const hasInit = (desired.pod.spec.initContainers ?? []).length > 0;
  return {
    reason: hasInit ? "PodInitializing" : "ContainerCreating",
    message: "its postStart hook has not succeeded yet",
  };
}

const waitingForRestart = { reason: removedForRestart.reason ?? "", message: removedForRestart.message ?? "" };

/** It was removed by RestartAllContainers, and no container of the pod has started since. */
function isRestartingWithAll({ desired: { pod }, observed, stage }: StatusInput, { name }: Container): boolean {
  if (stage.kind !== "syncing" || !observed.removedAttempts.has(name)) return false;
  return isRemovedForRestart(pod, observed) || isRestartingAll(pod, observed);
}

/** What Kubernetes reports of a container whose exit is unknown. */
const unknownTermination: ContainerStateTerminated = {
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was terminated",
};

/** What Kubernetes reports of a removed init container while the containers behind it exist. */
const assumedCompletion: ContainerStateTerminated = {
  exitCode: 0,
  reason: "Completed",
  message:
    "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
};

/** The state of an init container that is done and has no instance left. */
function reportedOrAssumedState(
  { desired: { pod }, previousStatus, observed }: StatusInput,
  container: Container,
): ContainerState | undefined {
  if (!isInitStepDone(pod, observed, observed.sandboxes[0]?.id, container)) return undefined;
  return (
    reportedExit(previousStatus, container.name)?.state ??
    (isSidecar(container) ? undefined : { terminated: assumedCompletion })
  );
}

/** Whether an app container of the pod was created, in any sandbox. */
function hasAppContainer({ desired, observed }: StatusInput): boolean {
  return desired.pod.spec.containers.some(({ name }) => newestInstanceOf(observed, name) !== undefined);
}

/**
 * Whether a container of a terminated pod may have run without leaving an instance. Containers behind an init container
 * that never finished stay waiting; the first init container counts as started.
 */
function mayHaveRun({ desired, observed, ...input }: StatusInput, { name }: Container): boolean {
  // An ephemeral container without an instance may have been added just when the pod ended.
  if (isEphemeral(desired.pod, name)) return false;
  const { initContainers = [] } = desired.pod.spec;
  const index = initContainers.findIndex((each) => each.name === name);
  if (observed.removedAttempts.has(name)) return true;
  const hasRun = (each: Container) => (newestInstanceOf(observed, each.name)?.state ?? "created") !== "created";
  if (index >= 0) return index === 0 || initContainers.slice(index).some(hasRun);
  return (
    hasAppContainer({ desired, observed, ...input }) || isInitialized(desired.pod, observed, observed.sandboxes[0]?.id)
  );
}

/** An exited container is waiting, with a reason, only if it will run again and cannot start yet. */
function waitingAfterExit(
  input: StatusInput,
  container: Container,
  exited: ExitedContainer,
): ContainerState | undefined {
  const { desired, memory, settings, now } = input;
  // With another image there is no restart back-off: only a failure can delay the start.
  const isChanged = isOutdated(container, exited);
  if (!isChanged && !shouldRestart(desired.pod, container, exited)) return undefined;
  const due = isChanged ? exited.finishedAt : restartAt(exited, settings.maxContainerRestartPeriodMs, now);
  const isDue = due <= now;
  // A failed start is shown in the last state; the container itself then waits for its back-off.
  const failedAt = memory.failures.get({ of: "container", name: container.name })?.at ?? due;
  const failure = isDue && failedAt >= due ? ownFailureOf(input, container, exited) : undefined;
  if (failure !== undefined) return { waiting: failure };
  const startsAtOnce = isDue && (isChanged || exited.crashes === 0 || isBackoffReset(exited));
  const hook = postStartFailureOf(memory, exited.id);
  if (hook !== undefined && (startsAtOnce || now < exitShownUntil(exited, due)))
    return { waiting: postStartFailureWaiting(desired.pod, hook) };
  // Show the back-off until the next instance exists, although it is over a moment before.
  if (startsAtOnce) return undefined;
  const { namespace = "default", name = "" } = desired.pod.metadata;
  const delay = formatElapsed(restartDelayMs(exited.crashes, settings.maxContainerRestartPeriodMs));
  const message = `back-off ${delay} restarting failed container=${container.name} pod=${name}_${namespace}(${desired.uid})`;
  return { waiting: { reason: "CrashLoopBackOff", message } };
}

function postStartFailureWaiting(
  pod: Pod,
  { reason, message, statusMessage }: FailureRecord,
): NonNullable<ContainerState["waiting"]> {
  return { reason, message: truncateUtf8(statusMessage ?? message, maxMessageBytesOf(pod)) };
}

function waitingBeforeStart(
  input: StatusInput,
  container: Container,
  newest: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> {
  const { desired, observed, memory, settings, now } = input;
  const hasInit = (desired.pod.spec.initContainers ?? []).length > 0;
  const { pod } = desired;
  const startable = [
    ...startableContainers(pod, observed, observed.sandboxes[0]?.id),
    ...startableEphemeralContainers(pod, observed),
  ];
  const reason = hasInit ? "PodInitializing" : "ContainerCreating";
  // The reason for the delay is reported on the containers before this one.
  if (!startable.includes(container)) return { reason };
  const failure = ownFailureOf(input, container, newest);
  if (failure !== undefined) return failure;
  const services = newest === undefined ? waitingForServices(desired, settings) : undefined;
  // Before that, this container waits for the pod's sandbox and its own image like any other.
  const hasSandbox = sandboxNeed(desired.pod, observed, now).kind === "ready";
  const isReadyToCreate = hasSandbox && isImageReady(input, container);
  if (services !== undefined && isReadyToCreate) return { reason: "CreateContainerConfigError", message: services };
  // The reason is the kubelet's. The kubelet leaves the message out; here it says what the pod is waiting for.
  const predecessorMessage =
    desired.predecessorUid === undefined
      ? undefined
      : `the pod of this name with uid ${desired.predecessorUid} has to end first`;
  const network = hasSandbox ? undefined : waitingForNetwork(desired, settings);
  const outage = memory.failures.values().find(({ isOutage }) => isOutage);
  const blockingFailure = resourceFailureOf(pod, memory) ?? memory.failures.get({ of: "sandbox" }) ?? outage;
  const prerequisiteMessage =
    waitingForRuntimeClass(desired, settings) ?? activePullMessage(imageOf(container), memory);
  const message = predecessorMessage ?? network ?? blockingFailure?.message ?? prerequisiteMessage;
  return { reason, ...(message === undefined ? {} : { message }) };
}

/** Why resources of the pod could not be made: one failure does not hide another. */
function resourceFailureOf(pod: Pod, { failures }: PodMemory): Pick<FailureRecord, "message"> | undefined {
  const messages = neededResources(pod).flatMap(
    (resource) => failures.get({ of: "resource", resource })?.message ?? [],
  );
  return messages.length === 0 ? undefined : { message: [...new Set(messages)].join("; ") };
}

function isImageReady({ observed, memory }: StatusInput, container: Container): boolean {
  return imageNeed(container, observed, memory).kind === "ready";
}

function activePullMessage(image: string, { pulls }: PodMemory): string | undefined {
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
function ownFailureOf(
  { desired, observed, memory, settings, now }: StatusInput,
  container: Container,
  previous: ObservedContainer | undefined,
): NonNullable<ContainerState["waiting"]> | undefined {
  const image = imageOf(container);
  const containerFailure = memory.failures.get({ of: "container", name: container.name });
  if (containerFailure !== undefined && !containerFailure.isOutage)
    return { reason: containerFailure.reason, message: containerFailure.message };
  const pull = memory.failures.get({ of: "image", image });
  const need = previous?.state === "created" ? undefined : imageNeed(container, observed, memory);
  if (pull !== undefined && !pull.isOutage && need?.kind !== "ready") return pullFailure(container, pull, now);
  if (need?.kind === "uninspectable")
    return {
      reason: "ImageInspectError",
      message: `Failed to inspect image "${container.image ?? ""}": ${need.message}`,
    };
  if (need?.kind === "invalid")
    return {
      reason: "InvalidImageName",
      message: `Failed to apply default image tag "${container.image ?? ""}": couldn't parse image name "${container.image ?? ""}": ${describeInvalidReference(container.image ?? "")}`,
    };
  if (need?.kind === "missing" && !isWaitingForPullSecrets(desired.pod, settings))
    return {
      reason: "ErrImageNeverPull",
      message: `Container image "${container.image ?? ""}" is not present with pull policy of Never`,
    };
  return undefined;
}

/** A failed pull is reported as an error for the first half of its back-off, as a back-off for the second half. */
function pullFailure(
  { image = "" }: Container,
  failure: FailureRecord,
  now: number,
): NonNullable<ContainerState["waiting"]> {
  const { reason } = failure;
  const message = pullFailureMessage(image, failure);
  if (now < pullErrorShownUntil(failure, now)) return { reason, message };
  return { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}": ${reason}: ${message}` };
}

/** The exit of the previous instance; if the newest exit is the state itself, the exit before that. */
function lastTermination(
  input: StatusInput,
  name: string,
  newest: ObservedContainer | undefined,
  state: ContainerState,
): ContainerStateTerminated | undefined {
  const isCurrentState = state.terminated !== undefined;
  const exits = input.observed.containers.filter((c): c is ExitedContainer => c.name === name && c.state === "exited");
  const [last] = isCurrentState ? exits.filter(({ id }) => id !== newest?.id) : exits;
  if (last !== undefined) return terminated(input, last);
  const removedAttempt = input.observed.removedAttempts.get(name);
  const isOfRemoved = removedAttempt !== undefined && removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);
  return isOfRemoved ? removedForRestart : reportedTermination(input, name, newest);
}

/** The exit of an earlier instance that is removed, as long as the pod's status still has it. */
function reportedTermination(
  { previousStatus }: StatusInput,
  name: string,
  newest: ObservedContainer | undefined,
): ContainerStateTerminated | undefined {
  if (newest === undefined) return undefined;
  const reported = previousStatus.containers.get(name);
  const isOfOtherInstance = ({ containerID }: ContainerStateTerminated) =>
    containerID !== undefined && !containerID.endsWith(`//${newest.id}`);
  return [reported?.state?.terminated, reported?.lastState?.terminated].find(
    (end) => end !== undefined && isOfOtherInstance(end),
  );
}

/** The limit of all termination messages of a pod, in bytes; each container has an equal share of it. */
const MAX_POD_MESSAGE_BYTES = 12 * 1024;

const maxMessageBytesOf = ({ spec }: Pod) => Math.floor(MAX_POD_MESSAGE_BYTES / allContainers(spec).length);

function terminated({ desired, settings }: StatusInput, exited: ExitedContainer): ContainerStateTerminated {
  const { exitCode, reason, message, startedAt, finishedAt } = exited;
  return {
    exitCode,
    reason: reason || (exitCode === 0 ? "Completed" : "Error"),
    ...(message === "" ? {} : { message: truncateUtf8(message, maxMessageBytesOf(desired.pod)) }),
    // For a failed start the runtime reports 1970, and so does the kubelet; an inferred exit has no times.
    ...(startedAt === 0 && isInferredExit(exited) ? {} : { startedAt: formatTime(startedAt) }),
    ...(finishedAt === 0 ? {} : { finishedAt: formatTime(finishedAt) }),
    ...(isInferredExit(exited) ? {} : { containerID: `${settings.runtimeName}://${exited.id}` }),
  };
}
