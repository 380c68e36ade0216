import { ptr } from "bun:ffi";
import { readdir, readFile } from "node:fs/promises";
import { libcProblem, openLibc } from "../../host/libc.ts";

/** The usage of one process since its start. */
export interface Usage {
  /** CPU time of all threads, including ended ones. */
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

export async function usageOf(pid: number): Promise<Usage> {
  const io = await readFile(`/proc/${pid}/io`, "utf8");
  return {
    cpuMs: cpuMsOf(pid),
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

/** CPU times in milliseconds, and page faults, of a process and of its children that have ended, with all theirs. */
export interface StatUsage {
  readonly ownCpuMs: number;
  readonly childrenCpuMs: number;
  /** Every process has some, so this number changes whenever a child has ended. */
  readonly childrenFaults: number;
}

export async function statUsageOf(pid: number): Promise<StatUsage> {
  return statUsageIn(await readFile(`/proc/${pid}/stat`, "utf8"));
}

/** A line of /proc/PID/stat, which has hundredths of a second (proc(5)). The name may have spaces and brackets. */
export function statUsageIn(stat: string): StatUsage {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  // The state, the third field of the line, is the first one here.
  const field = (number: number) => Number(fields[number - 3]);
  return {
    ownCpuMs: 10 * (field(14) + field(15)),
    childrenCpuMs: 10 * (field(16) + field(17)),
    childrenFaults: field(11),
  };
}

/** The wake-ups of each thread since its start: how often it has waited for something, by its id. */
export async function wakeUpsOf(pid: number): Promise<ReadonlyMap<string, number>> {
  const tids = await readdir(`/proc/${pid}/task`);
  const statuses = await Promise.all(tids.map((tid) => readFile(`/proc/${pid}/task/${tid}/status`, "utf8")));
  return new Map(tids.map((tid, at) => [tid, numberOf(statuses[at] ?? "", "voluntary_ctxt_switches")]));
}

/** The children that run now, of all threads. */
export async function childrenOf(pid: number): Promise<readonly string[]> {
  const tids = await readdir(`/proc/${pid}/task`);
  const lists = await Promise.all(tids.map((tid) => readFile(`/proc/${pid}/task/${tid}/children`, "utf8")));
  return lists.flatMap((list) => list.split(" ").filter((child) => child !== ""));
}

/**
 * Reads the CPU-time clock of a process in nanoseconds: /proc/PID/stat has hundredths of a second, and an idle agent uses
 * one of them in ten seconds.
 */
function cpuMsOf(pid: number): number {
  const libc = openLibc({ clock_gettime: { args: ["i32", "ptr"], returns: "i32" } });
  if (libc === undefined) throw new Error(`cannot read the CPU time of process ${pid}: ${libcProblem()}`);
  try {
    const time = new BigInt64Array(2);
    if (libc.symbols.clock_gettime(cpuClockOf(pid), ptr(time)) !== 0) throw new Error(`process ${pid} has ended`);
    return Number(time[0]) * 1000 + Number(time[1]) / 1e6;
  } finally {
    libc.close();
  }
}

/** The clock's id, as clock_getcpuclockid(3) makes it: the process id, and 2 for the scheduler's time. */
const cpuClockOf = (pid: number) => (~pid << 3) | 2;

/** The number after `key:`, without its unit. */
export function numberOf(text: string, key: string): number {
  return Number(new RegExp(`^${key}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? Number.NaN);
}
