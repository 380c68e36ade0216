import type { FailureRecord } from "./memory.ts";

/** An exponential back-off: the first delay and the longest. */
export interface Backoff {
  readonly initialMs: number;
  readonly maxMs: number;
}

/** The delay after `failures` failures in a row, in milliseconds; 0 after none. */
export function backoffDelayMs({ initialMs, maxMs }: Backoff, failures: number): number {
  return failures === 0 ? 0 : Math.min(initialMs * 2 ** (failures - 1), maxMs);
}

/**
 * When a delay that started at `since` ends, in epoch milliseconds. A start in the future means that the clock was set
 * back; then the delay ends now.
 */
export function dueAfter(since: number, delayMs: number, now: number): number {
  return since > now ? now : since + delayMs;
}

type FailedAt = Pick<FailureRecord, "at" | "count">;

const RETRY_BACKOFF: Backoff = { initialMs: 1_000, maxMs: 15_000 };
const VOLUME_BACKOFF: Backoff = { initialMs: 500, maxMs: 122_000 };
const PULL_BACKOFF: Backoff = { initialMs: 10_000, maxMs: 300_000 };
/**
 * The start of the sandbox makes the kubelet sync the pod again about a second after the first failed pull, and that sync
 * reports the back-off.
 */
const FIRST_ERROR_SHOWN_MS = 1_000;

/**
 * When a failed action may be retried. The kubelet retries any failure after 10 to 15 s. One second is enough for what
 * recovers by itself, and doubling reaches the same 15 s.
 *
 * @internal
 */
export function retryAt(failure: FailedAt, now: number): number {
  return dueAfter(failure.at, backoffDelayMs(RETRY_BACKOFF, failure.count), now);
}

/**
 * When a failed update of a volume or write of the pod's cgroup may be retried: like the kubelet's volume operations, at
 * most once in two minutes.
 */
function volumeRetryAt(failure: FailedAt, now: number): number {
  return dueAfter(failure.at, backoffDelayMs(VOLUME_BACKOFF, failure.count), now);
}

/**
 * When a failed pull may be retried: after 10 s, doubling, at most 5 min, as with the kubelet.
 *
 * @internal
 */
export function pullRetryAt(failure: FailedAt, now: number): number {
  return dueAfter(failure.at, backoffDelayMs(PULL_BACKOFF, failure.count), now);
}

/** When a failed action of this kind of back-off may be retried. */
export function retryTimeOf(backoff: "pull" | "volume" | undefined, failure: FailedAt, now: number): number {
  if (backoff === "pull") return pullRetryAt(failure, now);
  return backoff === "volume" ? volumeRetryAt(failure, now) : retryAt(failure, now);
}

/**
 * Until when a failed pull is shown as the error: the first one for a second, later ones for half of the delay. For the
 * rest of the delay it is shown as a back-off.
 */
export function pullErrorShownUntil(failure: FailedAt, now: number): number {
  const delayMs = pullRetryAt(failure, now) - failure.at;
  return failure.at + (failure.count === 1 ? Math.min(FIRST_ERROR_SHOWN_MS, delayMs) : delayMs / 2);
}
