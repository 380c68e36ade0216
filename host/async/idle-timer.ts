import type { Clock } from "../clock.ts";

/** Calls back once when there was no activity for a while. While the agent is idle no timer runs. */
export interface IdleTimer {
  touch(): void;
  stop(): void;
}

export function createIdleTimer(clock: Clock, afterMs: number, onIdle: () => void): IdleTimer {
  let cancel: (() => void) | undefined;
  let touchedAt = 0;
  let isStopped = false;

  /** One timer per wait, not per activity: a burst of activity only updates a number. */
  function wait(delayMs: number): void {
    cancel = clock.wakeAt(clock.now() + delayMs, () => {
      cancel = undefined;
      const quietMs = clock.now() - touchedAt;
      // Negative after the clock was set back: the wait is over then, too.
      if (quietMs >= afterMs || quietMs < 0) onIdle();
      else wait(afterMs - quietMs);
    });
  }

  return {
    touch() {
      touchedAt = clock.now();
      if (cancel === undefined && !isStopped) wait(afterMs);
    },
    stop() {
      isStopped = true;
      cancel?.();
    },
  };
}
