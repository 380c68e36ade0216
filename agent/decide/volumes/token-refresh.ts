import { type Backoff, backoffDelayMs } from "../pod/backoff.ts";

/*
 * When a service account token is requested again. The rules are those of the kubelet's token manager; the kubelet
 * applies them whenever it syncs a pod, and Berth computes the time in advance.
 */

/** A token as the API server has issued it. Times are in epoch milliseconds; the values may be anything. */
export interface TokenValidity {
  /** When this node sent the request. */
  readonly requestedAt: number;
  /** `status.expirationTimestamp`, by the API server's clock; undefined if it cannot be read. */
  readonly expirationTimestamp: number | undefined;
  /** `spec.expirationSeconds` of the response; of the request if the response has none. */
  readonly expirationSeconds: number;
}

/** The API server's shortest and longest `expirationSeconds`. */
const MIN_LIFETIME_MS = 600_000;
const MAX_LIFETIME_MS = 2 ** 32 * 1_000;
const REFRESH_WITH_LEFT = 0.2;
const MAX_AGE_MS = 24 * 3_600_000;
const MAX_JITTER_MS = 10_000;
/** No clock makes a node ask more often than this share of the lifetime. */
const MIN_AGE = 0.1;

/** The kubelet's back-off of a volume that cannot be mounted, which asks for the token at each try. */
const WITHOUT_TOKEN: Backoff = { initialMs: 500, maxMs: 122_000 };
/**
 * The first request for a pod can arrive before the caches of the API server's node checks have the pod: measured for one
 * of 60 pods, and for one of 14 of twenty that were created at once.
 */
const NEW_POD: Backoff = { initialMs: 100, maxMs: 400 };
/**
 * The pod has a token that is valid for minutes, so nothing is urgent. A server that fails gets eight requests for a
 * token of an hour until that expires, and five for one of ten minutes.
 */
const WITH_TOKEN: Backoff = { initialMs: 10_000, maxMs: 300_000 };

/**
 * When the token expires, by this node's clock. A rest of its life that is impossible for a token just issued shows that
 * the two clocks differ: then the lifetime counts from the request.
 */
export function tokenExpiresAt(issued: TokenValidity): number {
  const { requestedAt, expirationTimestamp } = issued;
  const lifetimeMs = lifetimeOf(issued);
  const leftMs = expirationTimestamp === undefined ? lifetimeMs : expirationTimestamp - requestedAt;
  return requestedAt + (leftMs > 0 && leftMs < lifetimeMs ? leftMs : lifetimeMs);
}

/**
 * When the token is requested again: as soon as less than a fifth of its lifetime is left or it is a day old. `random`,
 * in [0, 1), moves that up to 10 s earlier, so that the pods of a Deployment do not ask at the same moment.
 */
export function tokenRefreshAt(issued: TokenValidity, random: number): number {
  const { requestedAt } = issued;
  const lifetimeMs = lifetimeOf(issued);
  const expiry = tokenExpiresAt(issued);
  const issuedAt = expiry - lifetimeMs;
  const dueAt = Math.min(expiry - REFRESH_WITH_LEFT * lifetimeMs, issuedAt + MAX_AGE_MS) - random * MAX_JITTER_MS;
  return Math.max(dueAt, requestedAt + MIN_AGE * Math.min(lifetimeMs, MAX_AGE_MS));
}

function lifetimeOf({ expirationSeconds }: TokenValidity): number {
  const lifetimeMs = expirationSeconds * 1_000;
  return lifetimeMs >= MIN_LIFETIME_MS ? Math.min(lifetimeMs, MAX_LIFETIME_MS) : MIN_LIFETIME_MS;
}

/** A request for a token that has failed. */
export interface TokenFailure {
  /** Epoch milliseconds. */
  readonly failedAt: number;
  /** How many requests have failed in a row, at least 1. */
  readonly failures: number;
  /** When the token that the pod still has expires; undefined if there is none, or it has expired. */
  readonly validUntil: number | undefined;
  /** The API server may not know the pod everywhere yet. */
  readonly isPodNew?: boolean;
  /** The server's Retry-After. */
  readonly retryAfterMs?: number | undefined;
}

/**
 * When a failed request is repeated. The token that a pod still has is asked for once more when it expires, and is then
 * missing if that fails, too.
 */
export function tokenRetryAt({
  failedAt,
  failures,
  validUntil,
  isPodNew = false,
  retryAfterMs = 0,
}: TokenFailure): number {
  const withoutToken = isPodNew ? NEW_POD : WITHOUT_TOKEN;
  const backoff = validUntil === undefined ? withoutToken : WITH_TOKEN;
  // A proxy may ask for a day, and a pod waits for its token.
  const retryAt = failedAt + Math.max(backoffDelayMs(backoff, failures), Math.min(retryAfterMs, backoff.maxMs));
  return validUntil === undefined ? retryAt : Math.min(retryAt, Math.max(failedAt, validUntil));
}
