/*
 * What the kernel logs when the OOM killer runs, some fifty lines at once. Three of them count, as for the kubelet:
 *
 *   stress invoked oom-killer: gfp_mask=0x140dca(...), order=0, oom_score_adj=1000
 *   oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/kubepods/a,task_memcg=/kubepods/a/b,task=stress,pid=812,uid=0
 *   Memory cgroup out of memory: Killed process 812 (stress) total-vm:8388kB, ...
 *
 * If the machine itself has run out of memory, the second line has `global_oom` in place of `oom_memcg=`. Kernels
 * before 5.0 log nothing then, and otherwise `Task in /kubepods/a/b killed as a result of limit of /kubepods/a`.
 */

/** An OOM report of the kernel that is not complete yet. */
export interface OomReport {
  /** The cgroup whose limit was reached; `/` is the machine. */
  readonly limitedCgroup: string;
}

export interface OomKill {
  readonly limitedCgroup: string;
  readonly process: string;
  readonly pid: number;
}

export interface OomParseResult {
  readonly report: OomReport | undefined;
  /** Set when the report is complete. */
  readonly kill?: OomKill;
}

/** Parses one more line of the kernel log. */
export function parseOomLine(message: string, report: OomReport | undefined): OomParseResult {
  if (message.includes("invoked oom-killer:")) return { report: { limitedCgroup: "/" } };
  if (report === undefined) return { report };
  const [, cgroup, task = "", taskId = ""] =
    /oom-kill:constraint=.*?,oom_memcg=(.*?),task_memcg=.*,task=(.*),pid=(\d+),uid=\d+/.exec(message) ?? [];
  if (cgroup !== undefined)
    return { report: undefined, kill: { limitedCgroup: cgroup, process: task, pid: Number(taskId) } };
  const legacy = /Task in .* killed as a result of limit of (.*)/.exec(message)?.[1];
  if (legacy !== undefined) return { report: { limitedCgroup: legacy.startsWith("/") ? legacy : `/${legacy}` } };
  const [, pid, process = ""] = /Killed process (\d+) \((.+)\)/.exec(message) ?? [];
  if (pid === undefined) return { report };
  return { report: undefined, kill: { ...report, process, pid: Number(pid) } };
}

/**
 * The event of the node if the machine itself has run out of memory; undefined if a cgroup has reached its own limit.
 */
export function systemOomEvent({ limitedCgroup, process, pid }: OomKill) {
  if (limitedCgroup !== "/") return undefined;
  const message = `System OOM encountered, victim process: ${process}, pid: ${pid}`;
  return { type: "Warning", reason: "SystemOOM", message } as const;
}
