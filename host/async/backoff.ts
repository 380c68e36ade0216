/** Delays that double from `initialMs` up to `maxMs`. */
export interface BackoffOptions {
  readonly initialMs: number;
  readonly maxMs: number;
  /** Many nodes that lost their API server at the same moment must not return at the same moment. None if not given. */
  readonly jitter?: Jitter;
}

/** A random factor of each delay: `from` where `random` returns 0, `to` where it returns 1. */
export interface Jitter {
  readonly from: number;
  readonly to: number;
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** The delay before the next attempt after so many failures in a row, in milliseconds; 0 after none. */
export function backoffMs({ initialMs, maxMs, jitter }: BackoffOptions, failures: number): number {
  if (failures <= 0) return 0;
  // The limit of the exponent keeps the delay finite.
  const delayMs = Math.min(maxMs, initialMs * 2 ** Math.min(failures - 1, 30));
  return jitter === undefined ? delayMs : delayMs * (jitter.from + (jitter.to - jitter.from) * jitter.random());
}

/** Counts failures in a row. Owns no timer. */
export interface BackoffCounter {
  /** Counts one more failure, and returns the delay before the next attempt in milliseconds. */
  next(): number;
  reset(): void;
}

export function createBackoffCounter(options: BackoffOptions): BackoffCounter {
  let failures = 0;
  return {
    next: () => backoffMs(options, ++failures),
    reset() {
      failures = 0;
    },
  };
}
