import { expect, test } from "bun:test";
import { CniError } from "../../../cni/error.ts";
import { aborted } from "../../../host/async/abort.ts";
import { sleep } from "../../../host/clock.ts";
import type { LogFields } from "../../../host/log/log.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createNetworkAudit, type NetworkAuditOptions } from "./network-audit.ts";

const nothing = { deleted: [], againAfterMs: undefined };
const busy = new CniError(100, "busy", { plugin: "bridge", stderr: "ip: device or resource busy\n" });
const sandboxes = { isReady: new Map([["web", true]]), listedAtMs: 0 };

/** An audit that counts its runs. */
function createFixture(changed: Partial<NetworkAuditOptions> = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  let runs = 0;
  const collectGarbage = changed.collectGarbage ?? (async () => nothing);
  const audit = createNetworkAudit({
    ...{ clock, log, listSandboxes: async () => sandboxes },
    ...changed,
    collectGarbage(...args) {
      runs++;
      return collectGarbage(...args);
    },
  });
  return { audit, clock, log, runs: () => runs };
}

test("it runs once for each list of the runtime, says nothing when nothing is left over, and keeps no timer", async () => {
  const got: unknown[] = [];
  const { audit, clock, log } = createFixture({
    async collectGarbage(listed) {
      got.push(listed);
      return nothing;
    },
  });
  await clock.advance(3_600_000);
  expect(got).toEqual([]);
  for (let count = 1; count <= 2; count++) {
    audit.wake();
    await clock.advance(3_600_000);
    expect([got.length, got.at(-1), log.lines, clock.pendingTimers]).toEqual([count, sandboxes, [], 0]);
  }
});

test("what it has deleted is in the log", async () => {
  const deleted = [{ network: "pods", containerId: "3f2a", ifName: "eth0" }];
  const { audit, clock, log } = createFixture({ collectGarbage: async () => ({ deleted, againAfterMs: undefined }) });
  audit.wake();
  await clock.advance(0);
  expect(log.lines).toMatchObject([{ level: "info", fields: { attachments: ["pods 3f2a eth0"] } }]);
});

test("an attachment that was too young is decided once it is old enough", async () => {
  const { audit, clock, runs } = createFixture({
    collectGarbage: async () => (runs() === 1 ? { deleted: [], againAfterMs: 9_000 } : nothing),
  });
  audit.wake();
  await clock.advance(8_999);
  expect(runs()).toBe(1);
  await clock.advance(3_600_000);
  expect([runs(), clock.pendingTimers]).toEqual([2, 0]);
});

test("a failure is logged once in the plugin's words, and tried again after its back-off until it succeeds", async () => {
  let failure: Error | undefined = busy;
  const { audit, clock, log, runs } = createFixture({
    async collectGarbage() {
      if (failure !== undefined) throw failure;
      return nothing;
    },
  });
  const lineOf = (fields: LogFields) => ({
    level: "warn" as const,
    message: "the network may keep addresses and interfaces of sandboxes that are gone",
    fields,
  });
  const ofBusy = lineOf({ reason: "bridge: busy (code 100)", stderr: "ip: device or resource busy\n" });
  audit.wake();
  for (const [waitMs, count] of [
    [9_999, 1],
    [1, 2],
    [19_999, 2],
    [1, 3],
  ] as const) {
    await clock.advance(waitMs);
    expect(runs()).toBe(count);
  }
  expect(log.lines).toEqual([ofBusy]);
  // Then after 70, 150, 310 and 630 seconds, and every ten minutes.
  await clock.advance(3_600_000);
  expect(runs()).toBe(12);
  failure = new CniError(100, "still busy");
  await clock.advance(600_000);
  expect(log.lines).toEqual([ofBusy, lineOf({ reason: "still busy (code 100)" })]);
  failure = undefined;
  await clock.advance(600_000);
  const succeeded = runs();
  await clock.advance(3_600_000);
  expect([runs(), clock.pendingTimers, log.lines.length]).toEqual([succeeded, 0, 2]);
  failure = busy;
  audit.wake();
  await clock.advance(0);
  expect([runs(), log.lines.at(-1)]).toEqual([succeeded + 1, ofBusy]);
});

test("lists of the runtime do not shorten the back-off", async () => {
  const { audit, clock, runs } = createFixture({ collectGarbage: () => Promise.reject(busy) });
  audit.wake();
  await clock.advance(1_000);
  audit.wake();
  audit.wake();
  await clock.advance(8_999);
  expect(runs()).toBe(1);
  await clock.advance(1);
  expect(runs()).toBe(2);
});

test("a wall clock that is set forward does not shorten the back-off", async () => {
  const { audit, clock, runs } = createFixture({ collectGarbage: () => Promise.reject(busy) });
  audit.wake();
  await clock.advance(1_000);
  clock.stepWallClock(3_600_000);
  audit.wake();
  await clock.advance(8_999);
  expect(runs()).toBe(1);
  await clock.advance(1);
  expect(runs()).toBe(2);
});

test("a wall clock that is set back does not hold up the audit after a list of the runtime", async () => {
  const answers = [() => Promise.reject(busy), () => sleep(clock, 5_000).then(() => nothing), async () => nothing];
  const { audit, clock, runs } = createFixture({ collectGarbage: () => answers.shift()!() });
  audit.wake();
  await clock.advance(1_000);
  clock.stepWallClock(-3_600_000);
  await clock.advance(9_000);
  expect(runs()).toBe(2);
  // The runtime sends another list while the second audit still runs with the first one.
  audit.wake();
  await clock.advance(5_000);
  expect([runs(), answers.length, clock.pendingTimers]).toEqual([3, 0, 0]);
});

test("a runtime that cannot be listed, or a fault of this program, does not stop the agent either", async () => {
  let fails = true;
  let lists = 0;
  const { audit, clock, log, runs } = createFixture({
    async listSandboxes() {
      lists++;
      if (fails) throw new TypeError("no list");
      return sandboxes;
    },
  });
  audit.wake();
  await clock.advance(10_000);
  expect([lists, runs(), log.lines.map(({ fields }) => fields)]).toEqual([2, 0, [{ reason: "no list" }]]);
  fails = false;
  // After a list of the runtime there is nothing to wait for.
  audit.wake();
  await clock.advance(0);
  expect([lists, runs(), clock.pendingTimers]).toEqual([3, 1, 0]);
});

/** Until it is cancelled, as a plugin that hangs. */
const hang: NetworkAuditOptions["collectGarbage"] = async (_, signal) => {
  await aborted(signal);
  throw signal.reason;
};

test("a plugin that hangs is cancelled, so that pods can start", async () => {
  const { audit, clock, log } = createFixture({ collectGarbage: hang });
  audit.wake();
  await clock.advance(60_000);
  expect(log.lines.map(({ fields }) => fields)).toEqual([{ reason: "it took longer than 60 s (code 999)" }]);
});

test("stop cancels what is under way, without a line in the log", async () => {
  const { audit, clock, log } = createFixture({ collectGarbage: hang });
  audit.wake();
  await clock.advance(1_000);
  await audit.stop();
  audit.wake();
  await clock.advance(3_600_000);
  expect([log.lines, clock.pendingTimers]).toEqual([[], 0]);
});
