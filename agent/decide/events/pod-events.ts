import {
  allContainerStatuses,
  allContainers,
  containerNamed,
  statusNamed,
} from "../../../proto/kubernetes/containers.ts";
import type { Container, ContainerStatus, EventType, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { imageOf } from "../container/image.ts";
import type { ProbeKind, ProbeOutcome } from "../container/probe.ts";
import { resizeNews } from "../container/resize.ts";
import { formatGoDuration } from "../go-duration.ts";
import type { Action } from "../pod/action.ts";
import type { Beginning, Taken } from "../pod/action-call.ts";
import type { SourceKind } from "../pod/desired.ts";
import { REJECTED } from "../pod/outcome.ts";
import { NETWORK_IS_NOT_READY } from "../pod/prerequisites.ts";

/** Something that has happened to a pod, in the words in which `kubectl describe` shows it. They are the kubelet's. */
export interface PodEvent {
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
  /** The container that it is about; otherwise it is about the pod. */
  readonly container?: string;
}

export const SANDBOX_CHANGED = "SandboxChanged";

export interface EventScene {
  /** The pod as it is wanted, where somebody wants it. */
  readonly pod: Pod | undefined;
  /** The images that were pulled for it, and not used yet. */
  readonly pulled: ReadonlySet<string>;
  /** Pods have to show a right to images that are here already. */
  readonly isAccessVerified: boolean;
}

/** What is told of an action when it begins. */
export function eventsAtBegin({ action }: Pick<Beginning, "action">, scene: EventScene): readonly PodEvent[] {
  const { pod, pulled, isAccessVerified } = scene;
  switch (action.kind) {
    case "pullImage": {
      const container = containerOf(pod, action.image);
      return [normal("Pulling", `Pulling image "${container?.image ?? action.image}"`, container?.name)];
    }
    case "createContainer": {
      const container = pod && containerNamed(pod, action.name);
      if (pulled.has(action.image) || container?.imagePullPolicy === "Always") return [];
      const image = container?.image ?? action.image;
      const access = isAccessVerified ? " and can be accessed by the pod" : "";
      return [normal("Pulled", `Container image "${image}" already present on machine${access}`, action.name)];
    }
    case "runSandbox":
      return action.attempt === 0 ? [] : sandboxEvents();
    case "runPreStop":
    case "stopContainer":
      return killingEvents(action);
    case "prepareVolumes":
    case "startContainer":
    case "runHook":
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return [];
  }
}

/** What is told of an action when it has ended. `imageSizeBytes` is that of the image that was pulled, where it is known. */
export function eventsAtEnd(
  taken: Taken,
  { pod }: Pick<EventScene, "pod">,
  imageSizeBytes?: number,
): readonly PodEvent[] {
  const { uid, action, result } = taken;
  if (result === "given up") return [];
  if (!result.ok) return result.isOutage ? [] : failureEvents({ uid, action }, pod, result);
  switch (action.kind) {
    case "pullImage":
      return [pulledEvent(taken, containerOf(pod, action.image), action.image, imageSizeBytes)];
    case "createContainer":
      return [normal("Created", "Container created", action.name)];
    case "startContainer":
      return [normal("Started", "Container started", action.name)];
    case "runPreStop":
    case "stopContainer":
      return [
        ...plainTextEvents(result.askedInPlainText),
        ...(result.hookFailure !== undefined ? [warning("FailedPreStopHook", "PreStopHook failed", action.name)] : []),
      ];
    case "runHook":
      return plainTextEvents(result.askedInPlainText);
    case "prepareVolumes":
    case "runSandbox":
    case "removeContainer":
    case "stopSandbox":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return [];
  }
}

/** What is told of a pull that takes long. The kubelet says nothing before its end. */
export function longPullEvent(pod: Pod | undefined, image: string, lastedMs: number): PodEvent {
  const container = containerOf(pod, image);
  const what = `Still pulling image "${container?.image ?? image}" after ${formatGoDuration(lastedMs)}`;
  return normal("Pulling", what, container?.name);
}

/** Told of whatever is done first to stop a container: its hook, where that runs ahead, or the stop itself. */
function killingEvents({
  name,
  event = `Stopping container ${name}`,
  isForSandbox,
}: Pick<Extract<Action, { kind: "stopContainer" }>, "name" | "event" | "isForSandbox">): readonly PodEvent[] {
  return [...(isForSandbox ? sandboxEvents() : []), normal("Killing", event, name)];
}

/** Told of whatever is done first to replace a sandbox, and once for all of it. */
function sandboxEvents(): readonly PodEvent[] {
  return [normal(SANDBOX_CHANGED, "Pod sandbox changed, it will be killed and re-created.")];
}

function plainTextEvents(host: string | undefined): readonly PodEvent[] {
  if (host === undefined) return [];
  const what = `request to HTTPS lifecycle hook ${host} got HTTP response, retry with HTTP succeeded`;
  return [warning("LifecycleHTTPFallback", what)];
}

function pulledEvent(
  { startedAt, beganAt = startedAt, endedAt }: Taken,
  container: Container | undefined,
  image: string,
  sizeBytes: number | undefined,
): PodEvent {
  const took = formatGoDuration(endedAt - beganAt);
  const withWaiting = formatGoDuration(endedAt - startedAt);
  const size = sizeBytes === undefined ? "" : ` Image size: ${sizeBytes} bytes.`;
  const what = `Successfully pulled image "${container?.image ?? image}"`;
  return normal("Pulled", `${what} in ${took} (${withWaiting} including waiting).${size}`, container?.name);
}

function failureEvents(
  { uid, action }: Pick<Taken, "uid" | "action">,
  pod: Pod | undefined,
  { reason, message }: { readonly reason: string; readonly message: string },
): readonly PodEvent[] {
  switch (action.kind) {
    case "prepareVolumes":
      return [warning("FailedMount", message)];
    case "pullImage": {
      const container = containerOf(pod, action.image);
      return [
        warning("Failed", `Failed to pull image "${container?.image ?? action.image}": ${message}`, container?.name),
        warning("Failed", `Error: ${reason}`, container?.name),
      ];
    }
    case "runSandbox":
      return [warning("FailedCreatePodSandBox", message)];
    case "createContainer":
      return [warning("Failed", `Error: ${message}`, action.name)];
    case "startContainer":
      // The id of an instance would make each failure another one; users know the container by its name.
      return [warning("Failed", `Error: ${message.replaceAll(action.id, action.name)}`, action.name)];
    case "runHook":
      return [warning("FailedPostStartHook", "PostStartHook failed", action.name)];
    case "runPreStop":
    case "stopContainer":
      return [killFailure("KillContainer", action.name, reason, message)];
    case "stopSandbox":
      return [killFailure("KillPodSandbox", uid, reason, message)];
    case "removeContainer":
    case "removeSandbox":
    case "removeVolumes":
    case "releaseIds":
    case "removePodFiles":
      return [];
  }
}

function killFailure(what: string, target: string, reason: string, message: string): PodEvent {
  const why = `failed to "${what}" for "${target}" with ${reason}: ${JSON.stringify(message)}`;
  return warning("FailedKillPod", `error killing pod: ${why}`);
}

/** What is told because a status has become another one; `before` is the last one, or what the API server showed before. */
export function eventsOfStatus(pod: Pod, before: PodStatus | undefined, after: PodStatus): readonly PodEvent[] {
  const containers = allContainerStatuses(after).flatMap((status) =>
    waitingEvents(pod, statusNamed(before, status.name), status),
  );
  return [
    ...networkEvents(before, after),
    ...containers,
    ...resizeEvents(pod, before, after),
    ...endEvents(before, after),
  ];
}

function resizeEvents(pod: Pod, before: PodStatus | undefined, after: PodStatus): readonly PodEvent[] {
  const message = resizeNews(pod, before, after);
  return message === undefined ? [] : [warning("ResizeInfeasible", message)];
}

/** That there is no network is told of the pod, when it begins to wait for one. */
function networkEvents(before: PodStatus | undefined, after: PodStatus): readonly PodEvent[] {
  const message = networkMessageOf(after);
  return message === undefined || networkMessageOf(before) !== undefined ? [] : [warning("NetworkNotReady", message)];
}

function networkMessageOf(status: PodStatus | undefined): string | undefined {
  const messages = allContainerStatuses(status).map(({ state }) => state?.waiting?.message);
  return messages.find((message) => message?.startsWith(NETWORK_IS_NOT_READY));
}

function endEvents(before: PodStatus | undefined, { phase, reason, message = "" }: PodStatus): readonly PodEvent[] {
  if (phase !== "Failed" || before?.phase === "Failed" || reason === undefined) return [];
  if (message.startsWith(REJECTED)) return [warning(reason, message.slice(REJECTED.length))];
  return reason === "DeadlineExceeded" ? [normal(reason, message)] : [];
}

/** What a container waits for is told when it begins to wait for it. */
function waitingEvents(pod: Pod, before: ContainerStatus | undefined, after: ContainerStatus): readonly PodEvent[] {
  const { name, restartCount, state } = after;
  const { reason, message = "" } = state?.waiting ?? {};
  if (reason === before?.state?.waiting?.reason && restartCount === before?.restartCount) return [];
  const image = containerNamed(pod, name)?.image ?? "";
  const { name: podName = "", namespace = "default", uid = "" } = pod.metadata;
  const failed = warning("Failed", `Error: ${reason}`, name);
  switch (reason) {
    case "CrashLoopBackOff": {
      const what = `Back-off restarting failed container ${name} in pod ${podName}_${namespace}(${uid})`;
      return [warning("BackOff", what, name)];
    }
    case "ImagePullBackOff":
      return [normal("BackOff", `Back-off pulling image "${image}"`, name), failed];
    case "ErrImageNeverPull":
      return [warning("ErrImageNeverPull", message, name), failed];
    case "ImageInspectError":
    case "InvalidImageName":
      return [warning("InspectFailed", message, name), failed];
    default:
      return [];
  }
}

/** What is told of the answer to a probe; nothing of one that is as it should be. */
export function eventOfProbe(
  kind: ProbeKind,
  { result, verdict, message }: ProbeOutcome,
  container: string,
): PodEvent | undefined {
  const word = `${kind[0]?.toUpperCase()}${kind.slice(1)} probe`;
  switch (result) {
    case "success":
      return undefined;
    case "warning":
      return warning("ProbeWarning", `${word} warning: ${message}`, container);
    case "failure":
      return warning("Unhealthy", `${word} failed: ${message}`, container);
    case "error":
      return warning(
        "Unhealthy",
        `${word} errored and resulted in ${verdict ?? "unknown"} state: ${message}`,
        container,
      );
  }
}

/** What is told of a pod of a manifest when another one of the same source has its name. */
export function namesakeEvent(
  { metadata: { name = "", namespace = "default", uid = "" } }: Pod,
  kind: SourceKind,
): PodEvent {
  const what = `Error validating pod ${name}_${namespace}(${uid}) from ${kind}`;
  return warning("FailedValidation", `${what} due to duplicate pod name "${name}", ignoring`);
}

/** What is told of a pod of the API that is none as this release knows them. The kubelet tells nobody, and hears of no pod any more. */
export function unreadableEvent(problem: string): PodEvent {
  return warning("FailedValidation", `Error validating pod from api, ignoring: ${problem}`);
}

/** What is told of a pod that cannot be looked at, or not be decided upon. */
export function blindEvent(why: string): PodEvent {
  return warning("FailedSync", `error determining status: ${why}`);
}

/** Two containers of one image are one pull; it is told of the first. */
function containerOf(pod: Pod | undefined, image: string): Container | undefined {
  return pod && allContainers(pod.spec).find((container) => imageOf(container) === image);
}

function normal(reason: string, message: string, container?: string): PodEvent {
  return { type: "Normal", reason, message, ...(container === undefined ? {} : { container }) };
}

function warning(reason: string, message: string, container?: string): PodEvent {
  return { type: "Warning", reason, message, ...(container === undefined ? {} : { container }) };
}
