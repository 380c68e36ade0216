import type { Clock } from "../../host/clock.ts";

/** Tells once, some time after the last stir, that all is at rest. While nothing stirs nothing runs. */
export interface Rest {
  stir(): void;
  end(): void;
}

export function createRest(clock: Clock, afterMs: number, atRest: () => void): Rest {
  let cancel: (() => void) | undefined;
  let stirredAt = 0;
  let isEnded = false;

  /** One timer a wait, not one a stir: a burst moves a number. */
  function wait(delayMs: number): void {
    cancel = clock.wakeAt(clock.now() + delayMs, () => {
      cancel = undefined;
      const quietMs = clock.now() - stirredAt;
      // A clock that was set back makes the wait longer than any wait can be: it is over then too.
      if (quietMs >= afterMs || quietMs < 0) atRest();
      else wait(afterMs - quietMs);
    });
  }

  return {
    stir() {
      stirredAt = clock.now();
      if (cancel === undefined && !isEnded) wait(afterMs);
    },
    end() {
      isEnded = true;
      cancel?.();
    },
  };
}
