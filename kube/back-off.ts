/** How long to wait before the next attempt; arithmetic alone, so that whoever waits owns the clock. */
export interface BackOff {
  /** Counts one more failure in a row. */
  next(): number;
  reset(): void;
}

const FIRST_MS = 1_600;

/**
 * From half of `firstMs` up to `longestMs`, doubled with each failure; from 0.8 s if not given. Half of each wait is chance, in the longest
 * one too: many nodes that have lost their API server at one moment must not come back at one moment.
 */
export function createBackOff(longestMs: number, random: () => number, firstMs = FIRST_MS): BackOff {
  let failures = 0;
  return {
    next() {
      const mostMs = Math.min(longestMs, firstMs * 2 ** Math.min(failures, 30));
      failures += 1;
      return mostMs * (0.5 + random() / 2);
    },
    reset() {
      failures = 0;
    },
  };
}
