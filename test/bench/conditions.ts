import { readFile } from "node:fs/promises";
import { cpus, loadavg, release } from "node:os";
import { execa } from "execa";
import type { Effort } from "./rounds.ts";

/** What figures depend on and must be read with. */
export interface Conditions {
  readonly date: string;
  /** As `berth version` says it. */
  readonly berth: string;
  readonly containerd: string;
  readonly kernel: string;
  readonly system: string;
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGB: number;
  readonly effort: Effort;
  readonly load: { readonly before: number; readonly after: number };
}

/** The load of the last minute: how many others wanted a core. */
export const loadNow = (): number => loadavg()[0] ?? Number.NaN;

export async function readConditions(
  binary: string,
  containerd: string,
  effort: Effort,
  load: Conditions["load"],
): Promise<Conditions> {
  const [{ stdout }, osRelease, meminfo] = await Promise.all([
    execa(binary, ["version"]),
    readFile("/etc/os-release", "utf8"),
    readFile("/proc/meminfo", "utf8"),
  ]);
  return {
    date: new Date().toISOString().slice(0, 16).replace("T", " "),
    berth: stdout.replace(/^berth /, ""),
    containerd,
    kernel: release(),
    system: /^PRETTY_NAME="?([^"\n]*)/m.exec(osRelease)?.[1] ?? "",
    cpu: cpus()[0]?.model ?? "",
    cores: cpus().length,
    memoryGB: Math.round(Number(/^MemTotal:\s+(\d+)/.exec(meminfo)?.[1] ?? Number.NaN) / 1e6),
    effort,
    load,
  };
}

/** One sentence a line. */
export function describeConditions(conditions: Conditions): readonly string[] {
  const { date, berth, containerd, kernel, system, cpu, cores, memoryGB, effort, load } = conditions;
  return [
    `Measured ${date} UTC: berth ${berth}, containerd ${containerd}, runc, bridge and portmap.`,
    `${system}, Linux ${kernel}, ${cores} cores of ${cpu.trim()}, ${memoryGB} GB.`,
    `One pod ${effort.singles} times, a hundred ${effort.batches} times, idle for ${effort.idleMs / 1000} s; floor and agent took turns.`,
    `Load of the machine in the minute before: ${load.before.toFixed(2)}; at the end: ${load.after.toFixed(2)}.`,
  ];
}
