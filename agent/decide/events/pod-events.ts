import { allContainerStatuses, containerNamed, statusNamed } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatElapsed } from "../../../proto/kubernetes/values/duration.ts";
import type { EventInput } from "../actions/action-record.ts";
import { eventContainerOf, type ImageUse, imageUseOf } from "../container/image.ts";
import type { ProbeKind, ProbeOutcome } from "../container/probe.ts";
import { recordOf } from "../pod/action.ts";
import type { ActionFinished, ActionStarted } from "../pod/action-call.ts";
import type { SourceKind, TerminationRequest } from "../pod/desired.ts";
import type { PodOutcome } from "../pod/memory.ts";
import { REJECTED_PREFIX } from "../pod/outcome.ts";
import { NETWORK_NOT_READY } from "../pod/prerequisites.ts";
import { normal, type PodEvent, warning } from "./pod-event.ts";

/** The events to record when an action starts. */
export function eventsAtStart({ action }: Pick<ActionStarted, "action">, input: EventInput): readonly PodEvent[] {
  return recordOf(action).eventsAtStart?.(action, input) ?? [];
}

/** The events to record when an action has ended. `imageSizeBytes`: the size of the pulled image, if known. */
export function eventsAtEnd(
  { uid, action, result, ...times }: ActionFinished,
  { pod }: Pick<EventInput, "pod">,
  imageSizeBytes?: number,
): readonly PodEvent[] {
  const record = recordOf(action);
  if (result === "cancelled") return [];
  if (result.ok) return record.eventsAtSuccess?.(action, { ...times, pod, result, imageSizeBytes }) ?? [];
  return result.isOutage ? [] : (record.eventsAtFailure?.(action, { ...result, uid, pod }) ?? []);
}

/** The event of a pull that takes long. The kubelet records none before the pull has ended. */
export function longPullEvent(pod: Pod | undefined, image: string, lastedMs: number): PodEvent {
  const use = imageUseOf(pod, image);
  const what = `Still pulling image "${use?.image ?? image}" after ${formatElapsed(lastedMs)}`;
  return normal("Pulling", what, eventContainerOf(use));
}

/**
 * The events of a status change. `before` is the previous status, or the one that the API server had; `unusableImages` is
 * what the waiting reasons of `after` are about, by container.
 */
export function eventsOfStatusChange(
  pod: Pod,
  before: PodStatus | undefined,
  after: PodStatus,
  unusableImages: ReadonlyMap<string, ImageUse>,
): readonly PodEvent[] {
  const containers = allContainerStatuses(after).flatMap((status) => {
    const use = unusableImages.get(status.name) ?? containerNamed(pod, status.name);
    return waitingEvents(pod, statusNamed(before, status.name), status, use);
  });
  return [...networkEvents(before, after), ...containers];
}

/** `NetworkNotReady` is recorded when the pod starts to wait for the network, and again whenever the cause changes. */
function networkEvents(before: PodStatus | undefined, after: PodStatus): readonly PodEvent[] {
  const message = networkMessageOf(after);
  return message === undefined || message === networkMessageOf(before) ? [] : [warning("NetworkNotReady", message)];
}

function networkMessageOf(status: PodStatus | undefined): string | undefined {
  const messages = allContainerStatuses(status).map(({ state }) => state?.waiting?.message);
  return messages.find((message) => message?.startsWith(NETWORK_NOT_READY));
}

/**
 * The events of a decided outcome, recorded before the containers stop: the pod was rejected, or its deadline has
 * passed.
 */
export function outcomeEvents({ reason, message = "", isRejection }: PodOutcome): readonly PodEvent[] {
  if (reason === undefined) return [];
  if (isRejection === true) return [warning(reason, message.slice(REJECTED_PREFIX.length))];
  return reason === "DeadlineExceeded" ? [normal(reason, message)] : [];
}

/** The event of a pod that the node itself ends; recorded before its containers stop, as the kubelet's evictions. */
export function terminationRequestEvent({ reason, message }: TerminationRequest): PodEvent {
  return warning(reason, message);
}

/** Records a waiting reason when the container starts to wait for it. */
function waitingEvents(
  pod: Pod,
  before: ContainerStatus | undefined,
  after: ContainerStatus,
  use: ImageUse | undefined,
): readonly PodEvent[] {
  const { name, restartCount, state } = after;
  const { reason, message = "" } = state?.waiting ?? {};
  if (reason === before?.state?.waiting?.reason && restartCount === before?.restartCount) return [];
  const { name: podName = "", namespace = "default", uid = "" } = pod.metadata;
  const failed = warning("Failed", `Error: ${reason}`, name);
  const subject = eventContainerOf(use);
  switch (reason) {
    case "CrashLoopBackOff": {
      const what = `Back-off restarting failed container ${name} in pod ${podName}_${namespace}(${uid})`;
      return [warning("BackOff", what, name)];
    }
    case "ImagePullBackOff":
      return [normal("BackOff", `Back-off pulling image "${use?.image ?? ""}"`, subject), failed];
    case "ErrImageNeverPull":
      return [warning("ErrImageNeverPull", message, subject), failed];
    case "ImageInspectError":
    case "InvalidImageName":
      return [warning("InspectFailed", message, subject), failed];
    default:
      return [];
  }
}

/** The event of a probe result; none for a success. */
export function probeEvent(
  kind: ProbeKind,
  { result, eventResult, message }: ProbeOutcome,
  container: string,
): PodEvent | undefined {
  const probeName = `${kind[0]?.toUpperCase()}${kind.slice(1)} probe`;
  switch (result) {
    case "success":
      return undefined;
    case "warning":
      return warning("ProbeWarning", `${probeName} warning: ${message}`, container);
    case "failure":
      return warning("Unhealthy", `${probeName} failed: ${message}`, container);
    case "error":
      return warning(
        "Unhealthy",
        `${probeName} errored and resulted in ${eventResult ?? "unknown"} state: ${message}`,
        container,
      );
  }
}

/** The event of a manifest's pod when another pod of the same source has its name. */
export function duplicateNameEvent(
  { metadata: { name = "", namespace = "default", uid = "" } }: Pod,
  kind: SourceKind,
): PodEvent {
  const what = `Error validating pod ${name}_${namespace}(${uid}) from ${kind}`;
  return warning("FailedValidation", `${what} due to duplicate pod name "${name}", ignoring`);
}

/**
 * The event of a pod of the API that this release cannot decode. The kubelet records none, and receives no pods any
 * more.
 */
export function invalidPodEvent(problem: string): PodEvent {
  return warning("FailedValidation", `Error validating pod from api, ignoring: ${problem}`);
}

/** The event of a pod that could not be observed or decided. */
export function syncFailedEvent(why: string): PodEvent {
  return warning("FailedSync", `error determining status: ${why}`);
}
