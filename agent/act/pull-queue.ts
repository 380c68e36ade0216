import type { Clock } from "../../host/clock.ts";

/** Rations image pulls: how many at once, and how many a second. */
export interface PullQueue {
  /** Waits for its place, then pulls. Rejects with `PullRateError` when too many pulls were asked for in a short time. */
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

/** The kubelet's queue: strictly in order when `parallel` is 1, a bucket of `burst` tokens filled `qps` times a second. */
export function createPullQueue({
  clock,
  parallel = Number.POSITIVE_INFINITY,
  qps,
  burst,
}: PullQueueSettings): PullQueue {
  const waiting: (() => void)[] = [];
  let running = 0;
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

  async function place(signal: AbortSignal): Promise<void> {
    if (running < parallel) {
      running++;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const enter = () => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = () => {
        waiting.splice(waiting.indexOf(enter), 1);
        reject(signal.reason);
      };
      waiting.push(enter);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  return {
    async run(pull, signal) {
      if (!takeToken()) throw new PullRateError();
      await place(signal);
      try {
        return await pull();
      } finally {
        const next = waiting.shift();
        if (next === undefined) running--;
        else next();
      }
    },
  };
}
