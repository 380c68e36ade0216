import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import type { KernelLogListener } from "../../../host/kernel-log.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { watchSystemOoms } from "./system-oom.ts";

const INVOKED = "stress invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";
const KILLED = "Out of memory: Killed process 812 (stress) total-vm:8388kB, anon-rss:8000kB";
const OF_CONTAINER =
  "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/a,task_memcg=/kubepods/a,task=stress,pid=812,uid=0";
const CONSEQUENCE = "SystemOOM events will not be reported";
const EVENT = "Warning SystemOOM System OOM encountered, victim process: stress, pid: 812";

/** The events and logs for a kernel log with the messages of `say`, which then ends. */
async function reported(say: (kernel: KernelLogListener) => void, ended = new AbortController()) {
  const log = new FakeLog();
  const events: string[] = [];
  const kernelLog = { follow: async (listener: KernelLogListener) => say(listener) };
  const recordEvent = (event: object) => void events.push(Object.values(event).join(" "));
  await watchSystemOoms({ kernelLog, log, recordEvent }, ended.signal);
  return { events, logged: log.takeLines() };
}

/** A kernel log that stays open until the signal aborts. */
function goingOn(say: (kernel: KernelLogListener) => void) {
  const ended = new AbortController();
  return reported((kernel) => {
    say(kernel);
    ended.abort();
  }, ended);
}

test("a system OOM kill is reported and logged", async () => {
  const { events, logged } = await goingOn(({ onMessage }) => {
    for (const message of ["eth0: link up", INVOKED, "Mem-Info:", KILLED, "eth0: link down"]) onMessage(message);
  });
  expect(events).toEqual([EVENT]);
  expect(logged).toEqual(["warn: System OOM encountered, victim process: stress, pid: 812"]);
});

test("an OOM kill at a container's own limit is not reported", async () => {
  const { events, logged } = await goingOn(({ onMessage }) => {
    for (const message of [INVOKED, OF_CONTAINER, KILLED]) onMessage(message);
  });
  expect([events, logged]).toEqual([[], []]);
});

test("an incomplete OOM report is ignored, and the next one is reported", async () => {
  const { events } = await goingOn(({ onMessage, onLoss }) => {
    onMessage(INVOKED);
    onLoss();
    onMessage(KILLED);
    onMessage(INVOKED);
    onMessage(KILLED);
  });
  expect(events).toEqual([EVENT]);
});

test("an unreadable kernel log is logged once with the reason", async () => {
  const { events, logged } = await reported(() => {
    throw new FilesError("EACCES", "/dev/kmsg", "/dev/kmsg may not be accessed");
  });
  expect(events).toEqual([]);
  expect(logged).toEqual([`warn: cannot read the kernel log: ${CONSEQUENCE}`]);
});

test("a kernel log that ends is logged", async () => {
  const { logged } = await reported(() => {});
  expect(logged).toEqual([`warn: the kernel log has ended unexpectedly: ${CONSEQUENCE}`]);
});
