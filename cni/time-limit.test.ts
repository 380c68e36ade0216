import { expect, test } from "bun:test";
import { FakeClock } from "../test/fakes/clock.ts";
import { createTimeLimit, unlimited } from "./time-limit.ts";

const staying = new AbortController().signal;

test("ADD ends after three quarters of the caller's time, and DEL, which undoes it, an eighth before the end", async () => {
  const clock = new FakeClock();
  const timeLeft = createTimeLimit(120_000, clock, staying);
  expect([timeLeft("ADD"), timeLeft("DEL"), timeLeft("CHECK")]).toEqual([90_000, 105_000, 105_000]);
  await clock.advance(60_000);
  expect([timeLeft("ADD"), timeLeft("DEL")]).toEqual([30_000, 45_000]);
  await clock.advance(40_000);
  expect([timeLeft("ADD"), timeLeft("DEL"), timeLeft("CHECK")]).toEqual([-10_000, 7_500, 5_000]);
});

test("after a DEL that has hung, each plugin before it still gets a sixteenth of the time", async () => {
  const clock = new FakeClock();
  const timeLeft = createTimeLimit(120_000, clock, staying);
  await clock.advance(106_000);
  expect([timeLeft("DEL"), timeLeft("CHECK")]).toEqual([7_500, -1_000]);
});

test("a setting of the wall clock changes nothing", async () => {
  const clock = new FakeClock();
  const timeLeft = createTimeLimit(120_000, clock, staying);
  clock.stepWallClock(86_400_000);
  expect(timeLeft("ADD")).toBe(90_000);
});

test("nothing limits the undo of an ADD whose caller has left", async () => {
  for (const leave of [
    (caller: AbortController) => caller.abort(),
    (_: unknown, clock: FakeClock) => clock.advance(500),
  ]) {
    const [clock, caller] = [new FakeClock(), new AbortController()];
    const timeLeft = createTimeLimit(8_000, clock, caller.signal);
    await clock.advance(7_500);
    expect(timeLeft("DEL")).toBe(500);
    await leave(caller, clock);
    expect(timeLeft("DEL")).toBe(Number.POSITIVE_INFINITY);
    expect(timeLeft("ADD")).toBeLessThan(0);
  }
});

test("a call without a limit has none", () => {
  const clock = new FakeClock();
  expect(createTimeLimit(undefined, clock, staying)("ADD")).toBe(Number.POSITIVE_INFINITY);
  expect(unlimited("ADD")).toBe(Number.POSITIVE_INFINITY);
});
