import type { Clock } from "../host/clock.ts";
import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { CgroupStats } from "../proto/cgroup/stats.ts";
import type { Cgroups } from "./cgroups.ts";
import type { PageSizes, ReadFile } from "./controller.ts";
import type { CgroupFiles } from "./files.ts";
import { absentCgroup, controllers, differingFiles, differingLimits, missingControllers } from "./limits.ts";
import { createCgroupLayout } from "./path.ts";
import { readPressure } from "./psi.ts";
import { cgroupfsSteps, createSlices } from "./systemd/slices.ts";
import type { Systemd } from "./systemd/systemd.ts";
import { createCgroupTree } from "./tree.ts";

export interface CgroupsOptions {
  /** Where cgroup v2 is mounted: `/sys/fs/cgroup`. */
  readonly root: string;
  /** The kubelet's `cgroupRoot`. */
  readonly cgroupRoot: string;
  /** Makes and limits the cgroups, as slices; undefined with the cgroupfs driver. */
  readonly systemd: Systemd | undefined;
  readonly sizes: PageSizes;
  readonly files: CgroupFiles;
  readonly clock: Clock;
}

/** How long processes may take to end after SIGKILL. */
const KILL_TIMEOUT_MS = 10_000;

/** The kernel's cgroups. With the systemd driver, systemd gets each limit first; the agent's own write makes it valid at once. */
export function createCgroups({ root, cgroupRoot, systemd, sizes, files, clock }: CgroupsOptions): Cgroups {
  const driver = systemd === undefined ? "cgroupfs" : "systemd";
  const layout = createCgroupLayout({ root, cgroupRoot, driver });
  const tree = createCgroupTree({ root, files, clock, killTimeoutMs: KILL_TIMEOUT_MS });
  const steps = systemd === undefined ? cgroupfsSteps : createSlices({ systemd, layout, tree });

  /** The folder of a cgroup that exists. */
  function existing(name: Parameters<Cgroups["read"]>[0]): string {
    const folder = layout.path(name);
    if (!tree.exists(folder)) throw absentCgroup(folder);
    return folder;
  }
  const readerOf =
    (folder: string): ReadFile =>
    (file) =>
      files.read(`${folder}/${file}`);

  const write: Cgroups["write"] = async (name, limits, signal) => {
    const folder = existing(name);
    const wanted = possibleLimits(steps.possible(limits), tree.offered());
    const changed = differingLimits(files, folder, wanted, sizes);
    if (Object.keys(changed).length === 0) return;
    await steps.write(name, changed, signal);
    // systemd enables some controllers itself, later than its reply.
    await tree.enable(layout.folders(name), missingControllers(files, folder, changed, sizes));
    let refused: unknown;
    for (const { file, value } of differingFiles(files, folder, changed, sizes))
      await files.write(`${folder}/${file}`, value).catch((error: unknown) => {
        // The other limits hold all the same; the first error is the caller's.
        refused ??= error;
      });
    if (refused !== undefined) throw refused;
  };

  return {
    driver,
    async make(name, limits, signal) {
      const folders = layout.folders(name);
      await steps.make(name, steps.possible(limits), signal);
      await tree.make(folders);
      await write(name, limits, signal);
    },
    write,
    exists: async (name) => tree.hasControllers(layout.path(name)),
    async children(name) {
      const found = files.folders(layout.path(name)) ?? [];
      return found.map((folder) => layout.elementOf(name, folder)).toSorted();
    },
    async remove(name, signal) {
      const folder = layout.path(name);
      await steps.remove(name, signal);
      await tree.remove(folder, signal);
    },
    async read(name) {
      const read = readerOf(existing(name));
      return Object.assign({}, ...controllers.map((controller) => controller.limits(read, sizes)));
    },
    async stats(name) {
      const folder = layout.path(name);
      const read = readerOf(folder);
      const found = [...controllers.map((controller) => controller.stats(read, sizes)), readPressure(read)];
      const stats: CgroupStats = Object.assign({}, ...found);
      // Every cgroup has `cpu.stat`, also without the controller.
      if (stats.cpu === undefined) throw absentCgroup(folder);
      return stats;
    },
    criParent: layout.criParent,
  };
}

/** A kernel without the hugetlb controller limits no huge pages, though it may have them; one without cpuset limits no CPUs. */
function possibleLimits(limits: CgroupLimits, offered: readonly string[]): CgroupLimits {
  const { hugetlbMax, cpus, ...rest } = limits;
  return {
    ...rest,
    ...(hugetlbMax !== undefined && offered.includes("hugetlb") && { hugetlbMax }),
    ...(cpus !== undefined && offered.includes("cpuset") && { cpus }),
  };
}
