import type { Cgroups } from "../../cgroups/cgroups.ts";
import { CgroupError } from "../../cgroups/error.ts";
import type { CgroupName } from "../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../proto/cgroup/limits.ts";

/** The limits of a cgroup; undefined if it does not exist. Rejects with `CgroupError` if a file cannot be read. */
export async function readIfPresent(
  cgroups: Pick<Cgroups, "read">,
  name: CgroupName,
): Promise<CgroupLimits | undefined> {
  try {
    return await cgroups.read(name);
  } catch (error) {
    if (error instanceof CgroupError && error.code === "ENOENT") return undefined;
    throw error;
  }
}
