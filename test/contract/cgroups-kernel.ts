import type { CgroupFiles } from "../../cgroups/files.ts";
import { createCgroups } from "../../cgroups/kernel-cgroups.ts";
import { createCgroupLayout } from "../../cgroups/path.ts";
import type { Systemd } from "../../cgroups/systemd/systemd.ts";
import { createClock } from "../../host/clock.ts";
import { hugePageName } from "../../proto/cgroup/huge-pages.ts";
import { recordCalls, recordWrites } from "../fakes/counted-writes.ts";
import type { CgroupProcess, CgroupsFixture } from "./cgroups.ts";

export interface KernelCgroupsOptions {
  /** Where cgroup v2 is mounted, or the folder that imitates it. */
  readonly root: string;
  readonly files: CgroupFiles;
  /** Undefined for the cgroupfs driver. */
  readonly systemd: Systemd | undefined;
  readonly pageBytes: number;
  /** In bytes; empty without the hugetlb controller. */
  readonly hugePageSizes: readonly number[];
  /** Starts a process that runs until it is killed, in the cgroup of this folder. */
  startProcess(folder: string): Promise<CgroupProcess> | CgroupProcess;
  end(): Promise<void> | void;
}

/** The adapter over cgroup v2's files, as a fixture of the contract. `test/vm/contract` takes the same in a guest with a real tree. */
export function kernelCgroupsFixture(options: KernelCgroupsOptions): CgroupsFixture {
  const { root, pageBytes, hugePageSizes } = options;
  const { files, writes } = recordWrites(options.files);
  const recorded = options.systemd === undefined ? undefined : recordCalls(options.systemd);
  const driver = recorded === undefined ? "cgroupfs" : "systemd";
  const layout = createCgroupLayout({ root, cgroupRoot: "/", driver });
  const cgroups = createCgroups({
    root,
    cgroupRoot: "/",
    systemd: recorded?.systemd,
    sizes: { pageBytes, hugePageSizes },
    files,
    clock: createClock(),
  });
  return {
    cgroups,
    hugePages: hugePageSizes.map(hugePageName),
    changeMemoryMax: (name, bytes) => options.files.write(`${layout.path(name)}/memory.max`, String(bytes)),
    removeBehind: (name) => options.files.removeFolder(layout.path(name)),
    async disableControllers(name) {
      const file = `${layout.path(name.slice(0, -1))}/cgroup.subtree_control`;
      for (const controller of (options.files.read(file) ?? "").split(" "))
        await options.files.write(file, `-${controller}`);
    },
    startProcess: (name) => options.startProcess(layout.path(name)),
    writes: () => writes.length,
    calls: () => recorded?.calls.length ?? 0,
    end: () => options.end(),
  };
}
