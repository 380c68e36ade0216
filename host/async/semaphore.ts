import type { Clock } from "../clock.ts";
import { createWaitQueue } from "./wait-queue.ts";

export interface SemaphoreOptions {
  /** How many may hold a permit at once; undefined is no limit. */
  readonly permits: number | undefined;
  /** After so many urgent callers in a row the one that has waited longest goes first; never if not given. */
  readonly maxUrgentInARow?: number;
  /**
   * A holder that keeps its permit for longer than `ms` loses it to the next caller; its work continues. Never if not given.
   * The semaphore calls a function for `ms` whenever it gives a permit.
   */
  readonly stuckAfter?: { readonly clock: Clock; readonly ms: number | (() => number) };
}

export interface Semaphore {
  /**
   * Resolves with the function that releases the permit (a second call does nothing). Rejects with the signal's reason when that aborts first.
   * Whether a caller `isUrgent` is asked when a permit becomes free.
   */
  acquire(signal: AbortSignal, isUrgent?: () => boolean): Promise<() => void>;
  /** Acquires a permit, runs `work`, releases the permit. Settles as `work` does, or rejects as `acquire` does. */
  run<T>(work: () => Promise<T>, signal: AbortSignal, isUrgent?: () => boolean): Promise<T>;
}

const never = () => false;

/** No timer runs while no permit is held. */
export function createSemaphore({ permits, maxUrgentInARow, stuckAfter }: SemaphoreOptions): Semaphore {
  const queue = createWaitQueue(maxUrgentInARow);
  let free = permits ?? Number.POSITIVE_INFINITY;

  function hold(): () => void {
    let isHeld = true;
    let cancel = () => {};
    const release = () => {
      cancel();
      if (isHeld && !queue.admitNext()) free += 1;
      isHeld = false;
    };
    if (stuckAfter !== undefined) {
      const { clock, ms } = stuckAfter;
      cancel = clock.wakeAt(clock.now() + (typeof ms === "number" ? ms : ms()), release);
    }
    return release;
  }

  async function acquire(signal: AbortSignal, isUrgent = never): Promise<() => void> {
    signal.throwIfAborted();
    if (free > 0) free -= 1;
    else await queue.wait(signal, isUrgent);
    return hold();
  }

  return {
    acquire,
    async run(work, signal, isUrgent) {
      const release = await acquire(signal, isUrgent);
      try {
        return await work();
      } finally {
        release();
      }
    },
  };
}
