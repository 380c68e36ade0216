import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import { messageOf } from "../../host/error-message.ts";
import { hasCode, isLoggedElsewhere, KubeError } from "../../kube/error.ts";

const RETRY_BACKOFF: BackoffOptions = { initialMs: 100, maxMs: 7_000 };
/** The API server itself rejects the request. It may accept it later, but not soon. */
const REJECTED_BACKOFF: BackoffOptions = { initialMs: 1_000, maxMs: 300_000 };
/** The longest accepted Retry-After: without heartbeats for longer, the node controller marks the node unreachable. */
const MAX_RETRY_AFTER_MS = 20_000;

/**
 * The delay after this many failures in a row: 0.1 s, doubling up to 7 s, or the server's Retry-After if that is
 * longer. After a rejection it is 1 s, doubling up to five minutes.
 */
export function retryAfterMs(failures: number, error: unknown): number {
  const requestedMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  const backoff = hasCode(error, "INVALID", "TOO_LARGE") ? REJECTED_BACKOFF : RETRY_BACKOFF;
  return Math.max(backoffMs(backoff, failures), Math.min(requestedMs, MAX_RETRY_AFTER_MS));
}

/** What `reasonOf` of a failure log needs for calls to the API server: its connection logs its own failures. */
export function loggedReasonOf(error: unknown): string | undefined {
  return isLoggedElsewhere(error) ? undefined : messageOf(error);
}
