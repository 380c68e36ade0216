// What pods show of resizes.
import type { ReferenceRow } from "./reference-row.ts";

export const resizesRows: readonly ReferenceRow[] = [
  [
    130,
    "admission of a resize",
    {
      "resize-up": "status main.resources.limits.cpu = 600m",
      "resize-below-minimum": "status main.allocatedResources.cpu = 1m",
      "resize-to-10m": "status main.allocatedResources.cpu = 10m",
      "resize-in-decimals": "status main.resources.limits.memory = 78125Ki",
    },
  ],
  [
    131,
    "execution of a resize",
    {
      "resize-down": "cgroup main: cpu.max = 40000 100000",
      "resize-of-two": "cgroup other: memory.max = 67108864",
      "resize-of-sidecar": "cgroup proxy: cpu.max = 42000 100000",
      "resize-restarts-for-memory": "status main.restartCount = 1",
    },
  ],
];
