/** Milliseconds since the epoch; the only kind of "now" that leaves this folder. */
export type Instant = number;

export interface Clock {
  now(): Instant;
  /** Calls `wake` once, not before `at`; the function it returns takes that back. */
  wakeAt(at: Instant, wake: () => void): () => void;
}

/** The longest delay that setTimeout can carry; longer waits are cut into such pieces. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export function createClock(): Clock {
  return {
    now: () => Date.now(),
    wakeAt(at, wake) {
      let timer: ReturnType<typeof setTimeout>;
      // A wait is as long as it was meant to be when it began, whatever the wall clock does meanwhile.
      let leftMs = Math.max(0, at - Date.now());
      const arm = () => {
        const pieceMs = Math.min(leftMs, LONGEST_TIMER_MS);
        leftMs -= pieceMs;
        timer = setTimeout(leftMs > 0 ? arm : wake, pieceMs);
      };
      arm();
      return () => clearTimeout(timer);
    },
  };
}

/** Resolves after a time by the given clock, or rejects with the signal's reason when it aborts first. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.wakeAt(clock.now() + ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
