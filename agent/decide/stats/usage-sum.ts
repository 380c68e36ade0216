import type { CpuReading, MemoryReading, SwapReading, UsageReading } from "./readings.ts";

/**
 * The sum of what containers use, for a pod without figures of its own. Pressure has no sum. Undefined for none. Rule: the
 * kubelet's addPodCPUMemoryStats and addSwapStats.
 */
export function sumOfUsages(usages: readonly UsageReading[]): UsageReading | undefined {
  if (usages.length === 0) return undefined;
  const cpus = usages.flatMap(({ cpu }) => cpu ?? []);
  const memories = usages.flatMap(({ memory }) => memory ?? []);
  const swaps = usages.flatMap(({ swap }) => swap ?? []);
  return {
    atMs: Math.max(...usages.map(({ atMs }) => atMs)),
    ...(cpus.length > 0 && { cpu: sumOf(cpus, CPU) as CpuReading }),
    ...(memories.length > 0 && { memory: sumOf(memories, MEMORY) as MemoryReading }),
    ...(swaps.length > 0 && { swap: sumOf(swaps, SWAP) as SwapReading }),
  };
}

const CPU = ["usageNs", "nanoCores"] as const satisfies readonly (keyof CpuReading)[];
const MEMORY = [
  ...["usageBytes", "workingSetBytes", "availableBytes", "rssBytes", "pageFaults", "majorPageFaults"],
] as readonly (keyof MemoryReading)[];
const SWAP = ["usageBytes", "availableBytes"] as const satisfies readonly (keyof SwapReading)[];

/** A field that no part has stays absent. */
function sumOf<Part extends object>(parts: readonly Part[], fields: readonly (keyof Part)[]): Partial<Part> {
  const sums = fields.flatMap((field) => {
    const values = parts.map((part) => part[field]).filter((value) => typeof value === "number");
    return values.length === 0 ? [] : [[field, values.reduce((sum, value) => sum + value, 0)] as const];
  });
  return Object.fromEntries(sums) as Partial<Part>;
}
