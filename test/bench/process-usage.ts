import { readFile } from "node:fs/promises";

/** What one process has used since its start. */
export interface Usage {
  /** All its threads, those that have ended too; in steps of 10 ms. */
  readonly cpuMs: number;
  /** What it caused to be written to disks. */
  readonly diskBytes: number;
  /** What it wrote to files, pipes and the like, whether or not that reached a disk. */
  readonly writtenBytes: number;
}

export interface Memory {
  readonly rssBytes: number;
  /** Each page counted in parts, one for each process that has it: the sum over all processes is what the machine uses. */
  readonly pssBytes: number;
  /** Pages that no file stands for: heaps and stacks. */
  readonly anonymousBytes: number;
}

/** The kernel tells times to user space in hundredths of a second, whatever it counts in itself (times(2)). */
const TICK_MS = 10;

export async function usageOf(pid: number): Promise<Usage> {
  const [stat, io] = await Promise.all([readFile(`/proc/${pid}/stat`, "utf8"), readFile(`/proc/${pid}/io`, "utf8")]);
  // From the state on: the program's name before it may hold anything (proc_pid_stat(5)).
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [userTicks, systemTicks] = fields.slice(11, 13).map(Number);
  return {
    cpuMs: ((userTicks ?? Number.NaN) + (systemTicks ?? Number.NaN)) * TICK_MS,
    diskBytes: numberOf(io, "write_bytes"),
    writtenBytes: numberOf(io, "wchar"),
  };
}

export async function memoryOf(pid: number): Promise<Memory> {
  const rollup = await readFile(`/proc/${pid}/smaps_rollup`, "utf8");
  return {
    rssBytes: numberOf(rollup, "Rss") * 1024,
    pssBytes: numberOf(rollup, "Pss") * 1024,
    anonymousBytes: numberOf(rollup, "Anonymous") * 1024,
  };
}

/** The number after `key:`, whatever its unit. */
export function numberOf(text: string, key: string): number {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN);
}
