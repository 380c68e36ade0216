import { MAX_QUOTA_US } from "../../../proto/cgroup/cpu-units.ts";
import type { CgroupLimits, Limit } from "../../../proto/cgroup/limits.ts";

/** The kernel rounds limits of memory down to its pages: 64 KiB is the largest of any architecture that it runs on. */
const LARGEST_PAGE_BYTES = 65_536;

const REQUIRED: readonly (keyof CgroupLimits)[] = ["cpuWeight", "cpuMax", "memoryMax", "pidsMax"];

/**
 * The limits of `wanted` that a cgroup with the limits `current` does not have; undefined if it has all. Of CPU, memory and
 * processes a missing file is a difference, since the agent does not start without these controllers: another program has
 * turned one off. Others the kernel may lack, and then they are left out. Amounts of memory that a kernel may have rounded
 * count as equal.
 */
export function missingLimits(current: CgroupLimits, wanted: CgroupLimits): CgroupLimits | undefined {
  const hugetlbMax = Object.fromEntries(
    Object.entries(wanted.hugetlbMax ?? {}).filter(([size, limit]) => isChanged(current.hugetlbMax?.[size], limit)),
  );
  const differing = (Object.keys(wanted) as (keyof CgroupLimits)[]).filter(
    (name) =>
      name !== "hugetlbMax" && (current[name] === undefined ? REQUIRED.includes(name) : differs(name, current, wanted)),
  );
  if (differing.length + Object.keys(hugetlbMax).length === 0) return undefined;
  return {
    ...Object.fromEntries(differing.map((name) => [name, wanted[name]])),
    ...(Object.keys(hugetlbMax).length > 0 && { hugetlbMax }),
  };
}

function differs(
  name: Exclude<keyof CgroupLimits, "hugetlbMax">,
  current: CgroupLimits,
  wanted: CgroupLimits,
): boolean {
  switch (name) {
    case "cpuMax":
      return wanted.cpuMax !== undefined && isOtherQuota(current.cpuMax, wanted.cpuMax);
    case "memoryMin":
    case "memoryLow":
    case "memoryHigh":
    case "memoryMax":
    case "memorySwapMax":
      return isChanged(current[name], wanted[name]);
    case "cpuWeight":
    case "cpus":
    case "killsAsGroup":
    case "pidsMax":
      return current[name] !== wanted[name];
  }
}

/** systemd rounds a quota up to whole percents of a CPU; what is then too large for the kernel has no limit. */
function isOtherQuota(current: CgroupLimits["cpuMax"], wanted: NonNullable<CgroupLimits["cpuMax"]>): boolean {
  if (current === undefined || current.periodUs !== wanted.periodUs) return true;
  const [found, quotaUs] = [current.quotaUs, wanted.quotaUs];
  const percentUs = wanted.periodUs / 100;
  if (quotaUs === "max") return found !== "max";
  if (found === "max") return quotaUs + percentUs <= MAX_QUOTA_US;
  return found < quotaUs || found - quotaUs >= percentUs;
}

function isChanged(current: Limit | undefined, wanted: Limit | undefined): boolean {
  if (current === undefined || wanted === undefined) return false;
  if (current === "max" || wanted === "max") return current !== wanted;
  return current > wanted || wanted - current >= LARGEST_PAGE_BYTES;
}

/** Limits as the kernel's files name them, for a log line: `memory.max 1048576, cpu.weight 59`. */
export function describeLimits(limits: CgroupLimits): string {
  const { cpuMax, hugetlbMax = {} } = limits;
  const texts: readonly (readonly [file: string, text: string | number | undefined])[] = [
    ["memory.min", limits.memoryMin],
    ["memory.low", limits.memoryLow],
    ["memory.high", limits.memoryHigh],
    ["memory.max", limits.memoryMax],
    ["memory.swap.max", limits.memorySwapMax],
    ["memory.oom.group", limits.killsAsGroup === undefined ? undefined : Number(limits.killsAsGroup)],
    ["cpu.weight", limits.cpuWeight],
    ["cpu.max", cpuMax && `${cpuMax.quotaUs} ${cpuMax.periodUs}`],
    ["cpuset.cpus", limits.cpus],
    ["pids.max", limits.pidsMax],
    ...Object.entries(hugetlbMax).map(([size, limit]) => [`hugetlb.${size}.max`, limit] as const),
  ];
  return texts.flatMap(([file, text]) => (text === undefined ? [] : [`${file} ${text}`])).join(", ");
}
