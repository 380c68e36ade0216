import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createWatchdog } from "./ping-watchdog.ts";

function started() {
  const clock = new FakeClock();
  const told: string[] = [];
  const scene = { isExpecting: false, answersPings: true };
  const tell = (what: string) => told.push(`${clock.elapsedMs / 1000}s ${what}`);
  const watchdog = createWatchdog({
    clock,
    ping() {
      tell("ping");
      if (scene.answersPings) watchdog.heard();
    },
    isExpecting: () => scene.isExpecting,
    dead: () => tell("dead"),
  });
  const expectSomething = () => {
    scene.isExpecting = true;
    watchdog.wake();
  };
  return { clock, told, scene, watchdog, expectSomething };
}

test("while nothing is expected, nothing is asked and no timer runs", async () => {
  const { clock, told } = started();
  await clock.advance(3_600_000);
  expect(told).toEqual([]);
  expect(clock.timers).toBe(0);
});

test("silence is asked about every 15 seconds, until nothing is expected any more", async () => {
  const { clock, told, scene, expectSomething } = started();
  expectSomething();
  await clock.advance(40_000);
  scene.isExpecting = false;
  await clock.advance(60_000);
  expect(told).toEqual(["15s ping", "30s ping"]);
  expect(clock.timers).toBe(0);
});

test("who is heard is not asked", async () => {
  const { clock, told, watchdog, expectSomething } = started();
  expectSomething();
  for (let second = 0; second < 60; second += 10) {
    await clock.advance(10_000);
    watchdog.heard();
  }
  expect(told).toEqual([]);
  await clock.advance(15_000);
  expect(told).toEqual(["75s ping"]);
});

test("whoever does not answer is dead, 30 seconds after the last sign of life", async () => {
  const { clock, told, scene, expectSomething } = started();
  scene.answersPings = false;
  expectSomething();
  await clock.advance(120_000);
  expect(told).toEqual(["15s ping", "30s dead"]);
});

test("after a long rest the first question is asked at once", async () => {
  const { clock, told, scene, expectSomething } = started();
  scene.answersPings = false;
  await clock.advance(3_600_000);
  expectSomething();
  await clock.advance(15_000);
  expect(told).toEqual(["3600s ping", "3615s dead"]);
});

test("any sign of life answers a question, as one may stand behind a long answer", async () => {
  const { clock, told, scene, watchdog, expectSomething } = started();
  scene.answersPings = false;
  expectSomething();
  await clock.advance(20_000);
  watchdog.heard();
  await clock.advance(29_000);
  expect(told).toEqual(["15s ping", "35s ping"]);
});

test("a clock that is set back an hour makes no silence longer", async () => {
  const { clock, told, scene, expectSomething } = started();
  scene.answersPings = false;
  expectSomething();
  clock.jump(-3_600_000);
  await clock.advance(120_000);
  expect(told).toEqual(["15s ping", "30s dead"]);
});

test("nor does one that was set back while nothing was expected", async () => {
  const { clock, told, scene, expectSomething } = started();
  scene.answersPings = false;
  clock.jump(-3_600_000);
  expectSomething();
  await clock.advance(120_000);
  expect(told).toEqual(["15s ping", "30s dead"]);
});

test("once stopped it says nothing more", async () => {
  const { clock, told, watchdog, expectSomething } = started();
  expectSomething();
  watchdog.stop();
  watchdog.wake();
  watchdog.heard();
  await clock.advance(120_000);
  expect(told).toEqual([]);
  expect(clock.timers).toBe(0);
});
