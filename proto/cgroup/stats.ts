/**
 * What a cgroup uses, with all cgroups below it. Bytes and microseconds. A field is absent if the kernel has no file for
 * it: its controller is missing, or the kernel is older. Counters begin at 0 when the cgroup is made.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html
 */
export interface CgroupStats {
  readonly cpu?: CgroupCpuStats;
  readonly memory?: CgroupMemoryStats;
  readonly pids?: CgroupPidsStats;
  /** By the kernel's name of the page size (`2MB`). */
  readonly hugetlb?: Readonly<Record<string, CgroupHugetlbStats>>;
  readonly io?: readonly CgroupIoStats[];
  readonly psi?: CgroupPressure;
}

/** `cpu.stat`. */
export interface CgroupCpuStats {
  readonly usageUs: number;
  readonly userUs: number;
  readonly systemUs: number;
  /** The periods in which the cgroup ran, how many of them it was throttled in, and for how long. */
  readonly periods?: number;
  readonly throttledPeriods?: number;
  readonly throttledUs?: number;
  /** The periods in which it used CPU time saved before (`cpu.max.burst`), and how much; since Linux 6.1. */
  readonly bursts?: number;
  readonly burstUs?: number;
}

/** `memory.current`, `memory.peak`, `memory.swap.current`, `memory.stat` and `memory.events`. */
export interface CgroupMemoryStats {
  readonly currentBytes: number;
  /** `currentBytes` less the inactive file pages, which the kernel takes back first. Rule: cAdvisor's working set. */
  readonly workingSetBytes: number;
  readonly peakBytes?: number;
  readonly swapCurrentBytes?: number;
  readonly anonBytes: number;
  readonly fileBytes: number;
  readonly fileMappedBytes: number;
  readonly activeFileBytes: number;
  readonly inactiveFileBytes: number;
  readonly kernelBytes?: number;
  readonly pageFaults: number;
  readonly majorPageFaults: number;
  /** How often an allocation met `memory.max`, and how many processes the kernel has killed for it. */
  readonly maxEvents?: number;
  readonly oomKills?: number;
}

/** `pids.current`: processes and threads. */
export interface CgroupPidsStats {
  readonly current: number;
}

/** `hugetlb.SIZE.current`. */
export interface CgroupHugetlbStats {
  readonly currentBytes: number;
}

/** A line of `io.stat`: a block device by `MAJOR:MINOR`. */
export interface CgroupIoStats {
  readonly device: string;
  readonly readBytes: number;
  readonly writtenBytes: number;
  readonly reads: number;
  readonly writes: number;
  readonly discardedBytes: number;
  readonly discards: number;
}

/** `cpu.pressure`, `memory.pressure` and `io.pressure`. https://docs.kernel.org/accounting/psi.html */
export interface CgroupPressure {
  readonly cpu?: Pressure;
  readonly memory?: Pressure;
  readonly io?: Pressure;
}

/** What part of the time some, or all, processes that could run waited for a resource. */
export interface Pressure {
  readonly some: PressureShare;
  /** Absent for CPU before Linux 5.13. */
  readonly full?: PressureShare;
}

/** Percentages of the last 10, 60 and 300 seconds, and all waiting time in microseconds. */
export interface PressureShare {
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
  readonly totalUs: number;
}
