import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { keepVolumeFigures } from "./volume-figures.ts";

function createSubject(periodMs: number) {
  const clock = new FakeClock();
  let measurements = 0;
  const show = keepVolumeFigures(
    async () => {
      measurements++;
      return { pods: [] };
    },
    periodMs,
    clock,
  );
  return { clock, show, measurements: () => measurements };
}

test("pages within the period show one measurement, also those that are asked for at once", async () => {
  const { clock, show, measurements } = createSubject(60_000);
  const [first, second] = await Promise.all([show(), show()]);
  expect(second).toBe(first);
  await clock.advance(59_999);
  expect((await show()).measuredAtMs).toBe(FakeClock.start);
  await clock.advance(1);
  expect((await show()).measuredAtMs).toBe(FakeClock.start + 60_000);
  expect(measurements()).toBe(2);
});

test("a period of 0 or less measures nothing", async () => {
  for (const periodMs of [0, -1]) {
    const { show, measurements } = createSubject(periodMs);
    expect((await show()).pods).toEqual([]);
    expect(measurements()).toBe(0);
  }
});

test("a measurement that fails is not shown again", async () => {
  const answers = [Promise.reject(new Error("away")), Promise.resolve({ pods: [] })];
  const show = keepVolumeFigures(
    async () => await (answers.shift() ?? Promise.reject(new Error("once more"))),
    60_000,
    new FakeClock(),
  );
  await expect(show()).rejects.toThrow("away");
  expect((await show()).pods).toEqual([]);
  expect((await show()).pods).toEqual([]);
});
