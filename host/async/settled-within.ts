import type { Clock } from "../clock.ts";

/** Resolves when the promise has settled, or after `ms`; true if it has settled. Never rejects. */
export function settledWithin(promise: Promise<unknown>, ms: number, clock: Clock): Promise<boolean> {
  return new Promise((resolve) => {
    const cancel = clock.wakeAt(clock.now() + ms, () => resolve(false));
    const onSettled = () => {
      cancel();
      resolve(true);
    };
    promise.then(onSettled, onSettled);
  });
}
