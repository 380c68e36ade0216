import type { CgroupName } from "../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../proto/cgroup/limits.ts";
import type { CgroupLayout } from "../path.ts";
import type { CgroupTree } from "../tree.ts";
import type { Systemd } from "./systemd.ts";
import { systemdLimits, systemdProperties } from "./unit-properties.ts";

/** What a driver does besides the agent's own changes of the folders and files. */
export interface DriverSteps {
  /** The limits as the driver can have them. */
  possible(limits: CgroupLimits): CgroupLimits;
  /** Before the agent makes the folders that are missing. */
  make(name: CgroupName, limits: CgroupLimits, signal?: AbortSignal): Promise<void>;
  /** Before the agent writes the limits, all of which differ from the files. */
  write(name: CgroupName, limits: CgroupLimits, signal?: AbortSignal): Promise<void>;
  /** Before the agent removes the folder. */
  remove(name: CgroupName, signal?: AbortSignal): Promise<void>;
}

/** The cgroupfs driver: the agent alone owns the folders. */
export const cgroupfsSteps: DriverSteps = {
  possible: (limits) => limits,
  make: async () => {},
  write: async () => {},
  remove: async () => {},
};

/**
 * The systemd driver: cgroups are slices, and systemd has the limits that it has words for, so that it writes them again
 * when it reads its configuration again.
 */
export function createSlices({
  systemd,
  layout,
  tree,
}: {
  systemd: Systemd;
  layout: CgroupLayout;
  tree: CgroupTree;
}): DriverSteps {
  async function set(unit: string | undefined, limits: CgroupLimits, signal?: AbortSignal): Promise<void> {
    const properties = systemdProperties(limits);
    if (unit !== undefined && properties.length > 0) await systemd.setProperties(unit, properties, signal);
  }

  return {
    possible: systemdLimits,
    /** Starts the slices that have no folder, each after the one above it. Only the last has limits. */
    async make(name, limits, signal) {
      const units = layout.units(name);
      for (const [index, folder] of layout.folders(name).entries()) {
        const unit = units[index];
        if (unit === undefined || tree.exists(folder)) continue;
        const own = index === units.length - 1 ? limits : {};
        const isNew = await systemd.startSlice(unit, units[index - 1], systemdProperties(own), signal);
        // The folder of a slice that systemd has already was removed, or the slice was started by one below it.
        if (!isNew) await set(unit, own, signal);
      }
    },
    write: (name, limits, signal) => set(layout.units(name).at(-1), limits, signal),
    async remove(name, signal) {
      const unit = layout.units(name).at(-1);
      if (unit === undefined) return;
      // systemd would wait a minute and a half for a process that ignores SIGTERM.
      await tree.killProcesses(layout.path(name), signal);
      await systemd.stop(unit, signal);
    },
  };
}
