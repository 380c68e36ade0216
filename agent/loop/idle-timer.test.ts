import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { createRest } from "./idle-timer.ts";

function createScene() {
  const clock = new FakeClock();
  const rests: number[] = [];
  const rest = createRest(clock, 5_000, () => rests.push(clock.elapsedMs));
  return { clock, rests, rest };
}

test("rest is told once, so long after the last stir, and not again while nothing stirs", async () => {
  const { clock, rests, rest } = createScene();
  rest.stir();
  await clock.advance(3_000);
  rest.stir();
  await clock.advance(60_000);
  expect(rests).toEqual([8_000]);
  rest.stir();
  await clock.advance(60_000);
  expect(rests).toEqual([8_000, 68_000]);
});

test("nothing is told without a stir, and nothing after the end", async () => {
  const { clock, rests, rest } = createScene();
  await clock.advance(10_000);
  rest.stir();
  rest.end();
  rest.stir();
  await clock.advance(10_000);
  expect(rests).toEqual([]);
});

test("a clock that is set back does not keep it waiting", async () => {
  const { clock, rests, rest } = createScene();
  rest.stir();
  clock.jump(-3_600_000);
  await clock.advance(5_000);
  expect(rests).toEqual([5_000]);
});
