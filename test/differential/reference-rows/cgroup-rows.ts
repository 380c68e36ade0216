// What pods show of cgroups.
import { needsOptions, type ReferenceRow } from "./reference-row.ts";

/** Most of their pods run in the guest; the kubelet's cgroups are in `test/golden/kubelet-cgroups`. */
export const cgroupsRows: readonly ReferenceRow[] = [
  [
    138,
    "names with cgroupfs",
    {
      guaranteed: "cgroup kubepods/guaranteed:",
      "burstable-limits": "cgroup kubepods/burstable/burstable-limits:",
      besteffort: "cgroup kubepods/besteffort/besteffort:",
    },
  ],
  [
    139,
    "names with systemd",
    {
      guaranteed: "cgroup kubepods/guaranteed:",
      "burstable-limits": "cgroup kubepods/burstable/burstable-limits:",
      besteffort: "cgroup kubepods/besteffort/besteffort:",
    },
  ],
  [140, "existence", "Pods have no cgroup without its controllers; the contract suite turns them off."],
  [
    141,
    "CPU weight",
    {
      "burstable-28m": "cgroup main: cpu.weight = 1",
      "burstable-29m": "cgroup main: cpu.weight = 2",
      "burstable-many-cpus": "cgroup main: cpu.max = 100000000 100000",
      "resize-to-1m": "cgroup main: cpu.max = 1000 100000",
    },
  ],
  [
    142,
    "CPU quota",
    {
      "burstable-cpu-unlimited": "cgroup second: cpu.max = max 100000",
      "burstable-largest-quota": "cgroup main: cpu.max = 17592186044000 100000",
      "resize-to-11m": "cgroup main: cpu.max = 1100 100000",
    },
  ],
  [
    143,
    "memory",
    {
      "guaranteed-odd-memory": "cgroup main: memory.max = 39997440",
      "burstable-memory-unlimited": "cgroup second: memory.max = max",
      "guaranteed-overhead": "cgroup kubepods/guaranteed-overhead: memory.max = 58720256",
      "guaranteed-init": "cgroup kubepods/guaranteed-init: memory.max = 67108864",
    },
  ],
  [144, "MemoryQoS", needsOptions],
  [
    145,
    "processes and huge pages",
    { "guaranteed-huge-pages": "hugetlb.2MB.max = 4194304", "burstable-huge-pages": "hugetlb.2MB.max = 2097152" },
  ],
  // The bed's containerd raises a negative value to its own, 0.
  [
    146,
    "oom_score_adj",
    {
      guaranteed: "inside main: oom = 0",
      burstable: "inside main: oom = 999",
      "request-of-memory": "inside main: oom = 998",
      "default-view": "inside main: oom = 1000",
    },
  ],
  [147, "enforcement on the node", needsOptions],
  [148, "kernel settings", "No pod shows them; the guest compares them after the start."],
  [
    149,
    "swap",
    {
      "guaranteed-odd-memory": "cgroup main: memory.swap.max = 0",
      "burstable-limits": "cgroup second: memory.swap.max = 0",
    },
  ],
];
