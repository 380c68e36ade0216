import { onAbort } from "./async/abort.ts";

/** A time in milliseconds since the epoch. */
export type Instant = number;

export interface Clock {
  now(): Instant;
  /** Milliseconds since a fixed time; setting the wall clock does not change them. For durations. */
  monotonicMs(): number;
  /** Calls `wake` once, not before `at`. Returns a function that cancels it. */
  wakeAt(at: Instant, wake: () => void): () => void;
}

/** The longest delay of setTimeout; longer waits are split. */
const MAX_TIMER_MS = 2 ** 31 - 1;

export function createClock(): Clock {
  return {
    now: () => Date.now(),
    monotonicMs: () => performance.now(),
    wakeAt(at, wake) {
      let timer: ReturnType<typeof setTimeout>;
      // The wait is computed once: setting the wall clock does not change it.
      let leftMs = Math.max(0, at - Date.now());
      const setNextTimer = () => {
        const partMs = Math.min(leftMs, MAX_TIMER_MS);
        leftMs -= partMs;
        timer = setTimeout(leftMs > 0 ? setNextTimer : wake, partMs);
      };
      setNextTimer();
      return () => clearTimeout(timer);
    },
  };
}

/** Resolves after `ms` by the given clock; rejects with the signal's reason if that aborts first. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    let remove = () => {};
    const cancel = clock.wakeAt(clock.now() + ms, () => {
      remove();
      resolve();
    });
    remove = onAbort(signal, () => {
      cancel();
      reject(signal?.reason);
    });
  });
}

/** As `sleep`, but resolves when the signal aborts. */
export async function sleepUnlessAborted(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  await sleep(clock, ms, signal).catch(() => {
    // It rejects only when the signal has aborted.
  });
}
