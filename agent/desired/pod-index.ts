import type { PodUid } from "../../proto/ids.ts";
import { type DesiredPod, fullNameOf } from "../decide/pod/desired.ts";

/** Pods in the order in which they were accepted, found by uid, and by namespace and name. */
export interface PodIndex {
  get(uid: PodUid): DesiredPod | undefined;
  put(pod: DesiredPod): void;
  drop(pod: DesiredPod): void;
  all(): readonly DesiredPod[];
  /** Those of the same namespace and name that are there, the pod itself among them if it is. */
  namesakesOf(pod: DesiredPod): readonly DesiredPod[];
}

/** Who hears of each change. */
export interface PodIndexListener {
  noted(pod: DesiredPod): void;
  dropped(uid: PodUid): void;
}

export function createPodIndex(listener: PodIndexListener): PodIndex {
  const pods = new Map<PodUid, DesiredPod>();
  /** Nearly every name belongs to one pod: only where it does not is the order looked at. */
  const countByName = new Map<string, number>();

  function count(pod: DesiredPod, change: 1 | -1): void {
    const name = fullNameOf(pod.pod);
    const number = (countByName.get(name) ?? 0) + change;
    if (number === 0) countByName.delete(name);
    else countByName.set(name, number);
  }

  return {
    get: (uid) => pods.get(uid),
    all: () => [...pods.values()],
    put(pod) {
      // A manifest that carries a uid may give its pod another name.
      const before = pods.get(pod.uid);
      if (before !== undefined) count(before, -1);
      count(pod, 1);
      pods.set(pod.uid, pod);
      listener.noted(pod);
    },
    drop(pod) {
      const before = pods.get(pod.uid);
      if (before !== undefined) count(before, -1);
      pods.delete(pod.uid);
      listener.dropped(pod.uid);
    },
    namesakesOf(pod) {
      const name = fullNameOf(pod.pod);
      if (countByName.get(name) === 1 && pods.has(pod.uid)) return [pod];
      return [...pods.values()].filter((other) => fullNameOf(other.pod) === name);
    },
  };
}
