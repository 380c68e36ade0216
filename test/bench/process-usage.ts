import { readFile } from "node:fs/promises";

/** The usage of one process since its start. */
export interface Usage {
  /** CPU time of all threads, including ended ones, in steps of 10 ms. */
  readonly cpuMs: number;
  /** Bytes that it caused to be written to disks. */
  readonly diskBytes: number;
  /** Bytes that it wrote to files, pipes and sockets, whether or not they reached a disk. */
  readonly writtenBytes: number;
}

export interface Memory {
  readonly rssBytes: number;
  /** Proportional set size: shared pages are divided among the processes that map them. */
  readonly pssBytes: number;
  /** Pages without a file: heaps and stacks. */
  readonly anonymousBytes: number;
}

/** The kernel reports CPU times to user space in hundredths of a second, whatever its own tick is (times(2)). */
const TICK_MS = 10;

export async function usageOf(pid: number): Promise<Usage> {
  const [stat, io] = await Promise.all([readFile(`/proc/${pid}/stat`, "utf8"), readFile(`/proc/${pid}/io`, "utf8")]);
  // Fields from the state on: the program's name before it may contain any character (proc_pid_stat(5)).
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

/** The number after `key:`, without its unit. */
export function numberOf(text: string, key: string): number {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN);
}
