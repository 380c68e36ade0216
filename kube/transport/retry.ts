import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import { type Clock, sleep } from "../../host/clock.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { Deadline } from "./deadline.ts";

/** How often one request is sent at most, the first attempt included. */
const MAX_ATTEMPTS = 5;
const INITIAL_DELAY_MS = 100;
const MAX_DELAY_MS = 5_000;

/** Transient server errors. */
const TRANSIENT_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504]);
/** The connection failed while the request was in flight. */
const CONNECTION_LOST_CODES: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "CLOSED", "TIMEOUT"]);
/** Errors that do not go away within seconds. */
const PERMANENT_CODES: ReadonlySet<KubeErrorCode> = new Set(["TLS", "CREDENTIALS", "CANCELLED"]);
/**
 * Methods that may be repeated without knowing whether the first request was processed: a repeated PUT may conflict
 * with itself.
 */
const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set(["GET", "DELETE"]);

export interface FailedRequest {
  readonly method: string;
  readonly error: KubeError;
  /** How often it has been sent. */
  readonly attempts: number;
}

/**
 * The delay before a failed request is sent again; undefined if it must not be retried.
 *
 * @internal
 */
export function retryDelayMs({ method, error, attempts }: FailedRequest, random: () => number): number | undefined {
  if (attempts >= MAX_ATTEMPTS || !isRetryable(method, error)) return undefined;
  const delayMs = backoffMs(backoffOptions(MAX_DELAY_MS, random), attempts);
  // Not before the server's Retry-After, plus jitter so that its clients do not all return at the same moment.
  if (error.retryAfterMs !== undefined) return error.retryAfterMs + delayMs * random();
  return delayMs;
}

/** From 100 ms up to `maxMs`, less a random part of up to one half. */
export function backoffOptions(maxMs: number, random: () => number): BackoffOptions {
  return { initialMs: INITIAL_DELAY_MS, maxMs, jitter: { from: 1, to: 0.5, random } };
}

function isRetryable(method: string, error: KubeError): boolean {
  if (PERMANENT_CODES.has(error.code)) return false;
  // 429: API priority and fairness rejected the request before processing it.
  if (error.isUnprocessed || error.status === 429) return true;
  if (!IDEMPOTENT_METHODS.has(method)) return false;
  return error.status === undefined ? CONNECTION_LOST_CODES.has(error.code) : TRANSIENT_STATUSES.has(error.status);
}

export interface RetryOptions {
  readonly method: string;
  /** False once a watch has delivered lines, which a second attempt would deliver again. */
  readonly mayRepeat: () => boolean;
  readonly deadline: Deadline;
  readonly clock: Clock;
  readonly random: () => number;
}

/**
 * Repeats an attempt while the error is retryable and time is left. Rejects with the last attempt's `KubeError`, or the
 * limit's reason.
 */
export async function withRetries<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { method, mayRepeat, deadline, clock, random } = options;
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      const delayMs = mayRepeat() ? retryDelayMs({ method, error, attempts }, random) : undefined;
      // A retry that would run into the deadline fails now, with the real error.
      if (deadline.signal.aborted || delayMs === undefined || delayMs >= deadline.remainingMs()) throw error;
      await sleep(clock, delayMs, deadline.signal);
    }
  }
}
