import type { PodUid } from "../../proto/ids.ts";
import { type DesiredPod, fullNameOf } from "../decide/pod/desired.ts";

/** The desired pods in order of acceptance, by uid and by namespace/name. */
export interface PodIndex {
  get(uid: PodUid): DesiredPod | undefined;
  put(pod: DesiredPod): void;
  drop(pod: DesiredPod): void;
  all(): readonly DesiredPod[];
  /** Calls the listener after each change, after the listeners that subscribed before it. */
  subscribe(listener: PodIndexListener): void;
  /** The pods with the same namespace and name, including the pod itself if it is in the index. */
  withSameName(pod: DesiredPod): readonly DesiredPod[];
}

/** Receives each change of the index. */
export interface PodIndexListener {
  onPodUpdated(pod: DesiredPod): void;
  onPodRemoved(uid: PodUid): void;
}

export function createPodIndex(): PodIndex {
  const listeners: PodIndexListener[] = [];
  const pods = new Map<PodUid, DesiredPod>();
  /** The number of pods by name. Nearly every name is unique, which saves a scan of all pods. */
  const countByName = new Map<string, number>();

  function count(pod: DesiredPod, change: 1 | -1): void {
    const name = fullNameOf(pod.pod);
    const total = (countByName.get(name) ?? 0) + change;
    if (total === 0) countByName.delete(name);
    else countByName.set(name, total);
  }

  return {
    get: (uid) => pods.get(uid),
    all: () => [...pods.values()],
    subscribe: (listener) => void listeners.push(listener),
    put(pod) {
      // A manifest with a fixed uid may change its pod's name.
      const before = pods.get(pod.uid);
      if (before !== undefined) count(before, -1);
      count(pod, 1);
      pods.set(pod.uid, pod);
      for (const listener of listeners) listener.onPodUpdated(pod);
    },
    drop(pod) {
      const before = pods.get(pod.uid);
      if (before !== undefined) count(before, -1);
      pods.delete(pod.uid);
      for (const listener of listeners) listener.onPodRemoved(pod.uid);
    },
    withSameName(pod) {
      const name = fullNameOf(pod.pod);
      if (countByName.get(name) === 1 && pods.has(pod.uid)) return [pod];
      return [...pods.values()].filter((other) => fullNameOf(other.pod) === name);
    },
  };
}
