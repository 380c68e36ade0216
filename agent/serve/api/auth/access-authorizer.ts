import { createHash } from "node:crypto";
import type { Clock } from "../../../../host/clock.ts";
import type { Reviews } from "../../../../kube/reviews.ts";
import type { SubjectAccessReviewSpec } from "../../../../proto/kubernetes/gen/types.ts";
import type { AccessRequest, Authorizer } from "./authorizer.ts";
import { createReviewCache } from "./review-cache.ts";

export interface AccessAuthorizerOptions extends Pick<Reviews, "reviewAccess"> {
  readonly nodeName: string;
  /** How long the API server's answers are kept, in milliseconds. */
  readonly allowedTtlMs: number;
  readonly deniedTtlMs: number;
  readonly clock: Pick<Clock, "now">;
}

/** As the kubelet's cache has it. */
const MAX_ENTRIES = 8_192;

/** Asks the API server by SubjectAccessReviews, and keeps its answers, as `authorization.mode: Webhook` says. */
export function createAccessAuthorizer(options: AccessAuthorizerOptions): Authorizer {
  const { reviewAccess, nodeName, allowedTtlMs, deniedTtlMs, clock } = options;
  const cache = createReviewCache({
    maxEntries: MAX_ENTRIES,
    clock,
    async ask(spec: SubjectAccessReviewSpec, signal) {
      const { allowed, denied } = await reviewAccess(spec, signal);
      return allowed && denied !== true;
    },
    ttlMs: (isAllowed) => (isAllowed ? allowedTtlMs : deniedTtlMs),
  });
  return {
    async isAllowed(request, signal) {
      const spec = specOf(request, nodeName);
      // A user may have thousands of groups: all keys have one length.
      const key = createHash("sha256").update(JSON.stringify(spec)).digest("base64");
      return await cache.get(key, spec, signal);
    },
  };
}

function specOf({ user, verb, subresource }: AccessRequest, nodeName: string): SubjectAccessReviewSpec {
  const { username, uid, groups, extra } = user;
  return {
    user: username,
    ...(uid !== undefined && { uid }),
    groups,
    ...(extra !== undefined && { extra }),
    resourceAttributes: { verb, version: "v1", resource: "nodes", subresource, name: nodeName },
  };
}
