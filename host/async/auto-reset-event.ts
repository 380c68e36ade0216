import type { Clock } from "../clock.ts";

/** Whoever waits can be woken. Rung while nobody waits, it wakes the next one at once; rung twice, it is rung. */
export interface Bell {
  ring(): void;
  /** Resolves when it is rung, or not before `at`, or when the signal aborts; it never rejects. Only one may wait at a time. */
  wait(at: number, signal: AbortSignal): Promise<void>;
}

export function createBell(clock: Clock): Bell {
  let isRung = false;
  let wake = () => {};
  return {
    ring() {
      isRung = true;
      wake();
    },
    wait(at, signal) {
      return new Promise((resolve) => {
        const cancel = Number.isFinite(at) ? clock.wakeAt(at, () => wake()) : () => {};
        wake = () => {
          wake = () => {};
          isRung = false;
          cancel();
          signal.removeEventListener("abort", onAbort);
          resolve();
        };
        const onAbort = () => wake();
        signal.addEventListener("abort", onAbort, { once: true });
        if (isRung || signal.aborted) wake();
      });
    },
  };
}
