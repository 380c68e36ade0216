import { setTimeout as pause } from "node:timers/promises";
import { type Memory, memoryOf, usageOf } from "./process-usage.ts";

/** An idle phase has as many windows as a figure needs pairs. */
export const IDLE_WINDOWS = 5;

/** What a process uses within one window of time, and its memory at the end. */
export interface UsageWindow {
  readonly lastedMs: number;
  readonly cpuMs: number;
  readonly diskBytes: number;
  readonly memory: Memory;
}

/** Over all windows together: the median of the windows would hide what is written now and then. */
export function diskPerMinute(windows: readonly UsageWindow[]): number {
  const sum = (read: (window: UsageWindow) => number) => windows.reduce((total, window) => total + read(window), 0);
  return (sum(({ diskBytes }) => diskBytes) * 60_000) / sum(({ lastedMs }) => lastedMs);
}

/** Measures several processes in the same windows, one after the other, which divide `totalMs`. */
export async function measureWindows<Side extends string>(
  pids: Readonly<Record<Side, number>>,
  totalMs: number,
): Promise<Readonly<Record<Side, readonly UsageWindow[]>>> {
  const sides = Object.keys(pids) as Side[];
  const read = () => Promise.all(sides.map((side) => usageOf(pids[side])));
  const windows = new Map<Side, UsageWindow[]>(sides.map((side) => [side, []]));
  for (let index = 0; index < IDLE_WINDOWS; index++) {
    const [from, before] = [performance.now(), await read()];
    await pause(totalMs / IDLE_WINDOWS);
    const [after, lastedMs] = [await read(), performance.now() - from];
    for (const [at, side] of sides.entries())
      windows.get(side)?.push({
        lastedMs,
        cpuMs: (after[at]?.cpuMs ?? Number.NaN) - (before[at]?.cpuMs ?? Number.NaN),
        diskBytes: (after[at]?.diskBytes ?? Number.NaN) - (before[at]?.diskBytes ?? Number.NaN),
        memory: await memoryOf(pids[side]),
      });
  }
  return Object.fromEntries(windows) as Record<Side, UsageWindow[]>;
}
