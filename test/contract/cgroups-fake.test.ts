import { FakeCgroups } from "../fakes/cgroups.ts";
import { cgroupsContract } from "./cgroups.ts";

for (const driver of ["cgroupfs", "systemd"] as const)
  for (const hugePages of [["2MB", "1GB"], []])
    cgroupsContract(`in memory, with ${driver} and ${hugePages.length} huge page sizes`, async () => {
      const cgroups = new FakeCgroups({ driver, hugePages });
      return {
        cgroups,
        hugePages,
        changeMemoryMax: (name, memoryMax) => cgroups.change(name, { memoryMax }),
        removeBehind: (name) => cgroups.removeBehind(name),
        disableControllers: (name) => cgroups.disableControllers(name),
        startProcess(name) {
          const process = cgroups.startProcess(name);
          return { isRunning: () => process.isRunning };
        },
        writes: () => cgroups.writes,
        calls: () => 0,
        end: () => {},
      };
    });
