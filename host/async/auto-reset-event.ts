import type { Clock } from "../clock.ts";
import { onAbort } from "./abort.ts";

/** Wakes one waiter. Set while nothing waits, it ends the next wait at once; set twice, it counts once. */
export interface AutoResetEvent {
  set(): void;
  /**
   * Resolves when the event is set, at `at` (epoch milliseconds, may be infinite), or when the signal aborts; true if it was set. Never
   * rejects. One waiter at a time.
   */
  wait(at: number, signal: AbortSignal): Promise<boolean>;
}

export function createAutoResetEvent(clock: Pick<Clock, "wakeAt">): AutoResetEvent {
  let isSet = false;
  let wake = () => {};
  return {
    set() {
      isSet = true;
      wake();
    },
    wait(at, signal) {
      return new Promise((resolve) => {
        const cancel = Number.isFinite(at) ? clock.wakeAt(at, () => wake()) : () => {};
        let remove = () => {};
        wake = () => {
          wake = () => {};
          const wasSet = isSet;
          isSet = false;
          cancel();
          remove();
          resolve(wasSet);
        };
        remove = onAbort(signal, () => wake());
        if (isSet) wake();
      });
    },
  };
}
