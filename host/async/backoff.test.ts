import { expect, test } from "bun:test";
import { backoffMs, createBackoffCounter } from "./backoff.ts";

const plain = { initialMs: 100, maxMs: 5_000 };

test("a delay doubles with each failure up to the maximum, and is 0 without a failure", () => {
  expect([0, 1, 2, 3, 7, 1_000].map((failures) => backoffMs(plain, failures))).toEqual([
    0, 100, 200, 400, 5_000, 5_000,
  ]);
});

test("jitter multiplies each delay, the longest too, by a factor from one bound to the other", () => {
  const delays = (chance: number) =>
    [1, 2, 100].map((failures) =>
      backoffMs({ ...plain, jitter: { from: 0.75, to: 1.25, random: () => chance } }, failures),
    );
  expect(delays(0)).toEqual([75, 150, 3_750]);
  expect(delays(0.5)).toEqual([100, 200, 5_000]);
  expect(delays(1)).toEqual([125, 250, 6_250]);
});

test("a reset starts the delays from the first one", () => {
  const backoff = createBackoffCounter(plain);
  expect([backoff.next(), backoff.next()]).toEqual([100, 200]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});
