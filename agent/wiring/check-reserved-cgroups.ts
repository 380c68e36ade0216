import { CgroupError } from "../../cgroups/error.ts";
import type { CgroupFiles } from "../../cgroups/files.ts";
import { createCgroupLayout, parseCgroupPath } from "../../cgroups/path.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import { StartError } from "../preflight/start-error.ts";

/**
 * Refuses to start when a cgroup of which a reservation is enforced does not exist: the agent makes none of them. The runtime's
 * driver is not known yet, so a cgroup that has the path's name with either driver will do. `root` is where cgroup v2 is
 * mounted. Throws `StartError` with the cure. Rule: the kubelet's enforceExistingCgroup.
 */
export function checkReservedCgroups(
  { cgroupsPerQOS, enforceNodeAllocatable, reservedCgroupPaths }: ReservedSettings,
  root: string,
  files: Pick<CgroupFiles, "read">,
): void {
  if (!cgroupsPerQOS) return;
  for (const owner of ["system", "kube"] as const) {
    const enforced = [`${owner}-reserved`, `${owner}-reserved-compressible`] as const;
    const level = enforced.find((each) => enforceNodeAllocatable.includes(each));
    const path = reservedCgroupPaths[owner];
    if (level === undefined) continue;
    const [cgroupfs, slice] = (["cgroupfs", "systemd"] as const).map((driver) => folderOf(owner, path, root, driver));
    const exists = [cgroupfs, slice].some((folder) => files.read(`${folder}/cgroup.controllers`) !== undefined);
    if (exists) continue;
    const unit = slice?.slice(slice.lastIndexOf("/") + 1);
    throw new StartError(
      `enforceNodeAllocatable has ${level}, and ${owner}ReservedCgroup ${JSON.stringify(path)} does not exist: make it before the agent starts (with systemd: systemctl start ${unit}, else mkdir ${cgroupfs}), or remove ${level} from enforceNodeAllocatable`,
    );
  }
}

type ReservedSettings = Pick<NodeSettings, "cgroupsPerQOS" | "enforceNodeAllocatable" | "reservedCgroupPaths">;

function folderOf(owner: "system" | "kube", path: string, root: string, driver: "cgroupfs" | "systemd"): string {
  try {
    return createCgroupLayout({ root, cgroupRoot: "", driver }).path(parseCgroupPath(path, driver));
  } catch (error) {
    if (!(error instanceof CgroupError)) throw error;
    throw new StartError(
      `${owner}ReservedCgroup ${JSON.stringify(path)} cannot be the path of a cgroup: ${error.message}`,
    );
  }
}
