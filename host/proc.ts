import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism, hostname } from "node:os";
import { join } from "node:path/posix";

/** Figures of this machine and of this process, read when they are asked for. */
export interface Proc {
  /** `MemTotal`, in bytes. */
  memoryTotalBytes(): number;
  /** How much memory pods could still have. Undefined where the kernel does not tell. */
  memorySupply(): Supply | undefined;
  /** How many threads could still begin. Undefined where the kernel does not tell. */
  taskSupply(): Supply | undefined;
  cpuCount(): number;
  /** The folder of each CPU that tells how often it was too hot, where there is one; in the order of the CPUs. */
  thermalThrottlePaths(): readonly string[];
  hostname(): string;
  /** CPU time used by this process, in milliseconds. */
  ownCpuMs(): number;
  /** `VmRSS` of this process, in bytes. */
  ownMemoryBytes(): number;
}

/** How much there is of something, and how much of that is left. */
export interface Supply {
  readonly capacity: number;
  readonly available: number;
}

export function createProc(): Proc {
  return {
    memoryTotalBytes: () => kibibytesOf(readFileSync("/proc/meminfo", "utf8"), "MemTotal"),
    memorySupply: () => memorySupplyOf(textOf("/proc/meminfo")),
    taskSupply: () =>
      taskSupplyOf(
        textOf("/proc/loadavg"),
        ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"].map((path) => textOf(path)),
      ),
    cpuCount: () => availableParallelism(),
    thermalThrottlePaths: () => thermalThrottlePathsIn("/sys/devices/system/cpu"),
    hostname: () => hostname(),
    ownCpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
    ownMemoryBytes: () => kibibytesOf(readFileSync("/proc/self/status", "utf8"), "VmRSS"),
  };
}

/** The value of a line such as `MemTotal:  24617532 kB`, in bytes; 0 when there is no such line. */
export function kibibytesOf(text: string, key: string): number {
  const kibibytes = new RegExp(`^${key.replaceAll(/[()]/g, "\\$&")}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // Sandboxed machines lack one or the other; what cannot be read is not known.
    return "";
  }
}

/**
 * Counted as the kubelet counts: taken is what processes have for themselves and what is cached of files, but for what of the cache
 * nobody has used of late. `MemAvailable` is another figure.
 */
export function memorySupplyOf(meminfo: string): Supply | undefined {
  const capacity = kibibytesOf(meminfo, "MemTotal");
  if (capacity === 0) return undefined;
  const of = (key: string) => kibibytesOf(meminfo, key);
  const used = of("AnonPages") + of("Cached") + of("Buffers") + of("SwapCached");
  const workingSet = Math.max(0, used - of("Inactive(file)"));
  return { capacity, available: Math.max(0, capacity - workingSet) };
}

/** `limits` are texts of numbers: the least of those that are any counts. */
export function taskSupplyOf(loadavg: string, limits: readonly string[]): Supply | undefined {
  const running = /^\S+ \S+ \S+ \d+\/(\d+) /.exec(loadavg)?.[1];
  const known = limits.filter((text) => /^\d+\s*$/.test(text)).map(Number);
  if (running === undefined || known.length === 0) return undefined;
  const capacity = Math.min(...known);
  return { capacity, available: Math.max(0, capacity - Number(running)) };
}

/** `cpus` is the folder of the CPUs, such as `/sys/devices/system/cpu`. */
export function thermalThrottlePathsIn(cpus: string): readonly string[] {
  // Sandboxed machines may have no such folder at all.
  const names = existsSync(cpus) ? readdirSync(cpus) : [];
  return names
    .flatMap((name) => /^cpu(\d+)$/.exec(name)?.[1] ?? [])
    .toSorted((a, b) => Number(a) - Number(b))
    .map((cpu) => join(cpus, `cpu${cpu}`, "thermal_throttle"))
    .filter((path) => existsSync(path));
}
