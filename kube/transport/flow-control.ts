import { createSemaphore } from "../../host/async/semaphore.ts";
import { createTokenBucket } from "../../host/async/token-bucket.ts";
import type { Clock } from "../../host/clock.ts";

/** The sustained rate and the burst of a token bucket. */
export interface RateLimit {
  readonly qps: number;
  readonly burst: number;
}

/**
 * Client-side priority levels. Each waits only for its own requests; those of `heartbeat` (the node's lease, its
 * registration and its status) never wait. `reviews` are what clients of the node's API cause the agent to ask: they
 * must not use up what its own work may ask.
 */
export type PriorityLevel = "heartbeat" | "main" | "events" | "reviews";

/**
 * Client-side flow control. The kubelet's `kubeAPIQPS` and `kubeAPIBurst`, `eventRecordQPS` and `eventBurst`;
 * undefined: no limit.
 */
export type RateLimits = Readonly<Record<Exclude<PriorityLevel, "heartbeat" | "reviews">, RateLimit | undefined>>;

export interface FlowControl {
  /**
   * Resolves when the request may be sent, with the function to call when it has ended. A long-running request
   * (`isLongRunning`: a watch) is rate limited but takes no concurrency slot. A request that `isUrgent` at the moment
   * of admission goes before the others of its level, except that every fourth admission goes to the request that has
   * waited longest. Rejects with the signal's reason.
   */
  admit(
    level: PriorityLevel,
    isLongRunning: boolean,
    signal: AbortSignal,
    isUrgent?: () => boolean,
  ): Promise<() => void>;
}

/**
 * The number of concurrent requests. Beyond the number of streams that a server allows (usually 100), node:http2 would
 * queue requests, lease renewals among them.
 */
const MAX_MAIN_REQUESTS = 64;
const MAX_EVENT_REQUESTS = 8;
/** Tokens take half of them, so that guessed ones do not hold up the access of users who are known. */
const MAX_REVIEWS = 16;
/** Answers are kept for minutes, so that only new users and guesses ask. */
const REVIEW_RATE: RateLimit = { qps: 20, burst: 40 };

/** After so many urgent requests in a row the one that has waited longest is next: urgent ones cannot starve it. */
const MAX_URGENT_IN_A_ROW = 3;

export function createFlowControl(rateLimits: RateLimits, clock: Clock): FlowControl {
  const limiters = {
    heartbeat: undefined,
    main: createLimiter(rateLimits.main, MAX_MAIN_REQUESTS, clock),
    events: createLimiter(rateLimits.events, MAX_EVENT_REQUESTS, clock),
    reviews: createLimiter(REVIEW_RATE, MAX_REVIEWS, clock),
  };
  const releaseNothing = () => {
    // It holds no slot.
  };
  return {
    async admit(level, isLongRunning, signal, isUrgent) {
      const limiter = limiters[level];
      if (limiter === undefined) return releaseNothing;
      await limiter.bucket?.take(signal, isUrgent);
      return isLongRunning ? releaseNothing : await limiter.slots.acquire(signal, isUrgent);
    },
  };
}

/** Without a rate no request waits for a token. */
function createLimiter(rate: RateLimit | undefined, permits: number, clock: Clock) {
  const maxUrgentInARow = MAX_URGENT_IN_A_ROW;
  return {
    bucket: rate && createTokenBucket({ ...rate, clock, maxUrgentInARow }),
    slots: createSemaphore({ permits, maxUrgentInARow }),
  };
}
