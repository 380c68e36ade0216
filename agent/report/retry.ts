import { KubeError, type KubeErrorCode } from "../../kube/error.ts";

const FIRST_MS = 100;
const LONGEST_MS = 7_000;
/** The longest that a server may ask us to wait; a node whose heartbeats stop for longer is lost. */
const LONGEST_REQUESTED_MS = 20_000;

/** How long to wait after so many failures in a row: from a tenth of a second, doubling, up to seven, or as the server wants. */
export function retryAfterMs(failures: number, error: unknown): number {
  const requestedMs = error instanceof KubeError ? (error.retryAfterMs ?? 0) : 0;
  const delayMs = Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.min(failures - 1, 16));
  return Math.max(delayMs, Math.min(requestedMs, LONGEST_REQUESTED_MS));
}

/** Told by whoever follows the API server, once for all. */
const outages: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "TIMEOUT", "CLOSED", "CANCELLED"]);

export function isOutage(error: unknown): boolean {
  return error instanceof KubeError && outages.has(error.code);
}

/** The server answers, and serves nobody, or not us: whatever the request was, it may be taken later. */
export function isOfServer(error: unknown): boolean {
  return hasCode(error, "SERVER", "TOO_MANY_REQUESTS", "TLS", "UNAUTHORIZED", "CREDENTIALS", "NOT_JSON");
}

export function hasCode(error: unknown, ...codes: readonly KubeErrorCode[]): boolean {
  return error instanceof KubeError && codes.includes(error.code);
}
