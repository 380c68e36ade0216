import { expect, test } from "bun:test";
import { backoffDelayMs, dueAfter } from "./backoff.ts";

test("delays double up to the maximum", () => {
  const delays = [0, 1, 2, 3, 4, 5, 6, 7, 1000].map((failures) =>
    backoffDelayMs({ initialMs: 10, maxMs: 300 }, failures),
  );
  expect(delays).toEqual([0, 10, 20, 40, 80, 160, 300, 300, 300]);
});

test("a delay that starts in the future ends now", () => {
  expect([dueAfter(100, 50, 120), dueAfter(100, 50, 100), dueAfter(100, 50, 99)]).toEqual([150, 150, 99]);
});
