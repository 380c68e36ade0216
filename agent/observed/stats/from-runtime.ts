import type { CgroupPressure, Pressure } from "../../../proto/cgroup/stats.ts";
import type {
  ContainerStats,
  CpuUsage,
  FilesystemUsage,
  IoUsage,
  MemoryUsage,
  PsiStats,
  SwapUsage,
  UInt64Value,
} from "../../../proto/cri/gen/api.ts";
import type { DiskUsageReading, UsageReading } from "../../decide/stats/readings.ts";

const numberOf = (value: UInt64Value | undefined) => (value === undefined ? undefined : Number(value.value));
/** CRI has nanoseconds since the epoch; 0 for unknown. */
const timeOf = (ns: bigint | undefined, otherwise: number) =>
  ns === undefined || ns === 0n ? otherwise : Number(ns / 1000n) / 1000;

/** The messages that CRI has for the usage of a container and of a sandbox. */
interface RuntimeUsage {
  readonly cpu: CpuUsage | undefined;
  readonly memory: MemoryUsage | undefined;
  readonly swap?: SwapUsage | undefined;
  readonly io: IoUsage | undefined;
}

/**
 * The figures that the runtime reports of a container, or of a sandbox with its containers. What it could not measure is
 * 0, as the kubelet shows it. `nowMs` is the time of figures without one.
 */
export function usageOfRuntime({ cpu, memory, swap, io }: RuntimeUsage, nowMs: number): UsageReading {
  const psi: CgroupPressure = {
    ...pressureOf("cpu", cpu?.psi),
    ...pressureOf("memory", memory?.psi),
    ...pressureOf("io", io?.psi),
  };
  return {
    atMs: timeOf(cpu?.timestamp, nowMs),
    cpu: { usageNs: numberOf(cpu?.usageCoreNanoSeconds) ?? 0, nanoCores: numberOf(cpu?.usageNanoCores) },
    memory: {
      usageBytes: numberOf(memory?.usageBytes) ?? 0,
      workingSetBytes: numberOf(memory?.workingSetBytes) ?? 0,
      availableBytes: numberOf(memory?.availableBytes),
      rssBytes: numberOf(memory?.rssBytes),
      pageFaults: numberOf(memory?.pageFaults),
      majorPageFaults: numberOf(memory?.majorPageFaults),
    },
    swap: {
      usageBytes: numberOf(swap?.swapUsageBytes) ?? 0,
      availableBytes: numberOf(swap?.swapAvailableBytes) ?? 0,
    },
    ...(Object.keys(psi).length > 0 && { psi }),
  };
}

/** The size of a container's writable layer, and where it is; undefined until the runtime has measured it. */
export function writableLayerOf(
  { writableLayer }: Pick<ContainerStats, "writableLayer">,
  nowMs: number,
): { readonly usage: DiskUsageReading; readonly mountPoint: string | undefined } | undefined {
  return layerUsage(writableLayer, nowMs);
}

/** The same of a file system of the runtime. */
export function layerUsage(
  layer: FilesystemUsage | undefined,
  nowMs: number,
): { readonly usage: DiskUsageReading; readonly mountPoint: string | undefined } | undefined {
  const usedBytes = numberOf(layer?.usedBytes);
  if (layer === undefined || usedBytes === undefined) return undefined;
  const usage = { atMs: timeOf(layer.timestamp, nowMs), usedBytes, inodesUsed: numberOf(layer.inodesUsed) };
  return { usage, mountPoint: layer.fsId?.mountpoint };
}

function pressureOf(resource: keyof CgroupPressure, psi: PsiStats | undefined): CgroupPressure {
  if (psi === undefined) return {};
  const shareOf = (data: PsiStats["Some"]) => ({
    avg10: data?.Avg10 ?? 0,
    avg60: data?.Avg60 ?? 0,
    avg300: data?.Avg300 ?? 0,
    // CRI says nanoseconds; runtimes copy the kernel's microseconds.
    totalUs: Number(data?.Total ?? 0n),
  });
  return { [resource]: { some: shareOf(psi.Some), full: shareOf(psi.Full) } satisfies Pressure };
}
