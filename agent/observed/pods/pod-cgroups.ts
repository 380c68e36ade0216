import type { Cgroups } from "../../../cgroups/cgroups.ts";
import { type CgroupName, possiblePodCgroups, qosParents, uidOfPodCgroup } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { ifPresent } from "../read-cgroup.ts";

/** Reads the cgroups of pods. Every method rejects with `CgroupError`. */
export interface PodCgroupReader {
  /** The limits of the pod's cgroup; undefined if it has none. The pod's QoS class need not be known. */
  read(uid: PodUid): Promise<CgroupLimits | undefined>;
  /** The bytes of memory that the pod's cgroup uses; undefined if it has none, or the kernel does not count them. */
  memoryBytes(uid: PodUid): Promise<number | undefined>;
  /** The pods that have a cgroup below those of the QoS classes; anything else there is not ours to remove. */
  list(): Promise<readonly PodUid[]>;
}

export function createPodCgroupReader(cgroups: Pick<Cgroups, "children" | "read" | "stats">): PodCgroupReader {
  async function firstPresent<T>(uid: PodUid, read: (name: CgroupName) => Promise<T>): Promise<T | undefined> {
    for (const name of possiblePodCgroups(uid)) {
      const found = await ifPresent(() => read(name));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  return {
    read: (uid) => firstPresent(uid, cgroups.read),
    memoryBytes: async (uid) => (await firstPresent(uid, cgroups.stats))?.memory?.currentBytes,
    async list() {
      const children = await Promise.all(Object.values(qosParents).map((parent) => cgroups.children(parent)));
      return children.flat().flatMap((child) => (uidOfPodCgroup(child) as PodUid | undefined) ?? []);
    },
  };
}
