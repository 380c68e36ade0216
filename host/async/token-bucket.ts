import type { Clock } from "../clock.ts";

/** Lets so many work at once; the others wait for a place. */
export interface Limiter {
  /**
   * Waits for a place, then works; `goesFirst` passes all who did not say so. Settles as the work does. Rejects with the signal's
   * reason when that aborts before the work has begun.
   */
  run<T>(work: () => Promise<T>, signal: AbortSignal, goesFirst?: boolean): Promise<T>;
}

export interface LimiterSettings {
  readonly clock: Clock;
  /** Undefined is no limit. */
  readonly places: number | undefined;
  /** Work that takes longer gives its place to the next and goes on without one. Without this it keeps it. */
  readonly stuckAfterMs?: number;
}

/** Whoever waits is let in in the order of coming. No timer runs while no work does. */
export function createLimiter({ clock, places, stuckAfterMs }: LimiterSettings): Limiter {
  const first: (() => void)[] = [];
  const others: (() => void)[] = [];
  let free = places ?? Number.POSITIVE_INFINITY;

  async function enter(queue: (() => void)[], signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (free > 0) {
      free--;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const admit = () => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = () => {
        queue.splice(queue.indexOf(admit), 1);
        reject(signal.reason);
      };
      queue.push(admit);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  function handOver(): void {
    const admit = first.shift() ?? others.shift();
    if (admit === undefined) free++;
    else admit();
  }

  /** Holds a place until what it returns is called, or until it has been held too long. */
  function hold(): () => void {
    let isHeld = true;
    let cancel = () => {};
    const leave = () => {
      cancel();
      if (isHeld) handOver();
      isHeld = false;
    };
    if (stuckAfterMs !== undefined) cancel = clock.wakeAt(clock.now() + stuckAfterMs, leave);
    return leave;
  }

  return {
    async run(work, signal, goesFirst = false) {
      await enter(goesFirst ? first : others, signal);
      const leave = hold();
      try {
        return await work();
      } finally {
        leave();
      }
    },
  };
}
