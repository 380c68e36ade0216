import type { Clock } from "../../host/clock.ts";

interface Timer {
  readonly at: number;
  readonly wake: () => void;
}

/** A clock that only `advance` moves. It starts at a calendar date, so that expected logs read like real ones. */
export class FakeClock implements Clock {
  static readonly start = Date.parse("2026-01-01T00:00:00Z");
  /** The monotonic time since the start; `stepWallClock` moves only the wall clock. */
  elapsedMs = 0;
  #wallOffsetMs = FakeClock.start;
  readonly #timers = new Set<Timer>();

  now = (): number => this.elapsedMs + this.#wallOffsetMs;

  monotonicMs = (): number => this.elapsedMs;

  wakeAt = (at: number, wake: () => void): (() => void) => {
    // A time in the past is due now, and fires after the timers that were set earlier for now.
    const timer = { at: Math.max(this.elapsedMs, at - this.#wallOffsetMs), wake };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };

  /** The number of pending timers. */
  get pendingTimers(): number {
    return this.#timers.size;
  }

  /** The time until the next timer fires; undefined if there is none. */
  get nextTimerInMs(): number | undefined {
    const next = this.#next(Number.POSITIVE_INFINITY);
    return next && next.at - this.elapsedMs;
  }

  /** Advances the time, timer by timer; all promises that a timer resolves settle before the next timer fires. */
  async advance(ms: number): Promise<void> {
    const end = this.elapsedMs + ms;
    await settlePromises();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.elapsedMs = Math.max(this.elapsedMs, next.at);
      next.wake();
      await settlePromises();
    }
    this.elapsedMs = end;
  }

  /** Steps the wall clock forward or back, as NTP does; pending timers keep their remaining time. */
  stepWallClock(ms: number): void {
    this.#wallOffsetMs += ms;
  }

  #next(end: number): Timer | undefined {
    const due = [...this.#timers].filter(({ at }) => at <= end);
    return due.toSorted((a, b) => a.at - b.at)[0];
  }
}

/**
 * Waits until all promises in memory have settled: the event loop works off every microtask before the next immediate.
 */
export function settlePromises(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
