import { expect, test } from "bun:test";
import { FakeClock } from "../test/fakes/clock.ts";
import { createRepeatedTimeLimit, createTimeLimit, unlimited } from "./time-limit.ts";

const staying = new AbortController().signal;

test("ADD ends after three quarters of the caller's time, and DEL, which undoes it, an eighth before the end", async () => {
  const clock = new FakeClock();
  const timeLimit = createTimeLimit(120_000, clock, staying);
  expect([timeLimit.ofPlugin("ADD"), timeLimit.ofPlugin("DEL"), timeLimit.ofPlugin("CHECK")]).toEqual([
    90_000, 105_000, 105_000,
  ]);
  await clock.advance(60_000);
  expect([timeLimit.ofPlugin("ADD"), timeLimit.ofPlugin("DEL")]).toEqual([30_000, 45_000]);
  await clock.advance(40_000);
  expect([timeLimit.ofPlugin("ADD"), timeLimit.ofPlugin("DEL"), timeLimit.ofPlugin("CHECK")]).toEqual([
    -10_000, 7_500, 5_000,
  ]);
});

test("after a DEL that has hung, each plugin before it still gets a sixteenth of the time", async () => {
  const clock = new FakeClock();
  const timeLimit = createTimeLimit(120_000, clock, staying);
  await clock.advance(106_000);
  expect([timeLimit.ofPlugin("DEL"), timeLimit.ofPlugin("CHECK")]).toEqual([7_500, -1_000]);
});

test("a setting of the wall clock changes nothing", async () => {
  const clock = new FakeClock();
  const timeLimit = createTimeLimit(120_000, clock, staying);
  clock.stepWallClock(86_400_000);
  expect(timeLimit.ofPlugin("ADD")).toBe(90_000);
});

test("nothing limits the undo of an ADD whose caller has left", async () => {
  for (const leave of [
    (caller: AbortController) => caller.abort(),
    (_: unknown, clock: FakeClock) => clock.advance(500),
  ]) {
    const [clock, caller] = [new FakeClock(), new AbortController()];
    const timeLimit = createTimeLimit(8_000, clock, caller.signal);
    await clock.advance(7_500);
    expect(timeLimit.ofPlugin("DEL")).toBe(500);
    await leave(caller, clock);
    expect(timeLimit.ofPlugin("DEL")).toBe(Number.POSITIVE_INFINITY);
    expect(timeLimit.ofPlugin("ADD")).toBeLessThan(0);
  }
});

test("a call without a limit has none", () => {
  const clock = new FakeClock();
  expect(createTimeLimit(undefined, clock, staying).ofPlugin("ADD")).toBe(Number.POSITIVE_INFINITY);
  expect(unlimited.ofPlugin("ADD")).toBe(Number.POSITIVE_INFINITY);
});

test("each plugin of a repeated call has the same time, an eighth is left for the answer, and a wait for a lock ends", async () => {
  const clock = new FakeClock();
  const timeLimit = createRepeatedTimeLimit(12_000, clock, staying);
  const left = () => [timeLimit.ofPlugin("STATUS"), timeLimit.ofPlugin("DEL"), timeLimit.ofLock("GC")];
  expect(left()).toEqual([10_500, 10_500, 7_000]);
  await clock.advance(7_000);
  expect(left()).toEqual([10_500, 10_500, 0]);
});

test("a wait for a lock leaves a third of the plugins' time to them", async () => {
  const clock = new FakeClock();
  const timeLimit = createTimeLimit(120_000, clock, staying);
  expect([timeLimit.ofLock("ADD"), timeLimit.ofLock("DEL"), timeLimit.ofLock("CHECK")]).toEqual([
    60_000, 70_000, 70_000,
  ]);
  await clock.advance(60_000);
  expect([timeLimit.ofLock("ADD"), timeLimit.ofPlugin("ADD")]).toEqual([0, 30_000]);
  await clock.advance(40_000);
  expect([timeLimit.ofLock("ADD"), timeLimit.ofLock("DEL")]).toEqual([-40_000, -30_000]);
  expect(unlimited.ofLock("DEL")).toBe(Number.POSITIVE_INFINITY);
});
