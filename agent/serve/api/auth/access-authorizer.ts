import type { Reviews } from "../../../../kube/reviews.ts";
import type { Authorizer } from "./authorizer.ts";

/** Asks the API server, as `authorization.mode: Webhook` says. */
export function createAccessAuthorizer({ reviewAccess }: Pick<Reviews, "reviewAccess">, nodeName: string): Authorizer {
  return {
    async isAllowed({ user: { username, uid, groups, extra }, verb, subresource }, signal) {
      const { allowed } = await reviewAccess(
        {
          user: username,
          groups,
          ...(uid !== undefined && { uid }),
          ...(extra && { extra }),
          resourceAttributes: { verb, version: "v1", resource: "nodes", subresource, name: nodeName },
        },
        signal,
      );
      return allowed;
    },
  };
}
