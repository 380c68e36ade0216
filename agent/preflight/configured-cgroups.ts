import { CgroupError } from "../../cgroups/error.ts";
import { type CgroupLayout, createCgroupLayout, parseCgroupPath } from "../../cgroups/path.ts";
import type { CgroupDriver } from "../../proto/kubelet/config.ts";
import type { Config } from "../config/config.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import { StartError } from "./start-error.ts";

/** The settings that name cgroups of other programs. */
export interface ConfiguredCgroups {
  readonly cgroupRoot: Config["cgroupRoot"];
  readonly node: Pick<NodeSettings, "cgroupsPerQOS" | "enforceNodeAllocatable" | "reservedCgroupPaths">;
}

/** What is wrong with a configured cgroup, and what cures it. */
export interface ConfiguredCgroupProblem {
  readonly what: string;
  readonly cure: string;
}

/**
 * Refuses to start when `cgroupRoot`, or a cgroup of which a reservation is enforced, does not exist. Throws `StartError`
 * with the cure. The arguments are those of `findConfiguredCgroupProblems`.
 */
export function checkConfiguredCgroups(config: ConfiguredCgroups, root: string, exists: FileExists): void {
  const [problem] = findConfiguredCgroupProblems(config, root, exists);
  if (problem !== undefined) throw new StartError(`${problem.what}: ${problem.cure}`);
}

/** Whether there is a file or folder at an absolute path. */
type FileExists = (path: string) => boolean;

/**
 * The configured cgroups that do not exist: the agent makes none of them, and a `cgroupRoot` with a typing error would move
 * all pods. The runtime's driver is not known before it answers, so a cgroup that has the path's name with either driver will
 * do. `root` is where cgroup v2 is mounted. Rule: the kubelet's NewContainerManager and enforceExistingCgroup, which also
 * refuse a cgroup that lacks controllers; the agent enables these.
 */
export function findConfiguredCgroupProblems(
  { cgroupRoot, node: { cgroupsPerQOS, enforceNodeAllocatable, reservedCgroupPaths } }: ConfiguredCgroups,
  root: string,
  exists: FileExists,
): readonly ConfiguredCgroupProblem[] {
  if (!cgroupsPerQOS) return [];
  const check = (setting: string, path: string, otherCure: string, reason = ""): readonly ConfiguredCgroupProblem[] => {
    const shown = `${setting} ${JSON.stringify(path)}`;
    try {
      const [cgroupfs, systemd] = DRIVERS.map((driver) => placeOf(setting, path, root, driver));
      if ([cgroupfs, systemd].some((place) => exists(`${place?.folder}/cgroup.controllers`))) return [];
      const make = `with systemd: systemctl start ${systemd?.unit}, else mkdir ${cgroupfs?.folder}`;
      const cure = `make it before the agent starts (${make}), or ${otherCure}`;
      return [{ what: `${reason}${shown} does not exist`, cure }];
    } catch (error) {
      if (!(error instanceof CgroupError)) throw error;
      return [{ what: `${shown} cannot be the path of a cgroup: ${error.message}`, cure: otherCure }];
    }
  };
  const isRoot = cgroupRoot.split("/").every((element) => element === "");
  const ofRoot = isRoot ? [] : check("cgroupRoot", cgroupRoot, "remove cgroupRoot, so that kubepods is below the root");
  const reserved = (["system", "kube"] as const).flatMap((owner) => {
    const enforced = [`${owner}-reserved`, `${owner}-reserved-compressible`] as const;
    const level = enforced.find((each) => enforceNodeAllocatable.includes(each));
    if (level === undefined) return [];
    const cure = `remove ${level} from enforceNodeAllocatable`;
    return check(
      ...[`${owner}ReservedCgroup`, reservedCgroupPaths[owner], cure, `enforceNodeAllocatable has ${level}, and `],
    );
  });
  return [...ofRoot, ...reserved];
}

const DRIVERS: readonly CgroupDriver[] = ["cgroupfs", "systemd"];

/** Throws `CgroupError` (`ENAME`) if no cgroup can be there. */
function placeOf(setting: string, path: string, root: string, driver: CgroupDriver) {
  const at = (layout: CgroupLayout, name: readonly string[]) => ({
    folder: layout.path(name),
    unit: layout.units(name).at(-1),
  });
  // The path of `cgroupRoot` is that of cgroupfs with either driver.
  return setting === "cgroupRoot"
    ? at(createCgroupLayout({ root, cgroupRoot: path, driver }), [])
    : at(createCgroupLayout({ root, cgroupRoot: "", driver }), parseCgroupPath(path, driver));
}
