import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path/posix";

/** What the kernel counts of this process: the figures of client_golang's process collector. */
export interface ProcessFigures {
  readonly cpuSeconds: number;
  readonly openFiles: number;
  readonly maxOpenFiles: number;
  readonly residentBytes: number;
  readonly virtualBytes: number;
  /** 2^64 without a limit, as Go has it. */
  readonly maxVirtualBytes: number;
  /** When the machine has booted; this and the next one are seconds since the epoch. */
  readonly bootSeconds: number;
  readonly startedSeconds: number;
  /** Of its network namespace. */
  readonly receivedBytes: number;
  readonly transmittedBytes: number;
}

/** USER_HZ is the same on every architecture that this program runs on. */
const TICKS_PER_SECOND = 100;

/** Reads the figures from `proc`. Synchronous: these files are in memory. */
export function readProcessFigures(proc = "/proc"): ProcessFigures {
  const text = (path: string) => readFileSync(join(proc, path), "utf8");
  // The name in parentheses may contain spaces. Behind it the third field follows.
  const stat = text("self/stat");
  const fields = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .map(Number);
  const field = (number: number) => fields[number - 3] ?? 0;
  const limit = (name: string) => toLimit(new RegExp(`^${name}\\s+(\\S+)`, "m").exec(text("self/limits"))?.[1]);
  const bootSeconds = Number(/^btime (\d+)$/m.exec(text("stat"))?.[1] ?? 0);
  const network = netstatOf(text("self/net/netstat"), "IpExt");
  return {
    cpuSeconds: (field(14) + field(15)) / TICKS_PER_SECOND,
    openFiles: readdirSync(join(proc, "self/fd")).length,
    maxOpenFiles: limit("Max open files"),
    residentBytes: Number(/^VmRSS:\s+(\d+) kB$/m.exec(text("self/status"))?.[1] ?? 0) * 1024,
    virtualBytes: field(23),
    maxVirtualBytes: limit("Max address space"),
    bootSeconds,
    startedSeconds: bootSeconds + field(22) / TICKS_PER_SECOND,
    receivedBytes: network.get("InOctets") ?? 0,
    transmittedBytes: network.get("OutOctets") ?? 0,
  };
}

const toLimit = (text = "0") => (text === "unlimited" ? 2 ** 64 : Number(text));

/** Each protocol has a line with the names of its counters, and one with their values. */
function netstatOf(text: string, protocol: string): ReadonlyMap<string, number> {
  const [names = [], values = []] = text
    .split("\n")
    .filter((line) => line.startsWith(`${protocol}: `))
    .map((line) => line.split(" ").slice(1));
  return new Map(names.map((name, index) => [name, Number(values[index])]));
}
