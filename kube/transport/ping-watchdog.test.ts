import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createPingWatchdog } from "./ping-watchdog.ts";

function createFixture() {
  const clock = new FakeClock();
  const calls: string[] = [];
  const state = { isExpecting: false, answersPings: true };
  const record = (what: string) => calls.push(`${clock.elapsedMs / 1000}s ${what}`);
  const watchdog = createPingWatchdog({
    clock,
    ping() {
      record("ping");
      if (state.answersPings) watchdog.onActivity();
    },
    isExpecting: () => state.isExpecting,
    onDead: () => record("dead"),
  });
  const expectAnswer = () => {
    state.isExpecting = true;
    watchdog.start();
  };
  return { clock, calls, state, watchdog, expectAnswer };
}

test("while no answer is expected, it sends no pings and runs no timer", async () => {
  const { clock, calls } = createFixture();
  await clock.advance(3_600_000);
  expect(calls).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

test("it sends a ping after every 15 seconds of silence, while an answer is expected", async () => {
  const { clock, calls, state, expectAnswer } = createFixture();
  expectAnswer();
  await clock.advance(40_000);
  state.isExpecting = false;
  await clock.advance(60_000);
  expect(calls).toEqual(["15s ping", "30s ping"]);
  expect(clock.pendingTimers).toBe(0);
});

test("received data postpones the ping", async () => {
  const { clock, calls, watchdog, expectAnswer } = createFixture();
  expectAnswer();
  for (let second = 0; second < 60; second += 10) {
    await clock.advance(10_000);
    watchdog.onActivity();
  }
  expect(calls).toEqual([]);
  await clock.advance(15_000);
  expect(calls).toEqual(["75s ping"]);
});

test("a connection without an answer is dead 30 seconds after the last received data", async () => {
  const { clock, calls, state, expectAnswer } = createFixture();
  state.answersPings = false;
  expectAnswer();
  await clock.advance(120_000);
  expect(calls).toEqual(["15s ping", "30s dead"]);
});

test("after a long idle time the first ping is sent at once", async () => {
  const { clock, calls, state, expectAnswer } = createFixture();
  state.answersPings = false;
  await clock.advance(3_600_000);
  expectAnswer();
  await clock.advance(15_000);
  expect(calls).toEqual(["3600s ping", "3615s dead"]);
});

test("any data counts as the answer to a ping, which may be queued behind a long response", async () => {
  const { clock, calls, state, watchdog, expectAnswer } = createFixture();
  state.answersPings = false;
  expectAnswer();
  await clock.advance(20_000);
  watchdog.onActivity();
  await clock.advance(29_000);
  expect(calls).toEqual(["15s ping", "35s ping"]);
});

test("setting the clock back an hour does not delay the ping", async () => {
  const { clock, calls, state, expectAnswer } = createFixture();
  state.answersPings = false;
  expectAnswer();
  clock.stepWallClock(-3_600_000);
  await clock.advance(120_000);
  expect(calls).toEqual(["15s ping", "30s dead"]);
});

test("setting the clock back while idle does not delay the ping", async () => {
  const { clock, calls, state, expectAnswer } = createFixture();
  state.answersPings = false;
  clock.stepWallClock(-3_600_000);
  expectAnswer();
  await clock.advance(120_000);
  expect(calls).toEqual(["15s ping", "30s dead"]);
});

test("after stop it calls nothing", async () => {
  const { clock, calls, watchdog, expectAnswer } = createFixture();
  expectAnswer();
  watchdog.stop();
  watchdog.start();
  watchdog.onActivity();
  await clock.advance(120_000);
  expect(calls).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});
