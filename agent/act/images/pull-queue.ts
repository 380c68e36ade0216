import { createLimiter } from "../../../host/async/token-bucket.ts";
import type { Clock } from "../../../host/clock.ts";

/** Rations image pulls: how many at once, and how many a second. */
export interface PullQueue {
  /** Waits for its place, then pulls. Rejects with `PullRateError` when too many pulls have got theirs in a short time. */
  run<T>(pull: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** The token bucket of `registryPullQPS` is empty. The words are the kubelet's. */
export class PullRateError extends Error {
  override readonly name = "PullRateError";
  constructor() {
    super("pull QPS exceeded");
  }
}

export interface PullQueueSettings {
  readonly clock: Clock;
  /** Undefined is no limit. */
  readonly parallel: number | undefined;
  /** Pulls per second; 0 is no limit. */
  readonly qps: number;
  readonly burst: number;
}

/**
 * The kubelet's queue: strictly in order when `parallel` is 1, a bucket of `burst` tokens filled `qps` times a second. A token is taken
 * with the place, so that pulls which wait for each other are no burst. A pull keeps its place as long as it takes: a large image may
 * take an hour.
 */
export function createPullQueue({ clock, parallel, qps, burst }: PullQueueSettings): PullQueue {
  const limiter = createLimiter({ clock, places: parallel });
  let tokens = burst;
  let filledAt = clock.now();

  function takeToken(): boolean {
    if (qps === 0) return true;
    const now = clock.now();
    tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) / 1000) * qps);
    filledAt = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  }

  return {
    async run(pull, signal) {
      return await limiter.run(async () => {
        if (!takeToken()) throw new PullRateError();
        return await pull();
      }, signal);
    },
  };
}
