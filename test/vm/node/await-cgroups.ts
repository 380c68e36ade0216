import { isDeepStrictEqual } from "node:util";
import { pollUntil } from "../../bed/poll-until.ts";
import type { CgroupTree } from "../../differential/cgroups/cgroup-tree.ts";
import { compareTrees } from "../../differential/cgroups/compare-cgroups.ts";
import type { NodeBed } from "./node-bed.ts";

/** Limits are written with the cgroup, or within a minute after it, which is more on a busy machine. */
const CGROUPS_TIMEOUT_MS = 3 * 60_000;
const POLL_MS = 1000;

/** Throws with this text if the condition does not hold. */
export function assert(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/** The cgroups, once `findDifferences` finds none. The error names the last ones. */
export async function awaitCgroups(
  bed: NodeBed,
  what: string,
  findDifferences: (cgroups: CgroupTree) => readonly string[],
): Promise<CgroupTree> {
  let differences: readonly string[] = [];
  return await pollUntil(
    what,
    CGROUPS_TIMEOUT_MS,
    async () => {
      const cgroups = await bed.readCgroups();
      differences = findDifferences(cgroups);
      return differences.length === 0 && cgroups;
    },
    POLL_MS,
  ).catch((cause: Error) => {
    throw new Error(`${cause.message}:\n${differences.join("\n")}`, { cause });
  });
}

/**
 * The cgroups without the files that depend on which controllers a cgroup has turned on for those below it. Without
 * containers that depends on the moment: systemd turns off those that no unit needs, and runc turns on all of them.
 */
export const withoutControllers = (cgroups: CgroupTree): CgroupTree =>
  new Map(
    [...cgroups].map(([cgroup, files]) => [
      cgroup,
      Object.fromEntries(
        Object.entries(files).filter(
          ([file]) => !/^(cgroup\.(controllers|subtree_control)|(cpuset|misc|rdma)\..*)$/.test(file),
        ),
      ),
    ]),
  );

/** Deletes all pods and returns once the cgroups are as they were without pods. */
export async function deletePods(bed: NodeBed, withoutPods: CgroupTree): Promise<void> {
  await bed.deletePods();
  await awaitCgroups(bed, "the cgroups before the first pod", (cgroups) =>
    compareTrees(
      ["the node before its first pod", withoutControllers(withoutPods)],
      ["the node after its last", withoutControllers(cgroups)],
    ),
  );
}

const SETTLE_TIMEOUT_MS = 10 * 60_000;
const SETTLE_POLL_MS = 5000;

/** All cgroups, once they have stayed as they are for this long. Throws after ten minutes. */
export async function readSettledCgroups(bed: NodeBed, unchangedMs: number): Promise<CgroupTree> {
  let settled = { cgroups: await bed.readCgroups(), since: performance.now() };
  return await pollUntil(
    "cgroups that do not change",
    SETTLE_TIMEOUT_MS,
    async () => {
      const cgroups = await bed.readCgroups();
      if (!isDeepStrictEqual(cgroups, settled.cgroups)) settled = { cgroups, since: performance.now() };
      return performance.now() - settled.since > unchangedMs && cgroups;
    },
    SETTLE_POLL_MS,
  );
}
