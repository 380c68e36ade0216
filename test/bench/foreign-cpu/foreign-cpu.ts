import type { CpuByName } from "./foreign-processes.ts";

/** What the CPUs have done in a short time, in milliseconds. */
export interface CpuSample {
  /** The time of all CPUs together. */
  readonly totalMs: number;
  /** In which a hypervisor gave the CPUs to other machines. */
  readonly stealMs: number;
  readonly foreign: CpuByName;
}

/** The CPU time that was not the benchmark's while a part was measured, as shares of the time of all CPUs, from 0 to 1. */
export interface ForeignCpu {
  /** Of processes that the benchmark has not started. */
  readonly processes: number;
  /** Of other machines, to which a hypervisor gave the CPUs. */
  readonly steal: number;
  /** Both together in their busiest minute. */
  readonly busiestMinute: number;
  /** The processes that used the most, by their names. */
  readonly most: readonly { readonly name: string; readonly share: number }[];
}

/** The share that foreign processes and a hypervisor may use while a published part is measured. */
export const FOREIGN_SHARE = 0.03;
/** The same for each minute: a figure may be measured in a few of them. */
export const FOREIGN_SHARE_OF_MINUTE = 0.1;

const MINUTE_MS = 60_000;
const NAMED = 3;
/** A smaller share is not worth a name. */
const NAMED_SHARE = 0.0005;

export function foreignCpuIn(samples: readonly CpuSample[], cores: number): ForeignCpu {
  const totalMs = sum(samples, (sample) => sample.totalMs);
  const byName = new Map<string, number>();
  for (const { foreign } of samples)
    for (const [name, ms] of Object.entries(foreign)) byName.set(name, (byName.get(name) ?? 0) + ms);
  const most = [...byName]
    .map(([name, ms]) => ({ name, share: ms / totalMs }))
    .filter(({ share }) => share >= NAMED_SHARE)
    .toSorted((a, b) => b.share - a.share)
    .slice(0, NAMED);
  return {
    processes: sum(samples, foreignMs) / totalMs,
    steal: sum(samples, ({ stealMs }) => stealMs) / totalMs,
    busiestMinute: busiestShare(samples, MINUTE_MS * cores),
    most,
  };
}

const foreignMs = ({ foreign }: CpuSample) => sum(Object.values(foreign), (ms) => ms);

const sum = <T>(all: readonly T[], read: (one: T) => number) => all.reduce((total, one) => total + read(one), 0);

/** The largest share in consecutive samples that have at least `windowMs`, or in all if these have less. */
function busiestShare(samples: readonly CpuSample[], windowMs: number): number {
  let [most, from, totalMs, usedMs] = [0, 0, 0, 0];
  const used = (sample: CpuSample) => foreignMs(sample) + sample.stealMs;
  for (const [at, sample] of samples.entries()) {
    totalMs += sample.totalMs;
    usedMs += used(sample);
    for (
      let first = samples[from];
      first !== undefined && totalMs - first.totalMs >= windowMs;
      first = samples[++from]
    ) {
      totalMs -= first.totalMs;
      usedMs -= used(first);
    }
    if (totalMs >= windowMs || at === samples.length - 1) most = Math.max(most, usedMs / totalMs);
  }
  return most;
}

/** In words, for the conditions of a table. */
export function describeForeignCpu({ processes, steal, busiestMinute, most }: ForeignCpu): string {
  const named = most.length === 0 ? "" : ` (${most.map(({ name, share }) => `${name} ${percent(share)}`).join(", ")})`;
  return `Meanwhile other processes used ${percent(processes)} of all CPUs${named}, other machines ${percent(steal)} (steal); together ${percent(busiestMinute)} in the busiest minute.`;
}

/** Whether that is too much for published figures. */
export const isTooMuch = ({ processes, steal, busiestMinute }: ForeignCpu): boolean =>
  processes + steal > FOREIGN_SHARE || busiestMinute > FOREIGN_SHARE_OF_MINUTE;

export const percent = (share: number) => `${(100 * share).toFixed(1)} %`;
