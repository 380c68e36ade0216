import { createSemaphore } from "../../../host/async/semaphore.ts";
import { createTokenBucket } from "../../../host/async/token-bucket.ts";
import type { Clock } from "../../../host/clock.ts";

/**
 * Limits image pulls: how many run at once (`maxParallelImagePulls`) and how many start per second (`registryPullQPS`).
 */
export interface PullQueue {
  /** Waits for a slot, then pulls. Rejects with `PullRateError` if the token bucket is empty. */
  run<T>(pull: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/**
 * The token bucket of `registryPullQPS` is empty. The message is the kubelet's.
 *
 * @internal
 */
export class PullRateError extends Error {
  override readonly name = "PullRateError";
  constructor() {
    super("pull QPS exceeded");
  }
}

export interface PullQueueOptions {
  readonly clock: Clock;
  /** Undefined is no limit. */
  readonly parallel: number | undefined;
  /** Pulls per second; 0 is no limit. */
  readonly qps: number;
  readonly burst: number;
}

/**
 * The kubelet's pull queue: strictly in order if `parallel` is 1, with a bucket of `burst` tokens that refills `qps`
 * times a second. A pull takes its token together with its slot, so serialised pulls do not count as a burst. A pull
 * keeps its slot until it ends: a large image may take an hour.
 */
export function createPullQueue({ clock, parallel, qps, burst }: PullQueueOptions): PullQueue {
  const semaphore = createSemaphore({ permits: parallel });
  const bucket = qps === 0 ? undefined : createTokenBucket({ qps, burst, clock });
  return {
    async run(pull, signal) {
      return await semaphore.run(async () => {
        if (bucket?.tryTake() === false) throw new PullRateError();
        return await pull();
      }, signal);
    },
  };
}
