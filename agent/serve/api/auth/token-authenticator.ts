import type { Reviews } from "../../../../kube/reviews.ts";
import type { UserInfo } from "../user-info.ts";

/** Whose bearer token it is; undefined for one that the API server refuses. Rejects with `KubeError` if it does not answer. */
export type TokenAuthenticator = (token: string, signal: AbortSignal) => Promise<UserInfo | undefined>;

export function createTokenAuthenticator({ reviewToken }: Pick<Reviews, "reviewToken">): TokenAuthenticator {
  return async (token, signal) => {
    const { authenticated, user } = await reviewToken(token, signal);
    if (authenticated !== true || user?.username === undefined) return undefined;
    const { username, uid, groups = [], extra } = user;
    return { username, groups, ...(uid && { uid }), ...(extra && { extra }) };
  };
}
