import { onAbort } from "./abort.ts";

/** Callers that wait for a permit or a token. */
export interface WaitQueue {
  /** Resolves when `admitNext` picks this caller; rejects with the signal's reason, after `onLeave`, when that aborts first. */
  wait(signal: AbortSignal, isUrgent: () => boolean, onLeave?: () => void): Promise<void>;
  /** Admits the caller whose turn it is; false if none waits. */
  admitNext(): boolean;
}

interface Waiter {
  readonly isUrgent: () => boolean;
  readonly admit: () => void;
}

/**
 * First come, first served, but for callers that are urgent at the moment of admission: they go first. After `maxUrgentInARow` of them the
 * caller that has waited longest goes, so that urgent callers starve no other.
 */
export function createWaitQueue(maxUrgentInARow = Number.POSITIVE_INFINITY): WaitQueue {
  const waiters = new Set<Waiter>();
  let urgentInARow = 0;

  function firstUrgent(): Waiter | undefined {
    for (const waiter of waiters) if (waiter.isUrgent()) return waiter;
    return undefined;
  }

  function next(): Waiter | undefined {
    const [longest] = waiters;
    const urgent = urgentInARow < maxUrgentInARow ? firstUrgent() : undefined;
    const picked = urgent ?? longest;
    urgentInARow = picked === longest ? 0 : urgentInARow + 1;
    return picked;
  }

  return {
    wait(signal, isUrgent, onLeave) {
      return new Promise((resolve, reject) => {
        const waiter: Waiter = {
          isUrgent,
          admit() {
            waiters.delete(waiter);
            remove();
            resolve();
          },
        };
        waiters.add(waiter);
        const remove = onAbort(signal, () => {
          waiters.delete(waiter);
          onLeave?.();
          reject(signal.reason);
        });
      });
    },
    admitNext() {
      const waiter = next();
      waiter?.admit();
      return waiter !== undefined;
    },
  };
}
