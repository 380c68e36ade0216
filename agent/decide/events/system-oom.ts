/*
 * What the kernel says when it kills for want of memory, some fifty lines at once. Three of them count, as for the kubelet:
 *
 *   stress invoked oom-killer: gfp_mask=0x140dca(...), order=0, oom_score_adj=1000
 *   oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/kubepods/a,task_memcg=/kubepods/a/b,task=stress,pid=812,uid=0
 *   Memory cgroup out of memory: Killed process 812 (stress) total-vm:8388kB, ...
 *
 * Where it is the machine that has run out, the second says `global_oom` in place of `oom_memcg=`; kernels before 5.0 say nothing then,
 * and else `Task in /kubepods/a/b killed as a result of limit of /kubepods/a`.
 */

/** The kernel is in the midst of telling of an OOM. */
export interface OomReport {
  /** Whose limit was reached: a cgroup, or `/`, which is the machine. */
  readonly limitOf: string;
}

export interface OomKill {
  readonly limitOf: string;
  readonly process: string;
  readonly pid: number;
}

export interface HeardOfOom {
  readonly report: OomReport | undefined;
  /** The kernel has said all that is needed. */
  readonly kill?: OomKill;
}

/** What is known after one more message of the kernel's. */
export function hearOfOom(message: string, report: OomReport | undefined): HeardOfOom {
  if (message.includes("invoked oom-killer:")) return { report: { limitOf: "/" } };
  if (report === undefined) return { report };
  const [, cgroup, task = "", taskId = ""] =
    /oom-kill:constraint=.*?,oom_memcg=(.*?),task_memcg=.*,task=(.*),pid=(\d+),uid=\d+/.exec(message) ?? [];
  if (cgroup !== undefined) return { report: undefined, kill: { limitOf: cgroup, process: task, pid: Number(taskId) } };
  const legacy = /Task in .* killed as a result of limit of (.*)/.exec(message)?.[1];
  if (legacy !== undefined) return { report: { limitOf: legacy.startsWith("/") ? legacy : `/${legacy}` } };
  const [, pid, process = ""] = /Killed process (\d+) \((.+)\)/.exec(message) ?? [];
  if (pid === undefined) return { report };
  return { report: undefined, kill: { ...report, process, pid: Number(pid) } };
}

/** What is told of the node when the machine itself has run out of memory; undefined where a cgroup has reached its own limit. */
export function systemOomEvent({ limitOf, process, pid }: OomKill) {
  if (limitOf !== "/") return undefined;
  const message = `System OOM encountered, victim process: ${process}, pid: ${pid}`;
  return { type: "Warning", reason: "SystemOOM", message } as const;
}
