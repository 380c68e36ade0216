import { expect, test } from "bun:test";
import { createEventSource } from "../../host/async/event-source.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createNetworkAuditTimes } from "./network-audit-times.ts";

function createFixture() {
  const clock = new FakeClock();
  const runtimeListed = createEventSource();
  const times = { ...createNetworkAuditTimes({ clock, runtimeListed }), runtimeListed };
  let audits = 0;
  times.networkAuditDue.subscribe(() => audits++);
  return { clock, times, audits: () => audits };
}

test("an audit follows a list of the runtime when the agent is idle, once for each list", async () => {
  const { clock, times, audits } = createFixture();
  times.onIdle();
  expect(audits()).toBe(0);
  times.runtimeListed.emit();
  await clock.advance(30_000);
  expect(audits()).toBe(0);
  times.onIdle();
  times.onIdle();
  expect([audits(), clock.pendingTimers]).toEqual([1, 0]);
  times.runtimeListed.emit();
  times.runtimeListed.emit();
  times.onIdle();
  await clock.advance(3_600_000);
  expect(audits()).toBe(2);
});

test("a node that is never idle is audited a minute after the first of its lists", async () => {
  const { clock, times, audits } = createFixture();
  times.runtimeListed.emit();
  await clock.advance(30_000);
  times.runtimeListed.emit();
  await clock.advance(29_999);
  expect(audits()).toBe(0);
  await clock.advance(1);
  times.onIdle();
  expect([audits(), clock.pendingTimers]).toEqual([1, 0]);
});

test("an action that is under way, such as a slow RunPodSandbox, holds up the audit", () => {
  const { times, audits } = createFixture();
  times.runtimeListed.emit();
  times.onActionStarted();
  times.onActionStarted();
  times.onActionFinished();
  times.onIdle();
  expect(audits()).toBe(0);
  times.onActionFinished();
  times.onIdle();
  expect(audits()).toBe(1);
});

test("an agent that stops is not audited any more", async () => {
  const { clock, times, audits } = createFixture();
  times.runtimeListed.emit();
  times.stop();
  times.runtimeListed.emit();
  times.onIdle();
  await clock.advance(60_000);
  expect([audits(), clock.pendingTimers]).toEqual([0, 0]);
});
