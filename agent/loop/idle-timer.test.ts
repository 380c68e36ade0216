import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createIdleTimer } from "./idle-timer.ts";

function createFixture() {
  const clock = new FakeClock();
  const rests: number[] = [];
  const rest = createIdleTimer(clock, 5_000, () => rests.push(clock.elapsedMs));
  return { clock, rests, rest };
}

test("the timer fires once, the given time after the last activity", async () => {
  const { clock, rests, rest } = createFixture();
  rest.touch();
  await clock.advance(3_000);
  rest.touch();
  await clock.advance(60_000);
  expect(rests).toEqual([8_000]);
  rest.touch();
  await clock.advance(60_000);
  expect(rests).toEqual([8_000, 68_000]);
});

test("the timer does not fire without activity, or after stop", async () => {
  const { clock, rests, rest } = createFixture();
  await clock.advance(10_000);
  rest.touch();
  rest.stop();
  rest.touch();
  await clock.advance(10_000);
  expect(rests).toEqual([]);
});

test("a clock that is set back does not delay the timer", async () => {
  const { clock, rests, rest } = createFixture();
  rest.touch();
  clock.stepWallClock(-3_600_000);
  await clock.advance(5_000);
  expect(rests).toEqual([5_000]);
});
