import type { PodUid } from "../../proto/ids.ts";
import { type DesiredPod, fullNameOf } from "../decide/desired.ts";

/** Pods in the order in which they were accepted, found by uid, and by namespace and name. */
export interface PodIndex {
  get(uid: PodUid): DesiredPod | undefined;
  put(pod: DesiredPod): void;
  drop(pod: DesiredPod): void;
  all(): readonly DesiredPod[];
  /** Those of the same namespace and name that are there, the pod itself among them if it is. */
  namesakesOf(pod: DesiredPod): readonly DesiredPod[];
}

export function createPodIndex(): PodIndex {
  const pods = new Map<PodUid, DesiredPod>();
  /** Nearly every name belongs to one pod: only where it does not is the order looked at. */
  const countByName = new Map<string, number>();

  return {
    get: (uid) => pods.get(uid),
    all: () => [...pods.values()],
    put(pod) {
      const name = fullNameOf(pod.pod);
      if (!pods.has(pod.uid)) countByName.set(name, (countByName.get(name) ?? 0) + 1);
      pods.set(pod.uid, pod);
    },
    drop(pod) {
      if (!pods.delete(pod.uid)) return;
      const name = fullNameOf(pod.pod);
      const left = (countByName.get(name) ?? 1) - 1;
      if (left === 0) countByName.delete(name);
      else countByName.set(name, left);
    },
    namesakesOf(pod) {
      const name = fullNameOf(pod.pod);
      if (countByName.get(name) === 1 && pods.has(pod.uid)) return [pod];
      return [...pods.values()].filter((other) => fullNameOf(other.pod) === name);
    },
  };
}
