import type { ProcessStat, ProcessTable } from "./process-table.ts";

/** The CPU time of processes that the benchmark has not started, in milliseconds, by their names. */
export type CpuByName = Readonly<Record<string, number>>;

export interface ForeignProcesses {
  /** What they have used since the previous call; nothing at the first one. */
  next(): CpuByName;
}

export interface ForeignProcessesOptions {
  readonly table: ProcessTable;
  /** The benchmark's own process. */
  readonly root: number;
  /** `NAME=value`, which the benchmark gives to everything that it starts. */
  readonly marker: string;
}

/**
 * Measures the processes that are not the benchmark's. Its own ones are its descendants, and what has the marker in its
 * environment: containerd's shims, whose parent ends at once. Threads of the kernel count for neither.
 *
 * A process that starts and ends between two calls shows in its parent's time of ended children. That time is not counted for init and
 * other foreign parents of own processes: the shims of pods that are gone are in it.
 */
export function createForeignProcesses({ table, root, marker }: ForeignProcessesOptions): ForeignProcesses {
  const kinds = new Map<number, Kind>();
  const reapers = new Set([1]);
  let before: Stats | undefined;

  /** Own processes and threads of the kernel are not read again: most of all are own ones. */
  function readForeign(): Stats {
    const pids = table.pids();
    const alive = new Set(pids);
    for (const pid of kinds.keys()) if (!alive.has(pid)) kinds.delete(pid);
    const unknown = new Map<number, ProcessStat>();
    const foreign = new Map<number, ProcessStat>();
    for (const pid of pids) {
      const kind = kinds.get(pid);
      if (kind === "own" || kind === "kernel") continue;
      const stat = table.stat(pid);
      if (stat === undefined) continue;
      foreign.set(pid, stat);
      if (kind === undefined) unknown.set(pid, stat);
    }
    for (const stat of unknown.values()) kindOf(stat, unknown);
    for (const pid of unknown.keys()) if (kinds.get(pid) !== "foreign") foreign.delete(pid);
    return foreign;
  }

  function kindOf(stat: ProcessStat, unknown: Stats): Kind {
    const known = kinds.get(stat.pid);
    if (known !== undefined) return known;
    const kind = stat.isKernelThread ? "kernel" : isOwn(stat, unknown) ? "own" : "foreign";
    kinds.set(stat.pid, kind);
    if (kind === "own") reapers.add(stat.parent);
    return kind;
  }

  function isOwn({ pid, parent }: ProcessStat, unknown: Stats): boolean {
    const newParent = unknown.get(parent);
    const kindOfParent = newParent === undefined ? kinds.get(parent) : kindOf(newParent, unknown);
    return pid === root || kindOfParent === "own" || table.hasVariable(pid, marker);
  }

  return {
    next() {
      const after = readForeign();
      const used = before === undefined ? {} : cpuBetween(before, after, reapers);
      before = after;
      return used;
    },
  };
}

type Kind = "own" | "foreign" | "kernel";
type Stats = ReadonlyMap<number, ProcessStat>;

/** What the processes of `after` have used since `before`, with children that have ended, except for those of `reapers`. */
export function cpuBetween(before: Stats, after: Stats, reapers: ReadonlySet<number>): CpuByName {
  const isSame = (one: ProcessStat, other: ProcessStat | undefined) => one.startTicks === other?.startTicks;
  const ended = [...before.values()].filter((one) => !isSame(one, after.get(one.pid)));
  const used: Record<string, number> = {};
  for (const now of after.values()) {
    const known = before.get(now.pid);
    const then = known !== undefined && isSame(now, known) ? known : { ownMs: 0, childrenMs: 0 };
    // Its children that have ended since were counted until the previous call.
    const children = now.childrenMs - then.childrenMs - countedOf(now.pid, ended);
    const ms = now.ownMs - then.ownMs + (reapers.has(now.pid) ? 0 : Math.max(0, children));
    if (ms > 0) used[now.name] = (used[now.name] ?? 0) + ms;
  }
  return used;
}

/** The time of those of the ended processes that descend from `pid`. */
function countedOf(pid: number, ended: readonly ProcessStat[]): number {
  const children = ended.filter(({ parent }) => parent === pid);
  return children.reduce((sum, one) => sum + one.ownMs + one.childrenMs + countedOf(one.pid, ended), 0);
}
