import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { CgroupIoStats, CgroupPressure } from "../../../proto/cgroup/stats.ts";
import type { SystemContainerName } from "../../../proto/kubelet/stats-summary.ts";
import type { VolumeStats } from "../../../proto/kubelet/volume-stats.ts";

/*
 * What was read of the node, its pods and their containers for one request. Times are milliseconds since the epoch. A
 * field is absent where its source has no figure.
 */

/** What a cgroup, a container or the node uses. */
export interface UsageReading {
  readonly atMs: number;
  /** Since when its counters count. */
  readonly startedAtMs?: number | undefined;
  readonly cpu?: CpuReading | undefined;
  readonly memory?: MemoryReading | undefined;
  readonly swap?: SwapReading | undefined;
  readonly psi?: CgroupPressure | undefined;
  readonly io?: readonly CgroupIoStats[] | undefined;
  readonly limits?: CgroupLimits | undefined;
  readonly processes?: ProcessesReading | undefined;
}

export interface CpuReading {
  readonly usageNs: number;
  /** CPU time in a second of time, averaged over the last readings. */
  readonly nanoCores?: number | undefined;
  readonly userNs?: number | undefined;
  readonly systemNs?: number | undefined;
  readonly periods?: number | undefined;
  readonly throttledPeriods?: number | undefined;
  readonly throttledNs?: number | undefined;
  readonly burstPeriods?: number | undefined;
  readonly burstNs?: number | undefined;
}

export interface MemoryReading {
  readonly usageBytes?: number | undefined;
  readonly workingSetBytes?: number | undefined;
  /** The limit less the working set; undefined without a limit. */
  readonly availableBytes?: number | undefined;
  readonly rssBytes?: number | undefined;
  readonly pageFaults?: number | undefined;
  readonly majorPageFaults?: number | undefined;
  readonly cacheBytes?: number | undefined;
  readonly mappedFileBytes?: number | undefined;
  readonly kernelBytes?: number | undefined;
  readonly maxUsageBytes?: number | undefined;
  readonly activeFileBytes?: number | undefined;
  readonly inactiveFileBytes?: number | undefined;
  /** How often an allocation met the limit, and how many processes the kernel has killed for it. */
  readonly limitHits?: number | undefined;
  readonly oomKills?: number | undefined;
}

export interface SwapReading {
  readonly usageBytes?: number | undefined;
  /** The limit less the usage; undefined without a limit. */
  readonly availableBytes?: number | undefined;
}

export interface ProcessesReading {
  readonly count: number;
  readonly threads?: number | undefined;
  readonly descriptors?: number | undefined;
  readonly sockets?: number | undefined;
  /** The soft limit of open files of the first process; -1 for none. */
  readonly openFilesLimit?: number | undefined;
}

/** Counters of a network interface. */
export interface InterfaceReading {
  readonly name: string;
  readonly rxBytes: number;
  readonly rxPackets: number;
  readonly rxErrors: number;
  readonly rxDropped: number;
  readonly txBytes: number;
  readonly txPackets: number;
  readonly txErrors: number;
  readonly txDropped: number;
}

/** The capacity of a file system, and what is free for users. */
export interface FileSystemReading {
  readonly atMs: number;
  readonly capacityBytes: number;
  readonly availableBytes: number;
  readonly inodes: number;
  readonly inodesFree: number;
}

/** What files take on a file system. */
export interface DiskUsageReading {
  readonly atMs: number;
  readonly usedBytes: number;
  readonly inodesUsed?: number | undefined;
}

/** A use of a file system whose capacity may be unknown. */
export interface PlacedUsage {
  readonly usage: DiskUsageReading;
  readonly fileSystem: FileSystemReading | undefined;
}

export interface ContainerReading {
  readonly id: string;
  readonly name: string;
  readonly createdAtMs: number;
  readonly image: string;
  /** The path of its cgroup below the mount point; undefined where its figures are the runtime's. */
  readonly cgroup?: string | undefined;
  readonly usage?: UsageReading | undefined;
  readonly rootfs?: PlacedUsage | undefined;
  readonly logs?: DiskUsageReading | undefined;
}

export interface PodReading {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
  /** When its sandbox was made. */
  readonly startedAtMs: number;
  /** The cgroup of the pod; undefined where pods have none. */
  readonly cgroup?: string | undefined;
  readonly usage?: UsageReading | undefined;
  readonly sandbox?: Omit<ContainerReading, "name" | "rootfs" | "logs"> | undefined;
  /** Only running containers. */
  readonly containers: readonly ContainerReading[];
  /** Interfaces of its network namespace; undefined if they were not read, and on the host's network. */
  readonly interfaces?: readonly InterfaceReading[] | undefined;
  readonly volumes?: readonly VolumeReading[] | undefined;
  /** Files in its log directory that belong to no container, and its `/etc/hosts`. */
  readonly otherFiles?: DiskUsageReading | undefined;
}

export interface VolumeReading extends VolumeStats {
  readonly atMs: number;
  /** It is on the node's own disk, so that it counts as ephemeral storage. */
  readonly isEphemeral: boolean;
}

/** A cgroup that holds no container: of the node, of a QoS class, or of a part of the system. */
export interface CgroupReading {
  readonly path: string;
  readonly usage: UsageReading;
}

export interface NodeReading {
  readonly usage: UsageReading;
  readonly interfaces?: readonly InterfaceReading[] | undefined;
  readonly fs?: (FileSystemReading & { readonly usedBytes: number }) | undefined;
  readonly imageFs?: PlacedUsage | undefined;
  readonly containerFs?: PlacedUsage | undefined;
  readonly tasks?: { readonly atMs: number; readonly max: number; readonly current: number } | undefined;
  readonly systemContainers: readonly (CgroupReading & { readonly name: SystemContainerName })[];
  /** The cgroups above those of pods, the highest first; only for the page of cAdvisor. */
  readonly cgroups?: readonly CgroupReading[] | undefined;
}

export interface StatsReadings {
  readonly node: NodeReading;
  readonly pods: readonly PodReading[];
}
