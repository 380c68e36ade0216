import { expect, test } from "bun:test";
import { CgroupError } from "../../../cgroups/error.ts";
import { kubepods } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createNodeCgroups } from "./node-cgroups.ts";

function createFixture() {
  const clock = new FakeClock();
  const log = new FakeLog();
  const found: { limits: CgroupLimits | undefined; error?: CgroupError | undefined; reads: number } = {
    limits: undefined,
    reads: 0,
  };
  const changes: string[] = [];
  const stop = new AbortController();
  const cgroups = createNodeCgroups({
    cgroups: [{ of: "own", name: kubepods }],
    async read() {
      found.reads += 1;
      if (found.error !== undefined) throw found.error;
      return found.limits;
    },
    clock,
    log,
    onChange: () => changes.push(`${clock.elapsedMs} ms ${JSON.stringify(Object.fromEntries(cgroups.now() ?? []))}`),
  });
  return { clock, log, found, changes, cgroups, ended: cgroups.run(stop.signal), stop };
}

test("the cgroups are read at once, once a minute, and after a write of the agent; only a change is reported", async () => {
  const { clock, found, changes, cgroups, ended, stop } = createFixture();
  expect(cgroups.now()).toBeUndefined();
  await clock.advance(119_000);
  expect(found.reads).toBe(2);
  found.limits = { cpuWeight: 10 };
  cgroups.invalidate();
  await clock.advance(59_000);
  expect(found.reads).toBe(3);
  found.limits = { cpuWeight: 20 };
  await clock.advance(60_000);
  expect(changes).toEqual([
    "0 ms {}",
    '119000 ms {"kubepods":{"cpuWeight":10}}',
    '179000 ms {"kubepods":{"cpuWeight":20}}',
  ]);
  stop.abort();
  await ended;
});

test("a cgroup that cannot be read keeps what was read before, and the log says why", async () => {
  const { clock, log, found, changes, cgroups } = createFixture();
  found.limits = { cpuWeight: 10 };
  await clock.advance(60_000);
  found.error = new CgroupError("EIO", "/sys/fs/cgroup/kubepods/cpu.weight", undefined, "cannot read: EIO");
  await clock.advance(60_000);
  expect(cgroups.now()?.get("kubepods")).toEqual({ cpuWeight: 10 });
  expect(log.takeLines()).toEqual(["warn: cannot read the cgroup kubepods; what was read before still counts"]);
  expect(changes).toEqual(["0 ms {}", '60000 ms {"kubepods":{"cpuWeight":10}}']);
});

test("a container runtime that never answers does not hold up the stop of the agent", async () => {
  const stop = new AbortController();
  const cgroups = createNodeCgroups({
    cgroups: [{ of: "own", name: kubepods }],
    read: () => new Promise(() => {}),
    clock: new FakeClock(),
    log: new FakeLog(),
    onChange: () => {},
  });
  const ended = cgroups.run(stop.signal);
  stop.abort();
  await ended;
  expect(cgroups.now()).toBeUndefined();
});
