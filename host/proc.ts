import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism, hostname } from "node:os";
import { join } from "node:path/posix";

/** Figures of this machine and of this process, read when they are asked for. */
export interface Proc {
  /** `MemTotal`, in bytes. */
  memoryTotalBytes(): number;
  cpuCount(): number;
  /** The folder of each CPU that tells how often it was too hot, where there is one; in the order of the CPUs. */
  thermalThrottlePaths(): readonly string[];
  hostname(): string;
  /** CPU time used by this process, in milliseconds. */
  ownCpuMs(): number;
  /** `VmRSS` of this process, in bytes. */
  ownMemoryBytes(): number;
}

export function createProc(): Proc {
  return {
    memoryTotalBytes: () => kibibytesOf(readFileSync("/proc/meminfo", "utf8"), "MemTotal"),
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
  const kibibytes = new RegExp(`^${key}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

export function thermalThrottlePathsIn(cpus: string): readonly string[] {
  // Sandboxed machines may have no such folder at all.
  const names = existsSync(cpus) ? readdirSync(cpus) : [];
  return names
    .flatMap((name) => /^cpu(\d+)$/.exec(name)?.[1] ?? [])
    .toSorted((a, b) => Number(a) - Number(b))
    .map((cpu) => join(cpus, `cpu${cpu}`, "thermal_throttle"))
    .filter((path) => existsSync(path));
}
