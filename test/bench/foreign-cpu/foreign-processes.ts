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
 * other foreign parents of own processes: the shims of pods that are gone are in it. Neither is a process of theirs that has ended before
 * it was seen, as long as its parent has not waited for it.
 */
export function createForeignProcesses({ table, root, marker }: ForeignProcessesOptions): ForeignProcesses {
  const known = new Map<number, { readonly kind: Kind; readonly startTicks: number }>();
  const reapers = new Set([1]);
  let before: Stats | undefined;

  /** Reads own processes, too: the kernel may have given the pid of one that has ended to a foreign one. */
  function readForeign(): Stats {
    const stats = new Map(
      table.pids().flatMap((pid) => {
        const stat = table.stat(pid);
        return stat === undefined ? [] : [[pid, stat] as const];
      }),
    );
    for (const [pid, { startTicks }] of known)
      if (stats.get(pid)?.startTicks !== startTicks) {
        known.delete(pid);
        reapers.delete(pid);
      }
    return new Map([...stats].filter(([, stat]) => kindOf(stat, stats) === "foreign"));
  }

  function kindOf(stat: ProcessStat, stats: Stats): Kind {
    const { pid, parent, startTicks } = stat;
    const earlier = known.get(pid);
    if (earlier !== undefined) return earlier.kind;
    const kind = stat.isKernelThread ? "kernel" : isOwn(stat, stats) ? "own" : "foreign";
    known.set(pid, { kind, startTicks });
    if (kind === "own" && stats.has(parent)) reapers.add(parent);
    return kind;
  }

  function isOwn({ pid, parent, isZombie }: ProcessStat, stats: Stats): boolean {
    const parentStat = stats.get(parent);
    const kindOfParent = parentStat && kindOf(parentStat, stats);
    if (pid === root || kindOfParent === "own") return true;
    return isZombie ? reapers.has(parent) : table.hasVariable(pid, marker);
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
