import type { UserInfo } from "../user-info.ts";
import type { Authenticator } from "./authenticator.ts";
import { userOfCertificate } from "./client-certificate.ts";
import type { TokenAuthenticator } from "./token-authenticator.ts";

export interface RequestAuthenticatorOptions {
  /** Undefined if no tokens are accepted. */
  readonly authenticateToken: TokenAuthenticator | undefined;
  readonly allowsAnonymous: boolean;
}

const AUTHENTICATED = "system:authenticated";
const ANONYMOUS: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * Authenticates by client certificate, then by bearer token. Only a request with neither is anonymous: bad credentials are
 * refused. Rule: DelegatingAuthenticatorConfig in k8s.io/apiserver.
 */
export function createRequestAuthenticator({
  authenticateToken,
  allowsAnonymous,
}: RequestAuthenticatorOptions): Authenticator {
  return {
    async authenticate({ authorization, socket, signal }) {
      const byCertificate = userOfCertificate(socket);
      if (byCertificate !== undefined) return withGroup(byCertificate);
      const token = bearerTokenOf(authorization);
      if (token !== undefined && authenticateToken !== undefined) {
        const user = await authenticateToken(token, signal);
        if (user !== undefined) return withGroup(user);
        return undefined;
      }
      const hasCertificate = socket.getPeerCertificate()?.subject !== undefined;
      return allowsAnonymous && !hasCertificate ? ANONYMOUS : undefined;
    },
  };
}

function withGroup(user: UserInfo): UserInfo {
  return user.groups.includes(AUTHENTICATED) ? user : { ...user, groups: [...user.groups, AUTHENTICATED] };
}

/** As Go's bearertoken package: the scheme in any case, and nothing behind the token. */
function bearerTokenOf(authorization: string | undefined): string | undefined {
  const [scheme, token, ...rest] = (authorization ?? "").trim().split(" ");
  return scheme?.toLowerCase() === "bearer" && token !== undefined && token !== "" && rest.length === 0
    ? token
    : undefined;
}
