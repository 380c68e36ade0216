import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import type { KernelListener } from "../../../host/kernel-log.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { followSystemOoms } from "./system-oom.ts";

const INVOKED = "stress invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0";
const KILLED = "Out of memory: Killed process 812 (stress) total-vm:8388kB, anon-rss:8000kB";
const OF_CONTAINER =
  "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,mems_allowed=0,oom_memcg=/kubepods/a,task_memcg=/kubepods/a,task=stress,pid=812,uid=0";
const UNTOLD = "nobody will be told when this machine runs out of memory (SystemOOM)";
const EVENT = "Warning SystemOOM System OOM encountered, victim process: stress, pid: 812";

/** What is told and logged of a kernel that says what `say` makes it say, and then has no more to say. */
async function told(say: (kernel: KernelListener) => void, ended = new AbortController()) {
  const log = new FakeLog();
  const events: string[] = [];
  const kernelLog = { follow: async (listener: KernelListener) => say(listener) };
  const tell = (event: object) => void events.push(Object.values(event).join(" "));
  await followSystemOoms({ kernelLog, log, tell }, ended.signal);
  return { events, logged: log.told() };
}

/** A kernel that goes on, until nobody hears it any more. */
function goingOn(say: (kernel: KernelListener) => void) {
  const ended = new AbortController();
  return told((kernel) => {
    say(kernel);
    ended.abort();
  }, ended);
}

test("that the machine has run out of memory is told and logged", async () => {
  const { events, logged } = await goingOn(({ heard }) => {
    for (const message of ["eth0: link up", INVOKED, "Mem-Info:", KILLED, "eth0: link down"]) heard(message);
  });
  expect(events).toEqual([EVENT]);
  expect(logged).toEqual(["warn: System OOM encountered, victim process: stress, pid: 812"]);
});

test("that a container has reached its own limit is nothing of the node's", async () => {
  const { events, logged } = await goingOn(({ heard }) => {
    for (const message of [INVOKED, OF_CONTAINER, KILLED]) heard(message);
  });
  expect([events, logged]).toEqual([[], []]);
});

test("a report of which some was lost is not taken for one of the machine, and the next one is told", async () => {
  const { events } = await goingOn(({ heard, lost }) => {
    heard(INVOKED);
    lost();
    heard(KILLED);
    heard(INVOKED);
    heard(KILLED);
  });
  expect(events).toEqual([EVENT]);
});

test("a kernel whose log cannot be read is said once, with the reason", async () => {
  const { events, logged } = await told(() => {
    throw new FilesError("EACCES", "/dev/kmsg", "/dev/kmsg may not be accessed");
  });
  expect(events).toEqual([]);
  expect(logged).toEqual([`warn: the kernel's log cannot be read: ${UNTOLD}`]);
});

test("a log that ends is said", async () => {
  const { logged } = await told(() => {});
  expect(logged).toEqual([`warn: the kernel's log has come to an end, which it never should: ${UNTOLD}`]);
});
