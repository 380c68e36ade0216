import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import { messageOf } from "../../host/error-message.ts";
import { isLoggedElsewhere, KubeError } from "../../kube/error.ts";

const RETRY_BACKOFF: BackoffOptions = { initialMs: 100, maxMs: 7_000 };
/** The longest accepted Retry-After: without heartbeats for longer, the node controller marks the node unreachable. */
const MAX_RETRY_AFTER_MS = 20_000;

/**
 * The delay after this many failures in a row: 0.1 s, doubling up to 7 s, or the server's Retry-After if that is
 * longer.
 */
export function retryAfterMs(failures: number, error: unknown): number {
  const requestedMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  return Math.max(backoffMs(RETRY_BACKOFF, failures), Math.min(requestedMs, MAX_RETRY_AFTER_MS));
}

/** What `reasonOf` of a failure log needs for calls to the API server: its connection logs its own failures. */
export function loggedReasonOf(error: unknown): string | undefined {
  return isLoggedElsewhere(error) ? undefined : messageOf(error);
}
