/*
 * The answer of the summary API, `/stats/summary`: stats.k8s.io v1alpha1, field by field in the order of
 * k8s.io/kubelet/pkg/apis/stats/v1alpha1. Bytes, nanoseconds and counts; times as in RFC 3339. A field that is undefined is
 * left out, as Go does with those that are nil.
 */

export interface StatsSummary {
  readonly node: NodeStats;
  readonly pods: readonly PodStats[];
}

/** What the node uses, with all its processes. */
export interface NodeStats {
  readonly nodeName: string;
  readonly systemContainers?: readonly ContainerStats[] | undefined;
  readonly startTime: string;
  readonly cpu?: CpuStats | undefined;
  readonly memory?: MemoryStats | undefined;
  readonly io?: IoStats | undefined;
  readonly network?: NetworkStats | undefined;
  readonly fs?: SummaryFsStats | undefined;
  readonly runtime?: RuntimeStats | undefined;
  readonly rlimit?: RlimitStats | undefined;
  readonly swap?: SwapStats | undefined;
}

/** The limit of tasks on the node, and how many there are. */
export interface RlimitStats {
  readonly time: string;
  readonly maxpid?: number | undefined;
  readonly curproc?: number | undefined;
}

/** The file systems of images and of writable layers; usage is that of the images or the layers alone. */
export interface RuntimeStats {
  readonly imageFs?: SummaryFsStats | undefined;
  readonly containerFs?: SummaryFsStats | undefined;
}

/** Cgroups that are no pods, by the name of what they are for. */
export type SystemContainerName = "kubelet" | "runtime" | "misc" | "pods";

export interface ProcessStats {
  readonly process_count?: number | undefined;
}

export interface PodStats {
  readonly podRef: PodReference;
  readonly startTime: string;
  readonly containers: readonly ContainerStats[];
  readonly cpu?: CpuStats | undefined;
  readonly memory?: MemoryStats | undefined;
  readonly io?: IoStats | undefined;
  readonly network?: NetworkStats | undefined;
  readonly volume?: readonly SummaryVolumeStats[] | undefined;
  readonly "ephemeral-storage"?: SummaryFsStats | undefined;
  readonly process_stats?: ProcessStats | undefined;
  readonly swap?: SwapStats | undefined;
}

/** A container of a pod, or a system container. */
export interface ContainerStats {
  readonly name: string;
  readonly startTime: string;
  readonly cpu?: CpuStats | undefined;
  readonly memory?: MemoryStats | undefined;
  readonly io?: IoStats | undefined;
  readonly rootfs?: SummaryFsStats | undefined;
  readonly logs?: SummaryFsStats | undefined;
  readonly swap?: SwapStats | undefined;
}

export interface PodReference {
  readonly name: string;
  readonly namespace: string;
  readonly uid: string;
}

export interface InterfaceStats {
  readonly name: string;
  readonly rxBytes?: number | undefined;
  readonly rxErrors?: number | undefined;
  readonly txBytes?: number | undefined;
  readonly txErrors?: number | undefined;
}

/** The fields of `InterfaceStats` are those of `eth0`; its name is empty if there is no such interface. */
export interface NetworkStats extends InterfaceStats {
  readonly time: string;
  readonly interfaces?: readonly InterfaceStats[] | undefined;
}

export interface CpuStats {
  readonly time: string;
  readonly usageNanoCores?: number | undefined;
  readonly usageCoreNanoSeconds?: number | undefined;
  readonly psi?: PsiStats | undefined;
}

export interface MemoryStats {
  readonly time: string;
  readonly availableBytes?: number | undefined;
  readonly usageBytes?: number | undefined;
  readonly workingSetBytes?: number | undefined;
  readonly rssBytes?: number | undefined;
  readonly pageFaults?: number | undefined;
  readonly majorPageFaults?: number | undefined;
  readonly psi?: PsiStats | undefined;
}

export interface IoStats {
  readonly time: string;
  readonly psi?: PsiStats | undefined;
}

export interface PsiStats {
  readonly full: PsiShare;
  readonly some: PsiShare;
}

/** The waiting time in all, and percentages of the last 10, 60 and 300 seconds. */
export interface PsiShare {
  readonly total: number;
  readonly avg10: number;
  readonly avg60: number;
  readonly avg300: number;
}

export interface SwapStats {
  readonly time: string;
  readonly swapAvailableBytes?: number | undefined;
  readonly swapUsageBytes?: number | undefined;
}

export interface SummaryVolumeStats extends SummaryFsStats {
  readonly name?: string | undefined;
  readonly pvcRef?: { readonly name: string; readonly namespace: string } | undefined;
}

export interface SummaryFsStats {
  readonly time: string;
  readonly availableBytes?: number | undefined;
  readonly capacityBytes?: number | undefined;
  readonly usedBytes?: number | undefined;
  readonly inodesFree?: number | undefined;
  readonly inodes?: number | undefined;
  readonly inodesUsed?: number | undefined;
}
