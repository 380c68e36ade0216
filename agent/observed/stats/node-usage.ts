import { readPressure } from "../../../cgroups/psi.ts";
import type { CgroupUsageReader, UsageDetail } from "../../../cgroups/usage.ts";
import type { Clock } from "../../../host/clock.ts";
import type { NodeMemory, ProcStats } from "../../../host/proc-stats.ts";
import type { MemoryReading, UsageReading } from "../../decide/stats/readings.ts";

export interface NodeUsageDeps {
  readonly proc: Pick<ProcStats, "node" | "pressure" | "uptimeSeconds">;
  /** Undefined without cgroup v2. */
  readonly cgroups: CgroupUsageReader | undefined;
  readonly clock: Clock;
}

const NS_PER_US = 1000;

/**
 * What the node uses. The root of cgroup v2 counts CPU time in microseconds, where /proc/stat has hundredths of a second;
 * it has no memory.current: memory in use is that of processes and the page cache, as the kubelet has it. Its limits are what
 * the machine has. Undefined if the kernel does not report it.
 */
export function readNodeUsage({ proc, cgroups, clock }: NodeUsageDeps, detail: UsageDetail): UsageReading | undefined {
  const node = proc.node();
  if (node === undefined) return undefined;
  const root = cgroups?.read("/", "resources")?.stats;
  const [atMs, uptime] = [clock.now(), proc.uptimeSeconds()];
  const { totalBytes, freeBytes } = node.swap;
  return {
    atMs,
    ...(uptime !== undefined && { startedAtMs: atMs - uptime * 1000 }),
    cpu:
      root?.cpu === undefined
        ? node.cpu
        : {
            usageNs: root.cpu.usageUs * NS_PER_US,
            userNs: root.cpu.userUs * NS_PER_US,
            systemNs: root.cpu.systemUs * NS_PER_US,
          },
    memory: memoryOf(node.memory),
    swap: { usageBytes: totalBytes - freeBytes, availableBytes: freeBytes },
    limits: { memoryMin: 0, memoryMax: node.memory.totalBytes, memorySwapMax: totalBytes },
    ...(detail !== "resources" && readPressure((file) => proc.pressure(resourceOf(file)))),
  };
}

const resourceOf = (file: string) => file.slice(0, file.indexOf(".")) as "cpu" | "memory" | "io";

function memoryOf(memory: NodeMemory): MemoryReading {
  const { totalBytes, anonBytes, cacheBytes, inactiveFileBytes } = memory;
  const usageBytes = anonBytes + cacheBytes;
  const workingSetBytes = Math.max(0, usageBytes - inactiveFileBytes);
  return {
    usageBytes,
    workingSetBytes,
    availableBytes: Math.max(0, totalBytes - workingSetBytes),
    rssBytes: anonBytes,
    pageFaults: memory.pageFaults,
    majorPageFaults: memory.majorPageFaults,
    cacheBytes,
    mappedFileBytes: memory.mappedFileBytes,
    kernelBytes: memory.kernelBytes,
    activeFileBytes: memory.activeFileBytes,
    inactiveFileBytes,
  };
}
