import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { FakeClock } from "../test/fakes/clock.ts";
import { type Clock, createClock, sleep } from "./clock.ts";

const DAY_MS = 86_400_000;

describe("the machine's clock", () => {
  let clock: Clock;
  let woken: number;
  const wake = () => {
    woken++;
  };
  beforeEach(() => {
    jest.useFakeTimers({ now: Date.parse("2026-01-01T00:00:00Z") });
    clock = createClock();
    woken = 0;
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  test("it is the time of day in milliseconds", () => {
    expect(clock.now()).toBe(Date.parse("2026-01-01T00:00:00Z"));
  });

  test("it wakes once, not before its time", () => {
    clock.wakeAt(clock.now() + 100, wake);
    jest.advanceTimersByTime(99);
    expect(woken).toBe(0);
    jest.advanceTimersByTime(1);
    expect(woken).toBe(1);
    jest.advanceTimersByTime(10_000);
    expect(woken).toBe(1);
  });

  test("a wake-up in the past comes at once, but not before the call returns", () => {
    clock.wakeAt(clock.now() - 5000, wake);
    expect(woken).toBe(0);
    jest.advanceTimersByTime(1);
    expect(woken).toBe(1);
  });

  test("a cancelled wake-up does not come", () => {
    const cancel = clock.wakeAt(clock.now() + 100, wake);
    cancel();
    jest.advanceTimersByTime(1000);
    expect(woken).toBe(0);
  });

  test("a wait of forty days, longer than a timer can be, has its full length", () => {
    clock.wakeAt(clock.now() + 40 * DAY_MS, wake);
    jest.advanceTimersByTime(40 * DAY_MS - 1);
    expect(woken).toBe(0);
    jest.advanceTimersByTime(1);
    expect(woken).toBe(1);
  });

  test("a long wait can be cancelled in its later parts, too", () => {
    const cancel = clock.wakeAt(clock.now() + 40 * DAY_MS, wake);
    jest.advanceTimersByTime(30 * DAY_MS);
    cancel();
    jest.advanceTimersByTime(40 * DAY_MS);
    expect(woken).toBe(0);
  });

  test("setting the clock does not change the length of a wait", () => {
    clock.wakeAt(clock.now() + 100, wake);
    jest.setSystemTime(clock.now() + DAY_MS);
    jest.advanceTimersByTime(99);
    expect(woken).toBe(0);
    jest.advanceTimersByTime(1);
    expect(woken).toBe(1);
  });
});

test("a sleep has the requested length", async () => {
  const clock = new FakeClock();
  let isOver = false;
  void sleep(clock, 100).then(() => {
    isOver = true;
  });
  await clock.advance(99);
  expect(isOver).toBe(false);
  await clock.advance(1);
  expect(isOver).toBe(true);
});

test("an aborted sleep ends at once with the signal's reason, and leaves no timer", async () => {
  const ending = new AbortController();
  const timers = new Set<() => void>();
  const clock: Clock = {
    now: () => 0,
    monotonicMs: () => 0,
    wakeAt(_, wake) {
      timers.add(wake);
      return () => void timers.delete(wake);
    },
  };
  const slept = sleep(clock, 100, ending.signal);
  expect(timers.size).toBe(1);
  ending.abort(new Error("enough"));
  await expect(slept).rejects.toThrow("enough");
  expect(timers.size).toBe(0);
});

test("a sleep whose signal has aborted already does not start", async () => {
  await expect(sleep(new FakeClock(), 100, AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
});
