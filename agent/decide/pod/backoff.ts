/** Delays that double: the first one, and the longest. */
export interface Backoff {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** How long to wait after so many failures in a row, in milliseconds; after none not at all. */
export function delayOf({ firstMs, longestMs }: Backoff, failures: number): number {
  return failures === 0 ? 0 : Math.min(firstMs * 2 ** (failures - 1), longestMs);
}

/**
 * When a delay that began at `since` is over, in epoch milliseconds. What began in the future means that the clock was set back, and
 * cannot be waited for: then it is over now.
 */
export function dueAfter(since: number, delayMs: number, now: number): number {
  return since > now ? now : since + delayMs;
}
