import type { PodUid } from "../../../proto/ids.ts";
import { isEphemeral, isInitContainer } from "../../../proto/kubernetes/containers.ts";
import type { Event, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { EventInput } from "../../decide/actions/action-record.ts";
import { imagesOfCreation } from "../../decide/actions/container-actions.ts";
import { type PodEvent, SANDBOX_CHANGED } from "../../decide/events/pod-event.ts";
import {
  eventsAtEnd,
  eventsAtStart,
  eventsOfStatusChange,
  outcomeEvents,
  terminationRequestEvent,
} from "../../decide/events/pod-events.ts";
import type { ActionFinished, ActionStarted } from "../../decide/pod/action-call.ts";
import { type DatedTerminationRequest, type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import type { PodOutcome } from "../../decide/pod/memory.ts";
import type { Decision } from "../../decide/pod/pod.ts";
import { isTerminal } from "../../decide/sources/api-pod.ts";
import { isUnobservedStatus } from "../../decide/status/status.ts";
import type { EventRecorder } from "./recorder.ts";

/** Records events for the actions and statuses of pods. Works in the background; never throws. */
export interface PodEventRecorder {
  /** `additional`: further events to record after those of the action. */
  onActionStarted(started: ActionStarted, additional?: readonly PodEvent[]): void;
  onActionFinished(finished: ActionFinished): void;
  /**
   * `outcome`: set once it is decided how the pod ends, perhaps long before its status shows it. `unusableImages`: what its
   * waiting reasons are about, by container.
   */
  onStatus(
    desired: DesiredPod,
    status: PodStatus,
    outcome?: PodOutcome,
    unusableImages?: Decision["unusableImages"],
  ): void;
  /** Records any other event of the pod, `namespace/name`. */
  recordEvent(uid: PodUid, pod: string, event: PodEvent): void;
  onPodRemoved(uid: PodUid): void;
}

export interface PodEventRecorderOptions {
  readonly recorder: Pick<EventRecorder, "record">;
  /** The desired pod; undefined if no source wants it. */
  readonly podOf: (uid: PodUid) => Pod | undefined;
  /** The image's size as the runtime reports it; undefined if unknown. */
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
  /** Pods must prove their access to images that are already present. */
  readonly isImageAccessVerified: boolean;
}

interface EventMemory {
  readonly pulled: Set<string>;
  /** The recorded stop events, by container: a repeated stop with less grace or after its hook is the same stop. */
  readonly stopping: Set<string>;
  /**
   * Stops that failed once. A runtime may fail to stop a container that has just exited, and succeed a second later.
   */
  readonly failing: Set<string>;
  /** SandboxChanged was recorded and no new sandbox was attempted since. */
  isSandboxChangeRecorded: boolean;
  /** When the node requested the termination whose event was recorded. */
  terminationRequestedAt: number | undefined;
  /** The outcome whose events were recorded. */
  outcome: PodOutcome | undefined;
  status: PodStatus | undefined;
}

function createEventMemory(): EventMemory {
  return {
    pulled: new Set(),
    stopping: new Set(),
    failing: new Set(),
    isSandboxChangeRecorded: false,
    terminationRequestedAt: undefined,
    outcome: undefined,
    status: undefined,
  };
}

export function createPodEventRecorder({
  recorder,
  podOf,
  imageSizeBytes,
  isImageAccessVerified,
}: PodEventRecorderOptions): PodEventRecorder {
  const memories = new Map<PodUid, EventMemory>();

  function memoryOf(uid: PodUid): EventMemory {
    const known = memories.get(uid);
    if (known !== undefined) return known;
    const memory = createEventMemory();
    memories.set(uid, memory);
    return memory;
  }

  function inputOf(uid: PodUid): EventInput {
    return { pod: podOf(uid), pulledImages: memoryOf(uid).pulled, isImageAccessVerified };
  }

  /** False for a repeated event of a stop or of a sandbox replacement; true for all other events. */
  function shouldRecord(started: Pick<ActionStarted, "uid" | "action">, { reason, message }: PodEvent): boolean {
    const { uid, action } = started;
    const memory = memoryOf(uid);
    if (reason === SANDBOX_CHANGED) {
      const isFirst = !memory.isSandboxChangeRecorded;
      memory.isSandboxChangeRecorded = true;
      return isFirst;
    }
    if (action.kind !== "runPreStop" && action.kind !== "stopContainer") return true;
    const { stopping } = memory;
    const key = `${action.id} ${message}`;
    const isFirst = !stopping.has(key);
    stopping.add(key);
    return isFirst;
  }

  /** True for the first failure of a stop, which is not recorded. */
  function isFirstStopFailure({ uid, action, result }: ActionFinished): boolean {
    if (action.kind !== "stopContainer" && action.kind !== "stopSandbox") return false;
    const { failing } = memoryOf(uid);
    const isFirst = result !== "cancelled" && !result.ok && !failing.has(action.id);
    if (isFirst) failing.add(action.id);
    return isFirst;
  }

  function recordAll({ uid, pod }: Pick<ActionStarted, "uid" | "pod">, events: readonly PodEvent[], at?: number): void {
    const desired = podOf(uid);
    const version = desired?.metadata.resourceVersion;
    for (const event of events) {
      const path = event.container === undefined ? undefined : fieldPathOf(desired, event.container);
      recorder.record(referenceOf(uid, pod, version, path), event, at);
    }
  }

  return {
    onActionStarted(started, additional = []) {
      const { uid, action } = started;
      const events = eventsAtStart(started, inputOf(uid)).filter((event) => shouldRecord(started, event));
      recordAll(started, [...events, ...additional]);
      // The next container of these images finds them present.
      if (action.kind === "createContainer") deleteAll(memoryOf(uid).pulled, imagesOfCreation(action));
    },
    onActionFinished(finished) {
      const { uid, action, result } = finished;
      if (action.kind === "runSandbox") memoryOf(uid).isSandboxChangeRecorded = false;
      if (isFirstStopFailure(finished)) return;
      const input = inputOf(uid);
      if (action.kind !== "pullImage" || result === "cancelled" || !result.ok)
        return recordAll(finished, eventsAtEnd(finished, input));
      memoryOf(uid).pulled.add(action.image);
      const recordPulled = (size: number | undefined) =>
        recordAll(finished, eventsAtEnd(finished, input, size), finished.endedAt);
      // The event is recorded even if the size is unknown.
      imageSizeBytes(action.image).then(recordPulled, () => recordPulled(undefined));
    },
    onStatus({ uid, pod, terminationRequest }, status, outcome, unusableImages = new Map()) {
      const memory = memoryOf(uid);
      if (isUnobservedStatus(status) || memory.status === status) return;
      const before = memory.status ?? pod.status;
      memory.status = status;
      const ends = newEndEvents(memory, terminationRequest, outcome, isTerminal(before ?? status));
      recordAll({ uid, pod: fullNameOf(pod) }, [...ends, ...eventsOfStatusChange(pod, before, status, unusableImages)]);
    },
    recordEvent: (uid, pod, event) => recordAll({ uid, pod }, [event]),
    onPodRemoved: (uid) => void memories.delete(uid),
  };
}

/**
 * The events of a request of the node and of an outcome, each once. An earlier agent has recorded them if the pod's
 * status was terminal before.
 */
function newEndEvents(
  memory: EventMemory,
  request: DatedTerminationRequest | undefined,
  outcome: PodOutcome | undefined,
  wasTerminal: boolean,
): readonly PodEvent[] {
  const isNewRequest = request !== undefined && request.requestedAt !== memory.terminationRequestedAt;
  const isNewOutcome = outcome !== undefined && outcome !== memory.outcome;
  memory.terminationRequestedAt = request?.requestedAt;
  memory.outcome = outcome;
  if (wasTerminal) return [];
  return [...(isNewRequest ? [terminationRequestEvent(request)] : []), ...(isNewOutcome ? outcomeEvents(outcome) : [])];
}

function referenceOf(
  uid: PodUid,
  fullName: string,
  resourceVersion: string | undefined,
  fieldPath: string | undefined,
): Event["involvedObject"] {
  const [namespace = "", name = ""] = fullName.split("/");
  return {
    kind: "Pod",
    apiVersion: "v1",
    namespace,
    name,
    uid,
    ...(resourceVersion === undefined ? {} : { resourceVersion }),
    ...(fieldPath === undefined ? {} : { fieldPath }),
  };
}

function listOf(pod: Pod | undefined, container: string): string {
  if (pod === undefined) return "containers";
  if (isEphemeral(pod, container)) return "ephemeralContainers";
  return isInitContainer(pod, container) ? "initContainers" : "containers";
}

function fieldPathOf(pod: Pod | undefined, container: string): string {
  return `spec.${listOf(pod, container)}{${container}}`;
}

function deleteAll<T>(from: Set<T>, items: readonly T[]): void {
  for (const item of items) from.delete(item);
}
