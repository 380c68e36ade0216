import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { CgroupCpuStats } from "../proto/cgroup/stats.ts";
import {
  type Controller,
  parseCount,
  parseLimit,
  type ReadFile,
  readCount,
  readKeys,
  unreadable,
} from "./controller.ts";

/** `cpu.weight`, `cpu.max` and `cpu.stat`. https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu */
export const cpu: Controller = {
  limitFiles: ({ cpuMax, cpuWeight }) => [
    ...(cpuMax === undefined ? [] : [{ file: "cpu.max", value: `${cpuMax.quotaUs} ${cpuMax.periodUs}` }]),
    ...(cpuWeight === undefined ? [] : [{ file: "cpu.weight", value: String(cpuWeight) }]),
  ],
  limits(read) {
    const cpuWeight = readCount(read, "cpu.weight");
    const cpuMax = readCpuMax(read);
    return { ...(cpuWeight !== undefined && { cpuWeight }), ...(cpuMax !== undefined && { cpuMax }) };
  },
  stats(read) {
    const found = readKeys(read, "cpu.stat", CPU_KEYS);
    return found === undefined ? {} : { cpu: cpuStats(found) };
  },
};

function readCpuMax(read: ReadFile): CgroupLimits["cpuMax"] {
  const file = "cpu.max";
  const text = read(file);
  if (text === undefined) return undefined;
  const [quota, period, ...rest] = text.split(" ");
  if (quota === undefined || period === undefined || rest.length > 0)
    throw unreadable(file, text, "a quota and a period");
  return { quotaUs: parseLimit(file, quota), periodUs: parseCount(file, period) };
}

/** From `nr_periods` on they exist only with the controller. */
const CPU_KEYS = [
  "usage_usec",
  "user_usec",
  "system_usec",
  "nr_periods",
  "nr_throttled",
  "throttled_usec",
  "nr_bursts",
  "burst_usec",
] as const;

function cpuStats(found: Readonly<Partial<Record<(typeof CPU_KEYS)[number], number>>>): CgroupCpuStats {
  const { nr_periods: periods, nr_throttled: throttledPeriods, throttled_usec: throttledUs } = found;
  const { nr_bursts: bursts, burst_usec: burstUs } = found;
  return {
    usageUs: found.usage_usec ?? 0,
    userUs: found.user_usec ?? 0,
    systemUs: found.system_usec ?? 0,
    ...(periods !== undefined && { periods }),
    ...(throttledPeriods !== undefined && { throttledPeriods }),
    ...(throttledUs !== undefined && { throttledUs }),
    ...(bursts !== undefined && { bursts }),
    ...(burstUs !== undefined && { burstUs }),
  };
}
