import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { CgroupMemoryStats } from "../proto/cgroup/stats.ts";
import {
  bytesText,
  type Controller,
  type LimitFile,
  parseLimit,
  type ReadFile,
  readCount,
  readKeys,
} from "./controller.ts";

/** The limits in bytes, and their files. */
const BYTES = {
  memoryMin: "memory.min",
  memoryLow: "memory.low",
  memoryHigh: "memory.high",
  memoryMax: "memory.max",
  memorySwapMax: "memory.swap.max",
} as const;
type BytesField = keyof typeof BYTES;

/**
 * `memory.min`, `low`, `high`, `max`, `swap.max` and `oom.group`; `memory.current` and its companions.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html#memory
 */
export const memory: Controller = {
  limitFiles(limits, { pageBytes }) {
    const { killsAsGroup } = limits;
    const inBytes = Object.entries(BYTES).flatMap(([field, file]): readonly LimitFile[] => {
      const limit = limits[field as BytesField];
      if (limit === undefined) return [];
      // A kernel without swap, or without its accounting, has no file for it: none is used anyway.
      const isOptional = field === "memorySwapMax" && (limit === "max" || limit === 0);
      return [{ file, value: bytesText(limit, pageBytes), isOptional }];
    });
    return killsAsGroup === undefined
      ? inBytes
      : [...inBytes, { file: "memory.oom.group", value: killsAsGroup ? "1" : "0" }];
  },
  limits(read) {
    const inBytes = Object.entries(BYTES).flatMap(([field, file]) => {
      const text = read(file);
      return text === undefined ? [] : [[field, parseLimit(file, text)] as const];
    });
    const killsAsGroup = read("memory.oom.group");
    return {
      ...(Object.fromEntries(inBytes) satisfies CgroupLimits),
      ...(killsAsGroup !== undefined && { killsAsGroup: killsAsGroup === "1" }),
    };
  },
  stats(read) {
    const currentBytes = readCount(read, "memory.current");
    const found = readKeys(read, "memory.stat", STAT_KEYS);
    // The root of cgroup v2 has `memory.stat` alone.
    return currentBytes === undefined || found === undefined ? {} : { memory: memoryStats(read, currentBytes, found) };
  },
};

const STAT_KEYS = [
  "anon",
  "file",
  "kernel",
  "file_mapped",
  "inactive_file",
  "active_file",
  "pgfault",
  "pgmajfault",
] as const;

function memoryStats(
  read: ReadFile,
  currentBytes: number,
  stat: Readonly<Partial<Record<(typeof STAT_KEYS)[number], number>>>,
): CgroupMemoryStats {
  const peakBytes = readCount(read, "memory.peak");
  const swapCurrentBytes = readCount(read, "memory.swap.current");
  const { max: maxEvents, oom_kill: oomKills } = readKeys(read, "memory.events", ["max", "oom_kill"]) ?? {};
  const inactiveFileBytes = stat.inactive_file ?? 0;
  return {
    currentBytes,
    workingSetBytes: Math.max(0, currentBytes - inactiveFileBytes),
    ...(peakBytes !== undefined && { peakBytes }),
    ...(swapCurrentBytes !== undefined && { swapCurrentBytes }),
    anonBytes: stat.anon ?? 0,
    fileBytes: stat.file ?? 0,
    fileMappedBytes: stat.file_mapped ?? 0,
    activeFileBytes: stat.active_file ?? 0,
    inactiveFileBytes,
    ...(stat.kernel !== undefined && { kernelBytes: stat.kernel }),
    pageFaults: stat.pgfault ?? 0,
    majorPageFaults: stat.pgmajfault ?? 0,
    ...(maxEvents !== undefined && { maxEvents }),
    ...(oomKills !== undefined && { oomKills }),
  };
}
