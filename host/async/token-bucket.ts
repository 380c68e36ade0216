import type { Clock } from "../clock.ts";
import { createWaitQueue } from "./wait-queue.ts";

export interface TokenBucketOptions {
  /** Tokens per second. */
  readonly qps: number;
  /** Tokens in a full bucket. */
  readonly burst: number;
  readonly clock: Clock;
  /** After so many urgent callers in a row the one that has waited longest goes first; never if not given. */
  readonly maxUrgentInARow?: number;
}

export interface TokenBucket {
  /** Takes a token if there is one now and nothing waits for it. */
  tryTake(): boolean;
  /**
   * Resolves when the caller has a token; rejects with the signal's reason when that aborts first. Whether a caller `isUrgent` is asked when a
   * token is there.
   */
  take(signal: AbortSignal, isUrgent?: () => boolean): Promise<void>;
}

const never = () => false;

/** A bucket that starts full. A clock that is set back adds nothing. */
export function createTokenBucket({ qps, burst, clock, maxUrgentInARow }: TokenBucketOptions): TokenBucket {
  const queue = createWaitQueue(maxUrgentInARow);
  /** Below zero: the tokens that waiting callers are going to take. */
  let tokens = burst;
  let filledAt = clock.now();
  /** One timer for each waiting caller, in the order of their times. Which caller goes is decided when a timer fires. */
  const timers = new Set<() => void>();

  function fill(): void {
    const now = clock.now();
    tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) / 1000) * qps);
    filledAt = now;
  }

  function addTimer(): void {
    const cancel = clock.wakeAt(clock.now() + (-tokens / qps) * 1000, () => {
      timers.delete(cancel);
      queue.admitNext();
    });
    timers.add(cancel);
  }

  /** The callers behind one that gives up move up. */
  function dropLastTimer(): void {
    tokens += 1;
    const last = [...timers].at(-1);
    last?.();
    if (last !== undefined) timers.delete(last);
  }

  return {
    tryTake() {
      fill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    async take(signal, isUrgent = never) {
      signal.throwIfAborted();
      fill();
      tokens -= 1;
      if (tokens >= 0) return;
      addTimer();
      await queue.wait(signal, isUrgent, dropLastTimer);
    },
  };
}
