import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeConnection } from "../../test/fakes/connection.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import { createRecovery } from "./recovery.ts";

/** A sleeper of a minute, and requests whose results the test decides. */
function createFixture({ random = 0, sleepMs = 60_000 } = {}) {
  const [clock, inner] = [new FakeClock(), new FakeConnection()];
  const recovery = createRecovery(clock, () => random);
  const connection = recovery.track(inner);
  const controller = new AbortController();
  let wokenAt: number | undefined;
  void recovery.sleep(sleepMs, controller.signal).then(
    () => (wokenAt = clock.elapsedMs),
    () => (wokenAt = -1),
  );
  return {
    clock,
    inner,
    connection,
    controller,
    wokenAt: () => wokenAt,
    async ask(code?: KubeErrorCode, status?: number) {
      inner.respond = () => {
        if (code !== undefined) throw new KubeError(code, "no", { status });
        return {};
      };
      // The caller's failure is not what these tests observe.
      await connection.request({ method: "GET", path: "/", deadlineMs: 1 }).catch(() => undefined);
      await settlePromises();
    },
  };
}

const outages: readonly (readonly [KubeErrorCode, number | undefined])[] = [
  ["UNREACHABLE", undefined],
  ["TIMEOUT", undefined],
  ["UNAUTHORIZED", 401],
  ["TOO_MANY_REQUESTS", 429],
  ["SERVER", 500],
];
for (const [code, status] of outages)
  test(`the first answer after an outage with ${code} ends the back-off of each watch`, async () => {
    const { clock, ask, wokenAt } = createFixture();
    await ask(code, status);
    await clock.advance(2_000);
    await ask(code, status);
    await clock.advance(2_000);
    expect(wokenAt()).toBeUndefined();
    await ask();
    await clock.advance(0);
    expect(wokenAt()).toBe(4_000);
  });

test("an error answer with an HTTP status ends an outage, too", async () => {
  const { clock, ask, wokenAt } = createFixture();
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask("NOT_FOUND", 404);
  await clock.advance(0);
  expect(wokenAt()).toBe(5_000);
});

test("a watch that opens ends an outage", async () => {
  const { clock, ask, inner, connection, wokenAt } = createFixture();
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  void connection.lines({ method: "GET", path: "/" }, () => undefined);
  await inner.lastStream.open();
  await clock.advance(0);
  expect(wokenAt()).toBe(5_000);
});

test("a watch that is cut starts an outage", async () => {
  const { clock, ask, inner, connection, wokenAt } = createFixture();
  void connection.lines({ method: "GET", path: "/" }, () => undefined);
  await inner.lastStream.open();
  await inner.lastStream.end(new KubeError("UNREACHABLE", "cut"));
  await clock.advance(5_000);
  await ask();
  await clock.advance(0);
  expect(wokenAt()).toBe(5_000);
});

test("nodes spread their wake-ups after an outage", async () => {
  const { clock, ask, wokenAt } = createFixture({ random: 0.5 });
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask();
  await clock.advance(499);
  expect(wokenAt()).toBeUndefined();
  await clock.advance(1);
  expect(wokenAt()).toBe(5_500);
});

test("a wake-up never makes a sleep longer", async () => {
  const { clock, ask, wokenAt } = createFixture({ random: 0.9, sleepMs: 5_100 });
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask();
  await clock.advance(100);
  expect(wokenAt()).toBe(5_100);
});

test("requests that fail now and then wake no sleeper", async () => {
  const { clock, ask, wokenAt } = createFixture();
  for (let second = 0; second < 20; second += 1) {
    await ask("SERVER", 500);
    await clock.advance(1_000);
    await ask();
  }
  expect(wokenAt()).toBeUndefined();
});

test("an error of the request itself is not an outage", async () => {
  const { clock, ask, wokenAt } = createFixture();
  for (const [code, status] of [
    ["FORBIDDEN", 403],
    ["CANCELLED", undefined],
  ] as const) {
    await ask(code, status);
    await clock.advance(5_000);
    await ask();
  }
  await clock.advance(0);
  expect(wokenAt()).toBeUndefined();
});

test("without an outage, sleep lasts its time or until the signal aborts", async () => {
  const slept = createFixture();
  await slept.clock.advance(60_000);
  expect(slept.wokenAt()).toBe(60_000);
  const aborted = createFixture();
  aborted.controller.abort();
  await settlePromises();
  expect([aborted.wokenAt(), aborted.clock.pendingTimers]).toEqual([-1, 0]);
});

test("the subscriber is called for each recovery until its signal aborts", async () => {
  const clock = new FakeClock();
  const inner = new FakeConnection();
  const recovery = createRecovery(clock, () => 0);
  const connection = recovery.track(inner);
  const controller = new AbortController();
  let times = 0;
  recovery.subscribeToRecovery(() => (times += 1), controller.signal);
  const outage = async () => {
    inner.respond = () => {
      throw new KubeError("SERVER", "no", { status: 500 });
    };
    // The caller's failure is not what these tests observe.
    await connection.request({ method: "GET", path: "/", deadlineMs: 1 }).catch(() => undefined);
    await clock.advance(5_000);
    inner.respond = () => ({});
    await connection.request({ method: "GET", path: "/", deadlineMs: 1 });
    await clock.advance(10);
  };
  await outage();
  await outage();
  expect(times).toBe(2);
  controller.abort();
  await outage();
  expect([times, clock.pendingTimers]).toEqual([2, 0]);
});
