import type { Pressure } from "../../../proto/cgroup/stats.ts";
import type {
  ContainerStats,
  CpuStats,
  IoStats,
  MemoryStats,
  NetworkStats,
  NodeStats,
  PodStats,
  PsiStats,
  StatsSummary,
  SummaryFsStats,
  SummaryVolumeStats,
  SwapStats,
} from "../../../proto/kubelet/stats-summary.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type {
  ContainerReading,
  DiskUsageReading,
  FileSystemReading,
  InterfaceReading,
  NodeReading,
  PlacedUsage,
  PodReading,
  StatsReadings,
  UsageReading,
  VolumeReading,
} from "./readings.ts";

/** What the page has: all, or `only_cpu_and_memory`. */
export type SummaryScope = "all" | "cpu-and-memory";

/**
 * The answer of the summary API for one reading of a node. A pod is in it while one of its containers runs. Rule: the
 * kubelet's criStatsProvider and its helper.go.
 */
export function toSummary(nodeName: string, { node, pods }: StatsReadings, scope: SummaryScope): StatsSummary {
  return {
    node: toNodeStats(nodeName, node, scope),
    pods: pods.filter(({ containers }) => containers.length > 0).map((pod) => toPodStats(pod, node.fs, scope)),
  };
}

function toNodeStats(nodeName: string, node: NodeReading, scope: SummaryScope): NodeStats {
  const { usage, systemContainers, interfaces, fs, imageFs, containerFs, tasks } = node;
  const shared = {
    nodeName,
    systemContainers: systemContainers.map(({ name, usage: used }) => ({
      name,
      startTime: formatTime(used.startedAtMs ?? 0),
      ...toUsage(used, scope),
    })),
    startTime: formatTime(usage.startedAtMs ?? 0),
  };
  const { cpu, memory, io, swap } = toUsage(usage, scope);
  if (scope === "cpu-and-memory") return { ...shared, cpu, memory, swap };
  return {
    ...shared,
    ...{ cpu, memory, io },
    network: interfaces && toNetworkStats(interfaces, usage.atMs),
    fs: fs && {
      ...toFsStats(fs, { atMs: fs.atMs, usedBytes: fs.usedBytes, inodesUsed: fs.inodes - fs.inodesFree }),
    },
    runtime: { imageFs: imageFs && toPlaced(imageFs), containerFs: containerFs && toPlaced(containerFs) },
    rlimit: tasks && { time: formatTime(tasks.atMs), maxpid: tasks.max, curproc: tasks.current },
    swap,
  };
}

function toPodStats(pod: PodReading, fs: FileSystemReading | undefined, scope: SummaryScope): PodStats {
  const { name, namespace, uid, startedAtMs, containers, usage, interfaces, volumes } = pod;
  const { cpu, memory, io, swap }: Partial<ReturnType<typeof toUsage>> =
    usage === undefined ? {} : toUsage(usage, scope);
  const shared = {
    podRef: { name, namespace, uid },
    startTime: formatTime(startedAtMs),
    containers: containers.map((container) => toContainerStats(container, fs, scope)),
    ...{ cpu, memory },
  };
  if (scope === "cpu-and-memory") return { ...shared, swap };
  const counts = containers.flatMap(({ usage: used }) => used?.processes?.count ?? []);
  const measured = (volumes ?? []).filter(({ usedBytes }) => usedBytes !== undefined);
  return {
    ...shared,
    io,
    network: interfaces && interfaces.length > 0 ? toNetworkStats(interfaces, usage?.atMs ?? startedAtMs) : undefined,
    // The kubelet lists those on the node's disk first.
    volume:
      measured.length === 0
        ? undefined
        : measured
            .toSorted((a, b) => Number(b.isEphemeral) - Number(a.isEphemeral))
            .map((volume) => toVolumeStats(volume, namespace)),
    "ephemeral-storage": fs && toEphemeralStorage(pod, fs),
    process_stats: counts.length === 0 ? undefined : { process_count: counts.reduce((sum, count) => sum + count, 0) },
    swap,
  };
}

function toContainerStats(
  { name, createdAtMs, usage, rootfs, logs }: ContainerReading,
  fs: FileSystemReading | undefined,
  scope: SummaryScope,
): ContainerStats {
  const { cpu, memory, io, swap }: Partial<ReturnType<typeof toUsage>> =
    usage === undefined ? {} : toUsage(usage, scope);
  const shared = { name, startTime: formatTime(createdAtMs), cpu, memory };
  if (scope === "cpu-and-memory") return { ...shared, swap };
  return {
    ...shared,
    io,
    rootfs: rootfs && toPlaced(rootfs),
    logs: logs && toFsStats(fs, logs),
    swap,
  };
}

/** `io` is in the summary even without figures of its own, with its time alone, as the kubelet has it. */
function toUsage(usage: UsageReading, scope: SummaryScope) {
  const { atMs, cpu, memory, swap, psi } = usage;
  const time = formatTime(atMs);
  return {
    cpu:
      cpu &&
      ({
        time,
        usageNanoCores: cpu.nanoCores,
        usageCoreNanoSeconds: cpu.usageNs,
        psi: toPsi(psi?.cpu),
      } satisfies CpuStats),
    memory:
      memory &&
      ({
        time,
        availableBytes: memory.availableBytes,
        usageBytes: memory.usageBytes,
        workingSetBytes: memory.workingSetBytes,
        rssBytes: memory.rssBytes,
        pageFaults: memory.pageFaults,
        majorPageFaults: memory.majorPageFaults,
        psi: toPsi(psi?.memory),
      } satisfies MemoryStats),
    io: scope === "all" ? ({ time, psi: toPsi(psi?.io) } satisfies IoStats) : undefined,
    swap:
      swap && ({ time, swapAvailableBytes: swap.availableBytes, swapUsageBytes: swap.usageBytes } satisfies SwapStats),
  };
}

/** cAdvisor gives the kernel's microseconds, which the API says are nanoseconds. Clients compute with what it gives. */
function toPsi(pressure: Pressure | undefined): PsiStats | undefined {
  if (pressure === undefined) return undefined;
  const share = ({ totalUs: total, avg10, avg60, avg300 }: Pressure["some"]) => ({ total, avg10, avg60, avg300 });
  const none = { avg10: 0, avg60: 0, avg300: 0, totalUs: 0 };
  return { full: share(pressure.full ?? none), some: share(pressure.some) };
}

const DEFAULT_INTERFACE = "eth0";

function toNetworkStats(interfaces: readonly InterfaceReading[], atMs: number): NetworkStats {
  const all = interfaces.map(({ name, rxBytes, rxErrors, txBytes, txErrors }) => ({
    ...{ name, rxBytes, rxErrors, txBytes, txErrors },
  }));
  const main = all.find(({ name }) => name === DEFAULT_INTERFACE) ?? { name: "" };
  return { time: formatTime(atMs), ...main, interfaces: all };
}

function toPlaced({ usage, fileSystem }: PlacedUsage): SummaryFsStats {
  return toFsStats(fileSystem, usage);
}

function toFsStats(
  fs: FileSystemReading | undefined,
  { atMs, usedBytes, inodesUsed }: DiskUsageReading,
): SummaryFsStats {
  return {
    time: formatTime(atMs),
    availableBytes: fs?.availableBytes,
    capacityBytes: fs?.capacityBytes,
    usedBytes,
    inodesFree: fs?.inodesFree,
    inodes: fs?.inodes,
    inodesUsed,
  };
}

function toVolumeStats(volume: VolumeReading, namespace: string): SummaryVolumeStats {
  const { name, claim, atMs, availableBytes, capacityBytes, usedBytes, inodesFree, inodes, inodesUsed } = volume;
  return {
    time: formatTime(atMs),
    ...{ availableBytes, capacityBytes, usedBytes, inodesFree, inodes, inodesUsed, name },
    pvcRef: claim === undefined ? undefined : { name: claim, namespace },
  };
}

/** Writable layers, logs, volumes on the node's disk, and the other files of the pod. Rule: calcEphemeralStorage. */
function toEphemeralStorage({ containers, volumes, otherFiles }: PodReading, fs: FileSystemReading): SummaryFsStats {
  const parts = [
    ...containers.flatMap(({ rootfs, logs }) => [rootfs?.usage, logs]),
    ...(volumes ?? []).flatMap(({ isEphemeral, atMs, usedBytes = 0, inodesUsed }) =>
      isEphemeral ? [{ atMs, usedBytes, inodesUsed }] : [],
    ),
    otherFiles,
  ].filter((part) => part !== undefined);
  return toFsStats(fs, {
    atMs: Math.max(fs.atMs, ...parts.map(({ atMs }) => atMs)),
    usedBytes: parts.reduce((sum, { usedBytes }) => sum + usedBytes, 0),
    inodesUsed: parts.reduce((sum, { inodesUsed = 0 }) => sum + inodesUsed, 0),
  });
}
