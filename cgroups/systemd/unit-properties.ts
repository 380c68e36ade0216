import { formatCpuList, parseCpuList } from "../../proto/cgroup/cpu-list.ts";
import { MAX_QUOTA_US } from "../../proto/cgroup/cpu-units.ts";
import type { CgroupLimits, Limit } from "../../proto/cgroup/limits.ts";
import type { DbusValue } from "./dbus-message.ts";

/** A property of a unit of systemd: its name in org.freedesktop.systemd1, its type in D-Bus, and its value. */
export interface UnitProperty {
  readonly name: string;
  readonly signature: string;
  readonly value: DbusValue;
}

/** No limit. */
const INFINITY = 2n ** 64n - 1n;
const US_PER_SECOND = 1_000_000n;
/** systemd counts a quota in percents of a CPU. */
const US_PER_PERCENT = US_PER_SECOND / 100n;

/**
 * The limits that can be had with systemd: the quota of CPU is rounded up to whole percents of a CPU. Written to
 * `cpu.max` as well, it stays the same when systemd writes it again. A quota that is then too large for the kernel is
 * `max`. Rule: opencontainers/cgroups' addCPUQuota.
 */
export function systemdLimits(limits: CgroupLimits): CgroupLimits {
  const { cpuMax } = limits;
  if (cpuMax === undefined || cpuMax.quotaUs === "max") return limits;
  const { periodUs } = cpuMax;
  const quotaUs = Number((quotaPerSecondUs(cpuMax.quotaUs, periodUs) * BigInt(periodUs)) / US_PER_SECOND);
  return { ...limits, cpuMax: { quotaUs: quotaUs <= MAX_QUOTA_US ? quotaUs : "max", periodUs } };
}

function quotaPerSecondUs(quotaUs: number, periodUs: number): bigint {
  const exact = (BigInt(quotaUs) * US_PER_SECOND) / BigInt(periodUs);
  const percents = (exact + US_PER_PERCENT - 1n) / US_PER_PERCENT;
  return percents * US_PER_PERCENT;
}

/** Limits whose property has the same unit. */
const NUMBERS = {
  cpuWeight: "CPUWeight",
  memoryMin: "MemoryMin",
  memoryLow: "MemoryLow",
  memoryHigh: "MemoryHigh",
  memoryMax: "MemoryMax",
  memorySwapMax: "MemorySwapMax",
  pidsMax: "TasksMax",
} as const;

/**
 * The limits as properties. systemd has no words for huge pages and `memory.oom.group` of a slice: their files are the
 * agent's, though systemd 257 writes 0 to the latter with each change of a slice. Rule: opencontainers/cgroups' genV2ResourcesProperties. Needs systemd 244 or later.
 */
export function systemdProperties(limits: CgroupLimits): readonly UnitProperty[] {
  const { cpuMax, cpus } = limits;
  const numbers = Object.entries(NUMBERS).flatMap(([field, name]): readonly UnitProperty[] => {
    const limit = limits[field as keyof typeof NUMBERS];
    return limit === undefined ? [] : [{ name, signature: "t", value: numberOf(limit) }];
  });
  const allowed = cpus === undefined ? undefined : parseCpuList(cpus);
  return [
    ...numbers,
    ...(cpuMax === undefined ? [] : quotaProperties(cpuMax)),
    ...(allowed === undefined ? [] : [{ name: "AllowedCPUs", signature: "ay", value: cpuMask(allowed) }]),
  ];
}

const numberOf = (limit: Limit) => (limit === "max" ? INFINITY : BigInt(Math.floor(limit)));

function quotaProperties({ quotaUs, periodUs }: NonNullable<CgroupLimits["cpuMax"]>): readonly UnitProperty[] {
  const value = quotaUs === "max" ? INFINITY : quotaPerSecondUs(quotaUs, periodUs);
  return [
    // Without a quota systemd chooses the period, as it does for the kubelet's slices.
    { name: "CPUQuotaPeriodUSec", signature: "t", value: quotaUs === "max" ? INFINITY : BigInt(periodUs) },
    { name: "CPUQuotaPerSecUSec", signature: "t", value },
  ];
}

/** One bit for each CPU, the lowest in the first byte. */
function cpuMask(cpus: ReadonlySet<number>): readonly number[] {
  const mask = Array.from({ length: Math.ceil((Math.max(-1, ...cpus) + 1) / 8) }, () => 0);
  for (const cpu of cpus) {
    const byte = Math.floor(cpu / 8);
    mask[byte] = (mask[byte] ?? 0) | (1 << (cpu % 8));
  }
  return mask;
}

/**
 * What every slice of the agent has: the accounting that its stats need, and no dependencies that a shutdown of the
 * machine would stop it by. Rule: opencontainers/cgroups' Apply.
 */
export function sliceProperties(unit: string, parent: string | undefined): readonly UnitProperty[] {
  const enabled = ["CPUAccounting", "MemoryAccounting", "IOAccounting", "TasksAccounting"];
  return [
    { name: "Description", signature: "s", value: `Kubernetes cgroup ${unit}` },
    ...(parent === undefined ? [] : [{ name: "Wants", signature: "as", value: [parent] }]),
    ...enabled.map((name) => ({ name, signature: "b", value: true })),
    { name: "DefaultDependencies", signature: "b", value: false },
  ];
}

/** The properties in the words of systemd's own files, for errors: `CPUWeight=39 MemoryMax=infinity`. */
export function propertiesText(properties: readonly UnitProperty[]): string {
  return properties.map(({ name, value }) => `${name}=${textOf(name, value)}`).join(" ");
}

function textOf(name: string, value: DbusValue): string {
  if (value === INFINITY) return "infinity";
  if (name !== "AllowedCPUs") return String(value);
  const bytes = value as readonly number[];
  const cpus = bytes.flatMap((byte, index) =>
    Array.from({ length: 8 }, (_, bit) => index * 8 + bit).filter((cpu) => (byte & (1 << (cpu % 8))) !== 0),
  );
  return formatCpuList(new Set(cpus));
}
