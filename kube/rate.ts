import { type Clock, sleep } from "../host/clock.ts";

/** So many requests a second, and so many at once after a rest. */
export interface Rate {
  readonly qps: number;
  readonly burst: number;
}

export interface Bucket {
  /** Resolves when it is the caller's turn, in the order of the calls; rejects with the signal's reason. */
  take(signal: AbortSignal): Promise<void>;
}

/** A token bucket. Without a rate nobody waits. */
export function createBucket(rate: Rate | undefined, clock: Clock): Bucket {
  if (rate === undefined) return { take: () => Promise.resolve() };
  const { qps, burst } = rate;
  let tokens = burst;
  let filledAt = clock.now();

  function fill(): void {
    const now = clock.now();
    // A clock that was set back fills nothing.
    tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) / 1000) * qps);
    filledAt = now;
  }

  return {
    async take(signal) {
      signal.throwIfAborted();
      fill();
      // Below zero is what is owed to those who wait already.
      tokens -= 1;
      if (tokens >= 0) return;
      try {
        await sleep(clock, (-tokens / qps) * 1000, signal);
      } catch (error) {
        tokens += 1;
        throw error;
      }
    },
  };
}

export interface Places {
  /** Resolves with the function that gives the place back; rejects with the signal's reason. */
  enter(signal: AbortSignal): Promise<() => void>;
}

/** So many at the same time; the others wait in the order of their coming. */
export function createPlaces(count: number): Places {
  let free = count;
  const waiting = new Set<() => void>();

  function leaving(): () => void {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      const [next] = waiting;
      if (next === undefined) free += 1;
      else next();
    };
  }

  return {
    enter(signal) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        if (free > 0) {
          free -= 1;
          return resolve(leaving());
        }
        const onAbort = () => {
          waiting.delete(enter);
          reject(signal.reason);
        };
        const enter = () => {
          waiting.delete(enter);
          signal.removeEventListener("abort", onAbort);
          resolve(leaving());
        };
        waiting.add(enter);
        signal.addEventListener("abort", onAbort, { once: true });
      });
    },
  };
}
