import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { settledWithin } from "./settled-within.ts";

test("true as soon as the promise has settled, and no timer stays", async () => {
  const clock = new FakeClock();
  expect(await settledWithin(Promise.resolve("done"), 1_000, clock)).toBe(true);
  expect(await settledWithin(Promise.reject(new Error("failed")), 1_000, clock)).toBe(true);
  expect(clock.pendingTimers).toBe(0);
});

test("false when the time is over first", async () => {
  const clock = new FakeClock();
  const isSettled = settledWithin(new Promise(() => {}), 1_000, clock);
  await clock.advance(1_000);
  expect(await isSettled).toBe(false);
});
