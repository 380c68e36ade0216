import type { PodUid } from "../../../proto/ids.ts";
import { isEphemeral, isInitContainer } from "../../../proto/kubernetes/containers.ts";
import type { Event, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import {
  type EventScene,
  eventsAtBegin,
  eventsAtEnd,
  eventsOfStatus,
  type PodEvent,
  SANDBOX_CHANGED,
} from "../../decide/events/pod-events.ts";
import type { Beginning, Taken } from "../../decide/pod/action-call.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import { isUnseen } from "../../decide/status/status.ts";
import type { EventRecorder } from "./recorder.ts";

/** Turns what the loop does and says of pods into events. None of it throws, and nothing waits for it. */
export interface PodEvents {
  /** `besides` is what is to be told at the same time. */
  begins(beginning: Beginning, besides?: readonly PodEvent[]): void;
  took(taken: Taken): void;
  report(desired: DesiredPod, status: PodStatus): void;
  /** Something else has happened to the pod, `namespace/name`. */
  tell(uid: PodUid, pod: string, event: PodEvent): void;
  finished(uid: PodUid): void;
}

export interface PodEventsSettings {
  readonly recorder: Pick<EventRecorder, "record">;
  /** The pod as it is wanted; undefined where nobody wants it. */
  readonly podOf: (uid: PodUid) => Pod | undefined;
  /** How large the runtime says an image is; undefined where it cannot say. */
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
  /** Pods have to show a right to images that are here already. */
  readonly isAccessVerified: boolean;
}

interface Memory {
  readonly pulled: Set<string>;
  /** What was told of stops, by container: asked for again, with less grace or behind its hook, it is still the same stop. */
  readonly stopping: Set<string>;
  /** The stops that have failed once. A runtime that is asked to end what has just ended by itself may say so, and heals in a second. */
  readonly failing: Set<string>;
  /** That its sandbox is replaced was told, and no new one was tried yet. */
  isSandboxTold: boolean;
  status: PodStatus | undefined;
}

export function createPodEvents({ recorder, podOf, imageSizeBytes, isAccessVerified }: PodEventsSettings): PodEvents {
  const memories = new Map<PodUid, Memory>();

  function memoryOf(uid: PodUid): Memory {
    const known = memories.get(uid);
    if (known !== undefined) return known;
    const sets = { pulled: new Set<string>(), stopping: new Set<string>(), failing: new Set<string>() };
    const memory: Memory = { ...sets, isSandboxTold: false, status: undefined };
    memories.set(uid, memory);
    return memory;
  }

  const sceneOf = (uid: PodUid): EventScene => ({ pod: podOf(uid), pulled: memoryOf(uid).pulled, isAccessVerified });

  /** True for the first time that this is told of a stop or of a new sandbox, and for all that is told of anything else. */
  function isNews({ uid, action }: Pick<Beginning, "uid" | "action">, { reason, message }: PodEvent): boolean {
    const memory = memoryOf(uid);
    if (reason === SANDBOX_CHANGED) {
      const isFirst = !memory.isSandboxTold;
      memory.isSandboxTold = true;
      return isFirst;
    }
    if (action.kind !== "runPreStop" && action.kind !== "stopContainer") return true;
    const { stopping } = memory;
    const key = `${action.id} ${message}`;
    const isFirst = !stopping.has(key);
    stopping.add(key);
    return isFirst;
  }

  /** True for the first failure of a stop, which is not told. */
  function mayHeal({ uid, action, result }: Taken): boolean {
    if (action.kind !== "stopContainer" && action.kind !== "stopSandbox") return false;
    const { failing } = memoryOf(uid);
    const isFirst = result !== "given up" && !result.ok && !failing.has(action.id);
    if (isFirst) failing.add(action.id);
    return isFirst;
  }

  function tell({ uid, pod }: Pick<Beginning, "uid" | "pod">, told: readonly PodEvent[], at?: number): void {
    const wanted = podOf(uid);
    const version = wanted?.metadata.resourceVersion;
    for (const event of told) {
      const path = event.container === undefined ? undefined : fieldPathOf(wanted, event.container);
      recorder.record(referenceOf(uid, pod, version, path), event, at);
    }
  }

  return {
    begins(beginning, besides = []) {
      const { uid, action } = beginning;
      tell(beginning, [
        ...eventsAtBegin(beginning, sceneOf(uid)).filter((event) => isNews(beginning, event)),
        ...besides,
      ]);
      // The next instance of that image finds it there.
      if (action.kind === "createContainer") memoryOf(uid).pulled.delete(action.image);
    },
    took(taken) {
      const { uid, action, result } = taken;
      if (action.kind === "runSandbox") memoryOf(uid).isSandboxTold = false;
      if (mayHeal(taken)) return;
      const scene = sceneOf(uid);
      if (action.kind !== "pullImage" || result === "given up" || !result.ok)
        return tell(taken, eventsAtEnd(taken, scene));
      memoryOf(uid).pulled.add(action.image);
      const tellSize = (size: number | undefined) => tell(taken, eventsAtEnd(taken, scene, size), taken.endedAt);
      // A size that is not known is no reason to say nothing.
      imageSizeBytes(action.image).then(tellSize, () => tellSize(undefined));
    },
    report({ uid, pod }, status) {
      const memory = memoryOf(uid);
      if (isUnseen(status) || memory.status === status) return;
      const before = memory.status ?? pod.status;
      memory.status = status;
      tell({ uid, pod: fullNameOf(pod) }, eventsOfStatus(pod, before, status));
    },
    tell: (uid, pod, event) => tell({ uid, pod }, [event]),
    finished: (uid) => void memories.delete(uid),
  };
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
