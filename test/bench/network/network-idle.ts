import { setTimeout as pause } from "node:timers/promises";
import { childrenOf, statUsageOf, usageOf, wakeUpsOf } from "../process-usage.ts";

/** What an agent does in a window of an idle phase. */
export interface IdleWindow {
  readonly lastedMs: number;
  readonly cpuMs: number;
  /** How often its threads have waited for something, and gone on. */
  readonly wakeUps: number;
  readonly diskBytes: number;
  /** The children that run at the end and not at the beginning, and the page faults of those that have ended: 0 means none. */
  readonly startedProcesses: number;
}

/** Measures several agents in the same window. */
export async function measureIdleAgents<Side extends string>(
  pids: Readonly<Record<Side, number>>,
  lastMs: number,
): Promise<Readonly<Record<Side, IdleWindow>>> {
  const sides = Object.keys(pids) as Side[];
  const before = await Promise.all(sides.map((side) => readCounters(pids[side])));
  await pause(lastMs);
  const after = await Promise.all(sides.map((side) => readCounters(pids[side])));
  const windows = sides.flatMap((side, at) => {
    const [from, until] = [before[at], after[at]];
    return from === undefined || until === undefined ? [] : [[side, windowBetween(from, until)] as const];
  });
  return Object.fromEntries(windows) as Record<Side, IdleWindow>;
}

type Counters = Awaited<ReturnType<typeof readCounters>>;

async function readCounters(pid: number) {
  const [usage, stat, wakeUps, children] = await Promise.all([
    usageOf(pid),
    statUsageOf(pid),
    wakeUpsOf(pid),
    childrenOf(pid),
  ]);
  return { at: performance.now(), usage, stat, wakeUps, children };
}

/** A thread that has ended meanwhile is left out: the kernel no longer has its number. */
function windowBetween(before: Counters, after: Counters): IdleWindow {
  const wakeUps = [...after.wakeUps].map(([tid, count]) => count - (before.wakeUps.get(tid) ?? 0));
  const running = after.children.filter((child) => !before.children.includes(child)).length;
  return {
    lastedMs: after.at - before.at,
    cpuMs: after.usage.cpuMs - before.usage.cpuMs,
    wakeUps: wakeUps.reduce((sum, one) => sum + one, 0),
    diskBytes: after.usage.diskBytes - before.usage.diskBytes,
    startedProcesses: running + after.stat.childrenFaults - before.stat.childrenFaults,
  };
}
