import { createHmac, randomBytes } from "node:crypto";
import { createSemaphore } from "../../../../host/async/semaphore.ts";
import type { Clock } from "../../../../host/clock.ts";
import type { Reviews } from "../../../../kube/reviews.ts";
import type { TokenReviewStatus } from "../../../../proto/kubernetes/gen/types.ts";
import type { UserInfo } from "../user-info.ts";
import { createReviewCache } from "./review-cache.ts";

/**
 * Finds the user of a bearer token; undefined for a token that the API server refuses. Rejects with `KubeError` if it
 * does not answer.
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

/**
 * Asks the API server for reviews of tokens, and keeps its answers. As in the kubelet, a refusal with a reason is not kept: the
 * token may be valid when the API server knows more. Only hashes of tokens are in memory.
 */
export function createTokenAuthenticator(options: TokenAuthenticatorOptions): TokenAuthenticator {
  const { reviewToken, cacheTtlMs, clock } = options;
  const secret = randomBytes(32);
  const reviews = createSemaphore({ permits: MAX_REVIEWS_AT_ONCE });
  const never = new AbortController().signal;
  const cache = createReviewCache({
    maxEntries: MAX_ENTRIES,
    clock,
    ask: (token: string) => reviews.run(() => reviewToken(token), never),
    ttlMs: ({ authenticated, error = "" }) => (authenticated === true || error === "" ? cacheTtlMs : 0),
  });
  return async (token, signal) => {
    const key = createHmac("sha256", secret).update(token).digest("base64");
    return userOf(await cache.get(key, token, signal));
  };
}

function userOf({ authenticated, user }: TokenReviewStatus): UserInfo | undefined {
  if (authenticated !== true || user?.username === undefined) return undefined;
  const { username, uid, groups = [], extra } = user;
  return { username, groups, ...(uid && { uid }), ...(extra && { extra }) };
}
