import { CgroupError } from "../../cgroups/error.ts";
import type { CgroupFiles } from "../../cgroups/files.ts";
import { type CgroupLayout, createCgroupLayout, parseCgroupPath } from "../../cgroups/path.ts";
import type { CgroupDriver } from "../../proto/kubelet/config.ts";
import type { Config } from "../config/config.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import { StartError } from "../preflight/start-error.ts";

/** The settings that name cgroups of other programs. */
export type ConfiguredCgroups = Pick<Config, "cgroupRoot"> &
  Pick<NodeSettings, "cgroupsPerQOS" | "enforceNodeAllocatable" | "reservedCgroupPaths">;

/**
 * Refuses to start when `cgroupRoot`, or a cgroup of which a reservation is enforced, does not exist: the agent makes none
 * of them, and a `cgroupRoot` with a typing error would move all pods. The runtime's driver is not known yet, so a cgroup
 * that has the path's name with either driver will do. `root` is where cgroup v2 is mounted. Throws `StartError` with the
 * cure. Rule: the kubelet's NewContainerManager and enforceExistingCgroup, which also refuse a cgroup that lacks
 * controllers; the agent enables these.
 */
export function checkConfiguredCgroups(
  { cgroupRoot, cgroupsPerQOS, enforceNodeAllocatable, reservedCgroupPaths }: ConfiguredCgroups,
  root: string,
  files: Pick<CgroupFiles, "read">,
): void {
  if (!cgroupsPerQOS) return;
  const check = (setting: string, path: string, otherCure: string, reason = "") => {
    const [cgroupfs, systemd] = DRIVERS.map((driver) => foundAt(setting, path, root, driver));
    const exists = [cgroupfs, systemd].some((at) => files.read(`${at?.folder}/cgroup.controllers`) !== undefined);
    if (exists) return;
    throw new StartError(
      `${reason}${setting} ${JSON.stringify(path)} does not exist: make it before the agent starts (with systemd: systemctl start ${systemd?.unit}, else mkdir ${cgroupfs?.folder}), or ${otherCure}`,
    );
  };
  if (cgroupRoot.split("/").some((element) => element !== ""))
    check("cgroupRoot", cgroupRoot, "remove cgroupRoot, so that kubepods is below the root");
  for (const owner of ["system", "kube"] as const) {
    const enforced = [`${owner}-reserved`, `${owner}-reserved-compressible`] as const;
    const level = enforced.find((each) => enforceNodeAllocatable.includes(each));
    if (level === undefined) continue;
    const cure = `remove ${level} from enforceNodeAllocatable`;
    check(`${owner}ReservedCgroup`, reservedCgroupPaths[owner], cure, `enforceNodeAllocatable has ${level}, and `);
  }
}

const DRIVERS: readonly CgroupDriver[] = ["cgroupfs", "systemd"];

function foundAt(setting: string, path: string, root: string, driver: CgroupDriver) {
  const at = (layout: CgroupLayout, name: readonly string[]) => ({
    folder: layout.path(name),
    unit: layout.units(name).at(-1),
  });
  try {
    // The path of `cgroupRoot` is that of cgroupfs with either driver.
    return setting === "cgroupRoot"
      ? at(createCgroupLayout({ root, cgroupRoot: path, driver }), [])
      : at(createCgroupLayout({ root, cgroupRoot: "", driver }), parseCgroupPath(path, driver));
  } catch (error) {
    if (!(error instanceof CgroupError)) throw error;
    throw new StartError(`${setting} ${JSON.stringify(path)} cannot be the path of a cgroup: ${error.message}`);
  }
}
