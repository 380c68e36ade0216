import type { CgroupName } from "../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { CgroupStats } from "../proto/cgroup/stats.ts";
import type { CgroupDriver } from "../proto/kubelet/config.ts";

/**
 * The cgroups below the agent's root. All errors are `CgroupError`s; a hostile name (`/`, `..`, empty, NUL) gets `ENAME`
 * before any path is built. A call that its signal aborts rejects with the signal's reason; what it has started may still take
 * effect. With the systemd driver, names are those of slices, and `cpuMax` is rounded up to whole
 * percents of a CPU, which is what systemd can say, and `killsAsGroup` lasts until systemd next changes the slice: it then
 * writes 0 to `memory.oom.group` of every slice.
 */
export interface Cgroups {
  readonly driver: CgroupDriver;
  /** Makes the cgroup and the missing ones above it, enables the controllers on the way down, and writes those limits that differ. Idempotent. */
  make(name: CgroupName, limits: CgroupLimits, signal?: AbortSignal): Promise<void>;
  /**
   * Writes those limits that differ from what the files hold, so an unchanged cgroup costs reads only. The controllers of
   * limits without a file are enabled in the cgroups above. `ENOENT` if it is absent, `ECONTROLLER` if the kernel lacks the
   * controller of a limit, `EBUSY` or `EOPNOTSUPP` if a process in the cgroup above keeps it from being enabled. Huge pages are not limited
   * where the kernel has no hugetlb controller, and CPUs not where it has no cpuset.
   */
  write(name: CgroupName, limits: CgroupLimits, signal?: AbortSignal): Promise<void>;
  /** Whether it exists with the controllers cpu, cpuset, memory, hugetlb and pids, as far as the root of cgroup v2 has them. */
  exists(name: CgroupName): Promise<boolean>;
  /** The last elements of the names of the cgroups directly below, sorted; empty if it is absent. */
  children(name: CgroupName): Promise<readonly string[]>;
  /** Kills what still runs in it, and removes it and all below, bottom-up. Success if absent. `ETIMEDOUT` if a process does not end. */
  remove(name: CgroupName, signal?: AbortSignal): Promise<void>;
  /** The limits that its files hold now, as the kernel rounds them. `ENOENT` if it is absent. */
  read(name: CgroupName): Promise<CgroupLimits>;
  /** What it uses now. `ENOENT` if it is absent. */
  stats(name: CgroupName): Promise<CgroupStats>;
  /** `cgroup_parent` for CRI: the path with cgroupfs, the slice's own name with systemd. */
  criParent(name: CgroupName): string;
}
