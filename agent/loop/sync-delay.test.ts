import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { longestSyncDelayMs, type SyncTimer, type SyncTimes, setSyncTimer } from "./sync-delay.ts";

const idle: SyncTimes = { syncDueMs: undefined, syncStartedMs: undefined };
const cases: readonly [sentence: string, pods: readonly SyncTimes[], delayMs: number][] = [
  ["no pod", [], 0],
  ["nothing is due and nothing runs", [idle], 0],
  ["a sync that is due later", [{ ...idle, syncDueMs: 1_500 }], 0],
  ["an overdue sync", [{ ...idle, syncDueMs: 400 }], 600],
  ["a sync under way", [{ ...idle, syncStartedMs: 100 }], 900],
  ["the longest one counts", [idle, { syncDueMs: 700, syncStartedMs: 300 }, { ...idle, syncDueMs: 600 }], 700],
];
test.each(cases)("%s", (_sentence, pods, delayMs) => {
  expect(longestSyncDelayMs(pods, 1_000)).toBe(delayMs);
});

test("a timer that the event loop does not end in time is overdue, and a new one replaces it", async () => {
  const clock = new FakeClock();
  const timer: SyncTimer = { cancelTimer: undefined, syncDueMs: undefined, syncStartedMs: undefined };
  let wakes = 0;
  const wake = () => {
    wakes++;
  };
  const delayAfter = (ms: number) => longestSyncDelayMs([timer], clock.monotonicMs() + ms);
  setSyncTimer(clock, timer, clock.now() + 1_000, wake);
  expect([delayAfter(1_000), delayAfter(1_500)]).toEqual([0, 500]);
  setSyncTimer(clock, timer, clock.now() + 2_000, wake);
  expect(delayAfter(1_500)).toBe(0);
  await clock.advance(2_000);
  expect([wakes, delayAfter(1_500)]).toEqual([1, 0]);
  setSyncTimer(clock, timer, clock.now() + 2_000, wake);
  setSyncTimer(clock, timer, undefined, wake);
  await clock.advance(5_000);
  expect([wakes, delayAfter(1_500)]).toEqual([1, 0]);
});
