import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createIdleTimer } from "./idle-timer.ts";

function createFixture() {
  const clock = new FakeClock();
  const idleTimes: number[] = [];
  const timer = createIdleTimer(clock, 5_000, () => idleTimes.push(clock.elapsedMs));
  return { clock, idleTimes, timer };
}

test("the timer fires once, the given time after the last activity", async () => {
  const { clock, idleTimes, timer } = createFixture();
  timer.touch();
  await clock.advance(3_000);
  timer.touch();
  await clock.advance(60_000);
  expect(idleTimes).toEqual([8_000]);
  timer.touch();
  await clock.advance(60_000);
  expect(idleTimes).toEqual([8_000, 68_000]);
});

test("the timer does not fire without activity, or after stop", async () => {
  const { clock, idleTimes, timer } = createFixture();
  await clock.advance(10_000);
  timer.touch();
  timer.stop();
  timer.touch();
  await clock.advance(10_000);
  expect(idleTimes).toEqual([]);
});

test("a clock that is set back does not delay the timer", async () => {
  const { clock, idleTimes, timer } = createFixture();
  timer.touch();
  clock.stepWallClock(-3_600_000);
  await clock.advance(5_000);
  expect(idleTimes).toEqual([5_000]);
});
