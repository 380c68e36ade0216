import type { Clock } from "../host/clock.ts";

/** So many requests a second, and so many at once after a rest. */
export interface Rate {
  readonly qps: number;
  readonly burst: number;
}

export interface Bucket {
  /**
   * Resolves when it is the caller's turn, in the order of the calls; rejects with the signal's reason. Whoever is `isUrgent` when a
   * turn comes goes before those who are not, save that every fourth turn is for who waits longest.
   */
  take(signal: AbortSignal, isUrgent?: () => boolean): Promise<void>;
}

interface Waiting {
  readonly isUrgent: () => boolean;
  readonly go: () => void;
}

/** So many turns, at most, go to the urgent before one goes to who waits longest. */
const URGENT_IN_A_ROW = 3;
const never = () => false;

/** Says who of those that wait is next: the urgent, and after three of them who waits longest. */
function createOrder(): (waiting: ReadonlySet<Waiting>) => Waiting | undefined {
  let urgentInARow = 0;
  return (waiting) => {
    const [longest] = waiting;
    const urgent = urgentInARow < URGENT_IN_A_ROW ? [...waiting].find(({ isUrgent }) => isUrgent()) : undefined;
    const next = urgent ?? longest;
    urgentInARow = next === longest ? 0 : urgentInARow + 1;
    return next;
  };
}

/** A token bucket. Without a rate nobody waits. */
export function createBucket(rate: Rate | undefined, clock: Clock): Bucket {
  if (rate === undefined) return { take: () => Promise.resolve() };
  const { qps, burst } = rate;
  let tokens = burst;
  let filledAt = clock.now();
  const waiting = new Set<Waiting>();
  /** A timer for each that waits, in the order of their times. Whose turn it is, is decided when one rings. */
  const timers = new Set<() => void>();
  const nextOf = createOrder();

  function fill(): void {
    const now = clock.now();
    // A clock that was set back fills nothing.
    tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) / 1000) * qps);
    filledAt = now;
  }

  function addTurn(): void {
    const cancel = clock.wakeAt(clock.now() + (-tokens / qps) * 1000, () => {
      timers.delete(cancel);
      nextOf(waiting)?.go();
    });
    timers.add(cancel);
  }

  /** Those behind who gave up move up. */
  function dropLastTurn(): void {
    tokens += 1;
    const last = [...timers].at(-1);
    last?.();
    if (last !== undefined) timers.delete(last);
  }

  return {
    async take(signal, isUrgent = never) {
      signal.throwIfAborted();
      fill();
      // Below zero is what is owed to those who wait already.
      tokens -= 1;
      if (tokens >= 0) return;
      addTurn();
      await new Promise<void>((resolve, reject) => {
        const giveUp = () => {
          waiting.delete(one);
          dropLastTurn();
          reject(signal.reason);
        };
        const go = () => {
          waiting.delete(one);
          signal.removeEventListener("abort", giveUp);
          resolve();
        };
        const one = { isUrgent, go };
        waiting.add(one);
        signal.addEventListener("abort", giveUp, { once: true });
      });
    },
  };
}

export interface Places {
  /**
   * Resolves with the function that gives the place back; rejects with the signal's reason. Whoever is `isUrgent` when a place is free goes
   * before those who are not, as at a `Bucket`.
   */
  enter(signal: AbortSignal, isUrgent?: () => boolean): Promise<() => void>;
}

/** So many at the same time; the others wait in the order of their coming, but for the urgent. */
export function createPlaces(count: number): Places {
  let free = count;
  const waiting = new Set<Waiting>();
  const nextOf = createOrder();

  function leaving(): () => void {
    let hasLeft = false;
    return () => {
      if (hasLeft) return;
      hasLeft = true;
      const next = nextOf(waiting);
      if (next === undefined) free += 1;
      else next.go();
    };
  }

  return {
    enter(signal, isUrgent = never) {
      return new Promise((resolve, reject) => {
        if (signal.aborted) return reject(signal.reason);
        if (free > 0) {
          free -= 1;
          return resolve(leaving());
        }
        const onAbort = () => {
          waiting.delete(one);
          reject(signal.reason);
        };
        const go = () => {
          waiting.delete(one);
          signal.removeEventListener("abort", onAbort);
          resolve(leaving());
        };
        const one = { isUrgent, go };
        waiting.add(one);
        signal.addEventListener("abort", onAbort, { once: true });
      });
    },
  };
}
