import type { Cgroups } from "../../../cgroups/cgroups.ts";

import { possiblePodCgroups, qosParents, uidOfPodCgroup } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { readIfPresent } from "../read-cgroup.ts";

/** Reads the cgroups of pods. Every method rejects with `CgroupError`. */
export interface PodCgroupReader {
  /** The limits of the pod's cgroup; undefined if it has none. The pod's QoS class need not be known. */
  read(uid: PodUid): Promise<CgroupLimits | undefined>;
  /** The pods that have a cgroup below those of the QoS classes; anything else there is not ours to remove. */
  list(): Promise<readonly PodUid[]>;
}

export function createPodCgroupReader(cgroups: Pick<Cgroups, "children" | "read">): PodCgroupReader {
  return {
    async read(uid) {
      for (const name of possiblePodCgroups(uid)) {
        const limits = await readIfPresent(cgroups, name);
        if (limits !== undefined) return limits;
      }
      return undefined;
    },
    async list() {
      const children = await Promise.all(Object.values(qosParents).map((parent) => cgroups.children(parent)));
      return children.flat().flatMap((child) => (uidOfPodCgroup(child) as PodUid | undefined) ?? []);
    },
  };
}
