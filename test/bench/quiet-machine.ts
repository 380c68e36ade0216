import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

/** The share of all CPU time that may be in use before a published measurement begins. */
export const QUIET_SHARE = 0.05;

const WATCHED_MS = 5_000;

/**
 * The share of the CPUs' time, from 0 to 1, in which they were not idle between two readings of /proc/stat: also the
 * time that a hypervisor gave to other machines (proc_stat(5)).
 */
export function busyShare(before: string, after: string): number {
  const [from, until] = [cpuTimes(before), cpuTimes(after)];
  const total = until.total - from.total;
  return total === 0 ? 0 : 1 - (until.idle - from.idle) / total;
}

/** The time of all CPUs since boot, in hundredths of a second. */
export interface CpuTimes {
  readonly total: number;
  readonly idle: number;
  /** The time that a hypervisor gave to other machines. */
  readonly stolen: number;
}

export function cpuTimes(stat: string): CpuTimes {
  const fields = /^cpu +(.*)$/m.exec(stat)?.[1]?.split(" ").map(Number) ?? [];
  // The last two fields, of guests, are contained in the first two.
  const [, , , idle = Number.NaN, waiting = 0, , , stolen = 0] = fields;
  return { total: fields.slice(0, 8).reduce((sum, ticks) => sum + ticks, 0), idle: idle + waiting, stolen };
}

/** How busy the machine is now. */
export async function measureBusyShare(): Promise<number> {
  const read = () => readFile("/proc/stat", "utf8");
  const before = await read();
  await pause(WATCHED_MS);
  return busyShare(before, await read());
}

/** Watches the machine until it is quiet, `attempts` times at most. Returns how busy it was in the end. */
export async function waitUntilQuiet(attempts: number, measure: () => Promise<number>): Promise<number> {
  let share = await measure();
  for (let attempt = 1; attempt < attempts && share > QUIET_SHARE; attempt++) share = await measure();
  return share;
}
