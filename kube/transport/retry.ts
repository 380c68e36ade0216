import { type Clock, sleep } from "../../host/clock.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import type { Limit } from "./deadline.ts";

/** How often one request is sent at most. */
const MOST_ATTEMPTS = 5;
const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 5_000;

/** A server that answers so may be well in a moment. */
const PASSING_STATUSES: ReadonlySet<number> = new Set([500, 502, 503, 504]);
/** The way to the server broke while the request was on it. */
const LOST_ON_THE_WAY: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "CLOSED", "TIMEOUT"]);
/** Nothing that changes within moments. */
const HEALED_BY_OTHERS: ReadonlySet<KubeErrorCode> = new Set(["TLS", "CREDENTIALS", "CANCELLED"]);
/** What the answer to a second one would not make false: a PUT that was carried out would be answered by a conflict with itself. */
const REPEATABLE: ReadonlySet<string> = new Set(["GET", "DELETE"]);

export interface Failed {
  readonly method: string;
  readonly error: KubeError;
  /** How often it was sent by now. */
  readonly attempts: number;
}

/** How long to wait before a request that has failed is sent again; undefined: it has failed for good. */
export function retryDelayMs({ method, error, attempts }: Failed, random: () => number): number | undefined {
  if (attempts >= MOST_ATTEMPTS || !mayBeRepeated(method, error)) return undefined;
  const delayMs = backOffMs(attempts, LONGEST_DELAY_MS, random);
  // Never earlier than the server wants, and not all of its clients at the same moment.
  if (error.retryAfterMs !== undefined) return error.retryAfterMs + delayMs * random();
  return delayMs;
}

/** Doubles from a tenth of a second, with up to half of it taken off. `failures` counts from 1. */
export function backOffMs(failures: number, longestMs: number, random: () => number): number {
  return Math.min(longestMs, FIRST_DELAY_MS * 2 ** Math.min(failures - 1, 30)) * (1 - random() / 2);
}

function mayBeRepeated(method: string, error: KubeError): boolean {
  if (HEALED_BY_OTHERS.has(error.code)) return false;
  // Too many requests: this one was turned away at the door.
  if (error.isUnprocessed || error.status === 429) return true;
  if (!REPEATABLE.has(method)) return false;
  return error.status === undefined ? LOST_ON_THE_WAY.has(error.code) : PASSING_STATUSES.has(error.status);
}

export interface SendingAgain {
  readonly method: string;
  /** False from when on a second attempt would tell things twice. */
  readonly mayRepeat: () => boolean;
  readonly limit: Limit;
  readonly clock: Clock;
  readonly random: () => number;
}

/** Repeats an attempt while that may help and its time allows it. Rejects with the `KubeError` of the last one, or the limit's reason. */
export async function sendAgain<T>(attempt: () => Promise<T>, options: SendingAgain): Promise<T> {
  const { method, mayRepeat, limit, clock, random } = options;
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      const delayMs = mayRepeat() ? retryDelayMs({ method, error, attempts }, random) : undefined;
      // What could only end at the deadline is better told at once, with its reason.
      if (limit.signal.aborted || delayMs === undefined || delayMs >= limit.leftMs()) throw error;
      await sleep(clock, delayMs, limit.signal);
    }
  }
}
