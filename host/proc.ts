import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism, hostname } from "node:os";
import { join } from "node:path/posix";

/** Figures of this machine, read on each call. */
export interface Proc {
  /** Memory for the eviction signal `memory.available`. Undefined if the kernel does not report it. */
  memoryAvailability(): Availability | undefined;
  /** Threads for the eviction signal `pid.available`. Undefined if the kernel does not report it. */
  taskAvailability(): Availability | undefined;
  /** The CPUs that this process may use, by its CPU affinity. */
  availableParallelism(): number;
  /** The existing `thermal_throttle` folders, in the order of the CPUs. */
  thermalThrottlePaths(): readonly string[];
  hostname(): string;
}

/** The kernel's limits of processes and threads, below `/`. */
export const TASK_LIMIT_FILES = ["proc/sys/kernel/pid_max", "proc/sys/kernel/threads-max"] as const;

/** The capacity of a resource, and how much of it is available. */
export interface Availability {
  readonly capacity: number;
  readonly available: number;
}

export function createProc(): Proc {
  return {
    memoryAvailability: () => memoryAvailabilityOf(readOrEmpty("/proc/meminfo")),
    taskAvailability: () =>
      taskAvailabilityOf(
        readOrEmpty("/proc/loadavg"),
        TASK_LIMIT_FILES.map((path) => readOrEmpty(`/${path}`)),
      ),
    availableParallelism: () => availableParallelism(),
    thermalThrottlePaths: () => thermalThrottlePathsIn("/sys/devices/system/cpu"),
    hostname: () => hostname(),
  };
}

/** The value of a line such as `MemTotal:  24617532 kB`, in bytes; 0 when there is no such line. */
export function meminfoBytes(text: string, key: string): number {
  const kibibytes = new RegExp(`^${key.replaceAll(/[()]/g, "\\$&")}:\\s+(\\d+) kB$`, "m").exec(text)?.[1];
  return Number(kibibytes ?? 0) * 1024;
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // Sandboxed machines lack some of these files: their values are unknown.
    return "";
  }
}

/**
 * Computes available memory as the kubelet does: capacity minus the working set, which is anonymous memory and page
 * cache without inactive file pages. `MemAvailable` is another figure.
 */
export function memoryAvailabilityOf(meminfo: string): Availability | undefined {
  const capacity = meminfoBytes(meminfo, "MemTotal");
  if (capacity === 0) return undefined;
  const bytesOf = (key: string) => meminfoBytes(meminfo, key);
  const used = bytesOf("AnonPages") + bytesOf("Cached") + bytesOf("Buffers") + bytesOf("SwapCached");
  const workingSet = Math.max(0, used - bytesOf("Inactive(file)"));
  return { capacity, available: Math.max(0, capacity - workingSet) };
}

/**
 * How many threads may run, and how many more may be started, from the content of /proc/loadavg. `limits` are the contents of
 * `TASK_LIMIT_FILES`; the smallest valid number counts. Undefined if the kernel does not report it.
 */
export function taskAvailabilityOf(loadavg: string, limits: readonly string[]): Availability | undefined {
  const running = /^\S+ \S+ \S+ \d+\/(\d+) /.exec(loadavg)?.[1];
  const known = limits.filter((text) => /^\d+\s*$/.test(text)).map(Number);
  if (running === undefined || known.length === 0) return undefined;
  const capacity = Math.min(...known);
  return { capacity, available: Math.max(0, capacity - Number(running)) };
}

/**
 * `cpus` is the CPU folder of sysfs, such as `/sys/devices/system/cpu`.
 *
 * @internal
 */
export function thermalThrottlePathsIn(cpus: string): readonly string[] {
  // Sandboxed machines may not have this folder.
  const names = existsSync(cpus) ? readdirSync(cpus) : [];
  return names
    .flatMap((name) => /^cpu(\d+)$/.exec(name)?.[1] ?? [])
    .toSorted((a, b) => Number(a) - Number(b))
    .map((cpu) => join(cpus, `cpu${cpu}`, "thermal_throttle"))
    .filter((path) => existsSync(path));
}
