import { expect, test } from "bun:test";
import { type OomReport, parseOomLine, systemOomEvent } from "./system-oom.ts";

/** The node's events for these kernel messages, in order; for other OOMs the cgroup that was at its limit. */
function reported(messages: string): readonly string[] {
  let report: OomReport | undefined;
  return messages
    .trim()
    .split("\n")
    .flatMap((message) => {
      const next = parseOomLine(message, report);
      report = next.report;
      return next.kill === undefined
        ? []
        : [systemOomEvent(next.kill)?.message ?? `limit of ${next.kill.limitedCgroup}`];
    });
}

const rows: readonly [sentence: string, messages: string, reported: readonly string[]][] = [
  [
    "Linux 6.12, the machine is out of memory",
    `
python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
CPU: 1 UID: 0 PID: 731 Comm: python3 Not tainted 6.12.41+deb13-cloud-amd64 #1  Debian 6.12.41-1
Call Trace:
 oom_kill_process.cold+0xb/0x8a
Mem-Info:
active_anon:1203 inactive_anon:467912 isolated_anon:0
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[    731]     0   731   472170   465432   464962      470         0  3788800        0             0 python3
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user.slice/user-0.slice/session-1.scope,task=python3,pid=731,uid=0
Out of memory: Killed process 731 (python3) total-vm:1888680kB, anon-rss:1859848kB, file-rss:1880kB, shmem-rss:0kB, UID:0 pgtables:3700kB oom_score_adj:0
oom_reaper: reaped process 731 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB`,
    ["System OOM encountered, victim process: python3, pid: 731"],
  ],
  [
    "Linux 6.1, a container is at its own limit",
    `
tail invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=1000
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-0f1e.scope,mems_allowed=0,oom_memcg=/kubepods.slice/kubepods-besteffort.slice/cri-containerd-0f1e.scope,task_memcg=/kubepods.slice/kubepods-besteffort.slice/cri-containerd-0f1e.scope,task=tail,pid=9012,uid=0
Memory cgroup out of memory: Killed process 9012 (tail) total-vm:67840kB, anon-rss:65408kB, file-rss:896kB, shmem-rss:0kB, UID:0 pgtables:168kB oom_score_adj:1000
Tasks in /kubepods.slice/kubepods-besteffort.slice/cri-containerd-0f1e.scope are going to be killed due to memory.oom.group set
Memory cgroup out of memory: Killed process 9000 (sh) total-vm:2500kB, anon-rss:128kB, file-rss:896kB, shmem-rss:0kB, UID:0 pgtables:44kB oom_score_adj:1000`,
    ["limit of /kubepods.slice/kubepods-besteffort.slice/cri-containerd-0f1e.scope"],
  ],
  [
    "Linux 5.10, the CPUs' part of the machine's memory is used up",
    `
stress-ng invoked oom-killer: gfp_mask=0x100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=1000
oom-kill:constraint=CONSTRAINT_CPUSET,nodemask=(null),cpuset=half,mems_allowed=1,global_oom,task_memcg=/half,task=stress-ng,pid=4401,uid=1000
Out of memory: Killed process 4401 (stress-ng) total-vm:12346kB, anon-rss:11000kB, file-rss:4kB, shmem-rss:36kB, UID:1000 pgtables:64kB oom_score_adj:1000`,
    ["System OOM encountered, victim process: stress-ng, pid: 4401"],
  ],
  [
    "Linux 4.8, a container is at its own limit",
    `
gunpowder-memho invoked oom-killer: gfp_mask=0x24000c0(GFP_KERNEL), order=0, oom_score_adj=0
Task in /docker/2e08 killed as a result of limit of /docker/2e08
memory: usage 20480kB, limit 20480kB, failcnt 1204
Memory cgroup out of memory: Kill process 1381 (gunpowder-memho) score 1046 or sacrifice child
Killed process 1381 (gunpowder-memho) total-vm:2121528kB, anon-rss:18624kB, file-rss:2140kB, shmem-rss:0kB`,
    ["limit of /docker/2e08"],
  ],
  [
    "Linux 3.13, the machine is out of memory",
    `
badsysprogram invoked oom-killer: gfp_mask=0x280da, order=0, oom_score_adj=0
badsysprogram cpuset=/ mems_allowed=0
Out of memory: Kill process 1532 (badsysprogram) score 919 or sacrifice child
Killed process 1532 (badsysprogram) total-vm:1641388kB, anon-rss:1595164kB, file-rss:76kB`,
    ["System OOM encountered, victim process: badsysprogram, pid: 1532"],
  ],
  [
    "processes have unusual names",
    ["Plex Media Serve", "[", "()", '"with quotes"', "a,pid=1,uid=0"]
      .map((name) => `x invoked oom-killer: order=0\nOut of memory: Killed process 7 (${name}) total-vm:1kB`)
      .join("\n"),
    ["Plex Media Serve", "[", "()", '"with quotes"', "a,pid=1,uid=0"].map(
      (name) => `System OOM encountered, victim process: ${name}, pid: 7`,
    ),
  ],
  [
    "a cgroup with an unusual name is at its limit",
    `
x invoked oom-killer: order=0
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,oom_memcg=b,task_memcg=/a,oom_memcg=b,task=x,pid=8,uid=0
Memory cgroup out of memory: Killed process 8 (x) total-vm:1kB`,
    ["limit of /a,oom_memcg=b"],
  ],
  [
    "a second report starts before the first is complete",
    `
a invoked oom-killer: order=0
Task in /a killed as a result of limit of /a
b invoked oom-killer: order=0
Out of memory: Killed process 9 (b) total-vm:1kB`,
    ["System OOM encountered, victim process: b, pid: 9"],
  ],
  [
    "sysrq starts the OOM killer",
    `
sysrq: Manual OOM execution
kworker/0:1 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=-1, oom_score_adj=0
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=java,pid=77,uid=0
Out of memory: Killed process 77 (java) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:4kB oom_score_adj:0`,
    ["System OOM encountered, victim process: java, pid: 77"],
  ],
  ["a kill without the start of its report", "Out of memory: Killed process 9 (b) total-vm:1kB", []],
  ["messages without an OOM", "eth0: renamed from veth1\nKilled process by hand\n\noom-kill:constraint=", []],
];
for (const [sentence, messages, expected] of rows)
  test(sentence, () => {
    expect(reported(messages)).toEqual([...expected]);
  });

test("the event is a Warning with the kubelet's reason", () => {
  expect(systemOomEvent({ limitedCgroup: "/", process: "a", pid: 1 })).toEqual({
    type: "Warning",
    reason: "SystemOOM",
    message: "System OOM encountered, victim process: a, pid: 1",
  });
});
