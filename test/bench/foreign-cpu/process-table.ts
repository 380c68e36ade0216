import { readdirSync, readFileSync } from "node:fs";

/** A process as /proc/PID/stat shows it. Its times are in milliseconds; `childrenMs` is that of children it has waited for, with all theirs. */
export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  readonly name: string;
  /** Clock ticks since boot: with the pid it identifies a process. */
  readonly startTicks: number;
  readonly isKernelThread: boolean;
  /** It has ended, and its parent has not waited for it yet: its environment cannot be read any more. */
  readonly isZombie: boolean;
  readonly ownMs: number;
  readonly childrenMs: number;
}

/** The flag of kernel threads (include/linux/sched.h). */
const PF_KTHREAD = 0x0020_0000;

/** A line of /proc/PID/stat, which has hundredths of a second (proc(5)). The name may have spaces and brackets. */
export function processStatIn(stat: string): ProcessStat {
  const [open, close] = [stat.indexOf("("), stat.lastIndexOf(")")];
  const fields = stat.slice(close + 2).split(" ");
  const [state] = fields;
  // The state, the third field of the line, is the first one here.
  const field = (number: number) => Number(fields[number - 3]);
  return {
    pid: Number(stat.slice(0, open)),
    parent: field(4),
    name: stat.slice(open + 1, close),
    startTicks: field(22),
    isKernelThread: (field(9) & PF_KTHREAD) !== 0,
    isZombie: state === "Z",
    ownMs: 10 * (field(14) + field(15)),
    childrenMs: 10 * (field(16) + field(17)),
  };
}

/** Reads the processes of this machine. */
export interface ProcessTable {
  pids(): readonly number[];
  /** Undefined if the process has ended. */
  stat(pid: number): ProcessStat | undefined;
  /** Whether the process has started with this variable in its environment. */
  hasVariable(pid: number, variable: string): boolean;
}

/** Reads synchronously: it is for a process that does nothing else. */
export const procTable: ProcessTable = {
  pids: () =>
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number),
  stat(pid) {
    const text = read(pid, "stat");
    return text === undefined ? undefined : processStatIn(text);
  },
  hasVariable: (pid, variable) => read(pid, "environ")?.split("\0").includes(variable) === true,
};

function read(pid: number, file: "stat" | "environ"): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    // It has ended, or is another user's.
    return undefined;
  }
}
