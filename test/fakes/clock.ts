import type { Clock } from "../../host/clock.ts";

interface Timer {
  readonly at: number;
  readonly wake: () => void;
}

/** Time that passes only when a test says so. It begins at a date, so that stories read like real ones. */
export class FakeClock implements Clock {
  static readonly start = Date.parse("2026-01-01T00:00:00Z");
  /** What really has passed; the wall clock may be elsewhere. */
  elapsedMs = 0;
  #wallAhead = FakeClock.start;
  readonly #timers = new Set<Timer>();

  now = (): number => this.elapsedMs + this.#wallAhead;

  wakeAt = (at: number, wake: () => void): (() => void) => {
    // What is late already is due now, and no earlier than what was asked for before it.
    const timer = { at: Math.max(this.elapsedMs, at - this.#wallAhead), wake };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  };

  /** How many timers run. */
  get timers(): number {
    return this.#timers.size;
  }

  /** Lets time pass, timer by timer; what a timer sets off comes to rest before the next one. */
  async advance(ms: number): Promise<void> {
    const end = this.elapsedMs + ms;
    await rest();
    for (let next = this.#next(end); next !== undefined; next = this.#next(end)) {
      this.#timers.delete(next);
      this.elapsedMs = Math.max(this.elapsedMs, next.at);
      next.wake();
      await rest();
    }
    this.elapsedMs = end;
  }

  /** The wall clock is set, forth or back, as by NTP; timers go on as if nothing had been. */
  jump(ms: number): void {
    this.#wallAhead += ms;
  }

  #next(end: number): Timer | undefined {
    const due = [...this.#timers].filter(({ at }) => at <= end);
    return due.toSorted((a, b) => a.at - b.at)[0];
  }
}

/** Everything in memory comes to rest within one turn of the event loop: promises alone are worked off before it ends. */
export function rest(): Promise<void> {
  return new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
}
