import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createPodCIDRUpdates } from "./pod-cidrs.ts";

/** A runtime that is away for the first `failures` calls. */
function createFixture(failures = 0, podCIDRs: readonly string[] = []) {
  const [clock, log, stopping] = [new FakeClock(), new FakeLog(), new AbortController()];
  const calls: string[] = [];
  const runtime = {
    async updateRuntimeConfig(podCIDR: string) {
      calls.push(podCIDR);
      if (calls.length <= failures) throw new CriError("UNAVAILABLE", "UpdateRuntimeConfig", "connection refused");
    },
  };
  const updates = createPodCIDRUpdates({ runtime, clock, log, podCIDRs }, stopping.signal);
  return { calls, clock, log, stopping, updates };
}

test("the runtime gets the pod CIDRs when they change, joined by a comma, and an empty list is no change", async () => {
  const { calls, clock, updates } = createFixture();
  const both = ["10.7.3.0/24", "fd00:7:3::/64"];
  for (const podCIDRs of [[], both, both, [], ["10.9.0.0/24"]]) {
    updates.setPodCIDRs(podCIDRs);
    await clock.advance(0);
  }
  expect(calls).toEqual([both.join(), "10.9.0.0/24"]);
});

test("those of the configuration come first, until the Node object has its own", async () => {
  const { calls, clock, updates } = createFixture(0, ["10.1.0.0/24"]);
  await clock.advance(0);
  updates.setPodCIDRs(["10.9.0.0/24"]);
  await clock.advance(0);
  expect(calls).toEqual(["10.1.0.0/24", "10.9.0.0/24"]);
});

test("a call that fails is repeated with a growing delay until it succeeds, and logged once", async () => {
  const { calls, clock, log, updates } = createFixture(3);
  updates.setPodCIDRs(["10.7.3.0/24"]);
  const counts: number[] = [];
  for (const ms of [0, 2_000, 4_000, 8_000, 600_000]) {
    await clock.advance(ms);
    counts.push(calls.length);
  }
  expect(counts).toEqual([1, 2, 3, 4, 4]);
  expect(log.lines.map(({ level }) => level)).toEqual(["error", "info"]);
});

test("pod CIDRs that change while the runtime is away replace those before", async () => {
  const { calls, clock, updates } = createFixture(1);
  updates.setPodCIDRs(["10.7.3.0/24"]);
  await clock.advance(0);
  updates.setPodCIDRs(["10.9.0.0/24"]);
  await clock.advance(2_000);
  expect(calls).toEqual(["10.7.3.0/24", "10.9.0.0/24"]);
});

test("an agent that stops leaves no timer and does not call again", async () => {
  const { calls, clock, log, stopping, updates } = createFixture(1);
  updates.setPodCIDRs(["10.7.3.0/24"]);
  await clock.advance(0);
  stopping.abort();
  await clock.advance(600_000);
  updates.setPodCIDRs(["10.9.0.0/24"]);
  await clock.advance(600_000);
  expect([calls, log.lines.length]).toEqual([["10.7.3.0/24"], 1]);
});
