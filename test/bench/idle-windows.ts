import { setTimeout as pause } from "node:timers/promises";
import { type Memory, memoryOf, usageOf } from "./process-usage.ts";
import { type Measured, measured } from "./statistics.ts";

/** What a process uses within one window of time, and its memory at the end. */
export interface UsageWindow {
  readonly lastedMs: number;
  readonly cpuMs: number;
  readonly diskBytes: number;
  readonly memory: Memory;
}

/** One window of each of several starts of an agent: what differs from one process to the next is in them. */
export interface Periods<Window> {
  readonly ofStarts: readonly Window[];
}

/** The idle windows of a part: one after each of several starts of its agents. */
export interface IdleEffort {
  readonly idlePeriods: number;
  /** How long each window lasts, but for the last one. */
  readonly idleMs: number;
  /** How long the window after the last start lasts. */
  readonly lastIdleMs: number;
}

/**
 * Berth lists the runtime 10 s after a start, and again 300 s later. A window of this length contains that list if it begins 10 s to 5 min
 * after the start.
 */
export const RELIST_IDLE_MS = 310_000;

export const idleMsOf = ({ idlePeriods, idleMs, lastIdleMs }: IdleEffort, period: number): number =>
  period === idlePeriods - 1 ? lastIdleMs : idleMs;

/** The windows in words: `idle for 30 s after each of 4 starts of both agents, and for 310 s after another`. */
export function describeIdle({ idlePeriods, idleMs, lastIdleMs }: IdleEffort, agents: string): string {
  const seconds = (ms: number) => `${ms / 1000} s`;
  if (idlePeriods === 1) return `idle for ${seconds(lastIdleMs)} after one start of ${agents}`;
  if (lastIdleMs === idleMs) return `idle for ${seconds(idleMs)} after each of ${idlePeriods} starts of ${agents}`;
  return `idle for ${seconds(idleMs)} after each of ${idlePeriods - 1} starts of ${agents}, and for ${seconds(lastIdleMs)} after another`;
}

/** In percent of one core. */
export const cpuPercentOf = ({ cpuMs, lastedMs }: Pick<UsageWindow, "cpuMs" | "lastedMs">): number =>
  (100 * cpuMs) / lastedMs;

/** The bytes of all windows together, a minute: the median of the windows would hide what is written now and then. */
export function perMinute<Window extends { readonly lastedMs: number }>(
  windows: readonly Window[],
  bytesOf: (window: Window) => number,
): Measured {
  const all = windows.reduce((sum, window) => sum + bytesOf(window), 0);
  const lastedMs = windows.reduce((sum, window) => sum + window.lastedMs, 0);
  const each = windows.map((window) => (bytesOf(window) * 60_000) / window.lastedMs);
  return measured((all * 60_000) / lastedMs, each);
}

/** Measures several processes in the same window. */
export async function measureWindow<Side extends string>(
  pids: Readonly<Record<Side, number>>,
  lastMs: number,
): Promise<Readonly<Record<Side, UsageWindow>>> {
  const sides = Object.keys(pids) as Side[];
  const read = () => Promise.all(sides.map((side) => usageOf(pids[side])));
  const [from, before] = [performance.now(), await read()];
  await pause(lastMs);
  const [after, lastedMs] = [await read(), performance.now() - from];
  const memories = await Promise.all(sides.map((side) => memoryOf(pids[side])));
  const windowOf = (at: number): UsageWindow => ({
    lastedMs,
    cpuMs: (after[at]?.cpuMs ?? Number.NaN) - (before[at]?.cpuMs ?? Number.NaN),
    diskBytes: (after[at]?.diskBytes ?? Number.NaN) - (before[at]?.diskBytes ?? Number.NaN),
    memory: memories[at] ?? { rssBytes: Number.NaN, pssBytes: Number.NaN, anonymousBytes: Number.NaN },
  });
  return Object.fromEntries(sides.map((side, at) => [side, windowOf(at)])) as Record<Side, UsageWindow>;
}

/**
 * Measures `periods` windows, before each of which every agent starts again. They alternate who begins. `measure` gets the
 * number of the period, from 0, and also waits until the new agents are idle.
 */
export async function measurePeriods<Side extends string, Window>(
  sides: readonly Side[],
  periods: number,
  restart: (side: Side) => Promise<unknown>,
  measure: (period: number) => Promise<Readonly<Record<Side, Window>>>,
): Promise<Readonly<Record<Side, Periods<Window>>>> {
  const windows = new Map<Side, Window[]>(sides.map((side) => [side, []]));
  for (let period = 0; period < periods; period++) {
    for (const side of period % 2 === 0 ? sides : sides.toReversed()) await restart(side);
    const measuredWindows = await measure(period);
    for (const side of sides) windows.get(side)?.push(measuredWindows[side]);
  }
  const all = new Map<Side, Periods<Window>>();
  for (const [side, ofStarts] of windows) all.set(side, { ofStarts });
  return Object.fromEntries(all) as Record<Side, Periods<Window>>;
}
