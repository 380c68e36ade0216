/** A limit that a file of cgroup v2 holds: an amount, or `max` for none. */
export type Limit = number | "max";

/**
 * The limits of one cgroup, in the units of the kernel's files. A field that is left out is not written, so that the
 * kernel's or another writer's value stays.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html#controllers
 */
export interface CgroupLimits {
  /** `cpu.weight`, 1 to 10000. */
  readonly cpuWeight?: number;
  /** `cpu.max`: microseconds of CPU time in each period of `periodUs`. */
  readonly cpuMax?: { readonly quotaUs: Limit; readonly periodUs: number };
  /** `cpuset.cpus`, as the kernel's list format: `0-2,4`. */
  readonly cpus?: string;
  /** `memory.min`, `memory.low`, `memory.high` and `memory.max`, in bytes. */
  readonly memoryMin?: Limit;
  readonly memoryLow?: Limit;
  readonly memoryHigh?: Limit;
  readonly memoryMax?: Limit;
  /** `memory.swap.max`, in bytes. */
  readonly memorySwapMax?: Limit;
  /** `memory.oom.group`. */
  readonly killsAsGroup?: boolean;
  /** `pids.max`. */
  readonly pidsMax?: Limit;
  /** `hugetlb.SIZE.max` in bytes, by the kernel's name of the size (`2MB`). */
  readonly hugetlbMax?: Readonly<Record<string, Limit>>;
}

/** The limits of a pod's cgroup that a resize changes. */
export type ResizableLimits = Required<Pick<CgroupLimits, "cpuWeight" | "cpuMax" | "memoryMax">>;
