import type { CgroupUsage } from "../../../cgroups/usage.ts";
import type { Limit } from "../../../proto/cgroup/limits.ts";
import type { MemoryReading, UsageReading } from "../../decide/stats/readings.ts";

const NS_PER_US = 1000;
const inNs = (us: number | undefined) => (us === undefined ? undefined : us * NS_PER_US);

/** The figures of a cgroup that was read at `atMs`. Rule: cAdvisor's libcontainer handler, for cgroup v2. */
export function usageOfCgroup({ stats, limits }: CgroupUsage, atMs: number): UsageReading {
  const { cpu, memory, psi, io } = stats;
  const swapUsage = memory?.swapCurrentBytes ?? 0;
  return {
    atMs,
    ...(cpu && {
      cpu: {
        usageNs: cpu.usageUs * NS_PER_US,
        userNs: cpu.userUs * NS_PER_US,
        systemNs: cpu.systemUs * NS_PER_US,
        periods: cpu.periods,
        throttledPeriods: cpu.throttledPeriods,
        throttledNs: inNs(cpu.throttledUs),
        burstPeriods: cpu.bursts,
        burstNs: inNs(cpu.burstUs),
      },
    }),
    ...(memory && {
      memory: memoryOfCgroup(memory, limits.memoryMax),
      // A kernel without swap accounting has no file for its limit: nothing can be swapped.
      swap: { usageBytes: swapUsage, availableBytes: leftOf(limits.memorySwapMax ?? 0, swapUsage) },
    }),
    psi,
    io,
    limits,
  };
}

function memoryOfCgroup(memory: NonNullable<CgroupUsage["stats"]["memory"]>, limit: Limit | undefined): MemoryReading {
  return {
    usageBytes: memory.currentBytes,
    workingSetBytes: memory.workingSetBytes,
    availableBytes: leftOf(limit ?? "max", memory.workingSetBytes),
    rssBytes: memory.anonBytes,
    pageFaults: memory.pageFaults,
    majorPageFaults: memory.majorPageFaults,
    cacheBytes: memory.fileBytes,
    mappedFileBytes: memory.fileMappedBytes,
    kernelBytes: memory.kernelBytes,
    maxUsageBytes: memory.peakBytes,
    activeFileBytes: memory.activeFileBytes,
    inactiveFileBytes: memory.inactiveFileBytes,
    limitHits: memory.maxEvents,
    oomKills: memory.oomKills,
  };
}

/** Undefined without a limit. A limit that was lowered below the usage leaves nothing. */
function leftOf(limit: Limit, used: number): number | undefined {
  return limit === "max" ? undefined : Math.max(0, limit - used);
}
