import { createHmac, randomBytes } from "node:crypto";
import { createSemaphore } from "../../../../host/async/semaphore.ts";
import type { Clock } from "../../../../host/clock.ts";
import type { Reviews } from "../../../../kube/reviews.ts";
import type { TokenReviewStatus } from "../../../../proto/kubernetes/gen/types.ts";
import type { UserInfo } from "../user-info.ts";
import { createReviewCache } from "./review-cache.ts";

/**
 * Finds the user of a bearer token; undefined for a token that the API server refuses, or that is too long. Rejects with
 * `KubeError` if it does not answer, and with `ApiError` 429 if too many tokens wait for its answer.
 */
export type TokenAuthenticator = (token: string, signal: AbortSignal) => Promise<UserInfo | undefined>;

export interface TokenAuthenticatorOptions extends Pick<Reviews, "reviewToken"> {
  /** How long the API server's answer is kept, in milliseconds. */
  readonly cacheTtlMs: number;
  readonly clock: Pick<Clock, "now">;
}

/** As the kubelet's cache has it. */
const MAX_ENTRIES = 4_096;
/** Clients that guess tokens must not take all requests that the agent may send. */
const MAX_REVIEWS_AT_ONCE = 8;
/** A service account's token has about 1,000 characters, one of OpenID Connect with many groups some thousands. */
const MAX_TOKEN_LENGTH = 16_384;

/**
 * Asks the API server for reviews of tokens, and keeps its answers. As in the kubelet, a refusal with a reason is not kept: the
 * token may be valid when the API server knows more. Only hashes of tokens are in memory.
 */
export function createTokenAuthenticator(options: TokenAuthenticatorOptions): TokenAuthenticator {
  const { reviewToken, cacheTtlMs, clock } = options;
  const secret = randomBytes(32);
  const reviews = createSemaphore({ permits: MAX_REVIEWS_AT_ONCE });
  const cache = createReviewCache({
    maxEntries: MAX_ENTRIES,
    clock,
    ask: (token: string, signal) => reviews.run(() => reviewToken(token, signal), signal),
    ttlMs: ({ authenticated, error = "" }) => (authenticated === true || error === "" ? cacheTtlMs : 0),
  });
  return async (token, signal) => {
    if (token.length > MAX_TOKEN_LENGTH) return undefined;
    const key = createHmac("sha256", secret).update(token).digest("base64");
    return userOf(await cache.get(key, token, signal));
  };
}

function userOf({ authenticated, user }: TokenReviewStatus): UserInfo | undefined {
  if (authenticated !== true || user?.username === undefined) return undefined;
  const { username, uid, groups = [], extra } = user;
  return { username, groups, ...(uid && { uid }), ...(extra && { extra }) };
}
