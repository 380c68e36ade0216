import { type BackoffOptions, backoffMs } from "../../host/async/backoff.ts";
import { isLoggedBySessionPool, KubeError, type KubeErrorCode } from "../../kube/error.ts";

const RETRY_BACKOFF: BackoffOptions = { firstMs: 100, maxMs: 7_000 };
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

/** Whether the API server could not be reached or did not respond, so a retry of the same request may succeed. */
export function isOutage(error: unknown): boolean {
  return isLoggedElsewhere(error) || hasCode(error, "TIMEOUT");
}

/** Whether the connection logs this error itself, or the error is a deliberate abort. */
function isLoggedElsewhere(error: unknown): boolean {
  return isLoggedBySessionPool(error) || hasCode(error, "CLOSED", "CANCELLED");
}

/** The server responds but serves no one, or not us: any request may succeed later. */
export function isServerUnavailable(error: unknown): boolean {
  return hasCode(error, "SERVER", "TOO_MANY_REQUESTS", "TLS", "UNAUTHORIZED", "CREDENTIALS", "NOT_JSON");
}

/** True for a `KubeError` with one of the codes. */
export function hasCode(error: unknown, ...codes: readonly KubeErrorCode[]): boolean {
  return error instanceof KubeError && codes.includes(error.code);
}

/** What `reasonOf` of a failure log needs for calls to the API server: its connection logs its own failures. */
export function loggedReasonOf(error: unknown): string | undefined {
  if (isLoggedElsewhere(error)) return undefined;
  return error instanceof Error ? error.message : String(error);
}
