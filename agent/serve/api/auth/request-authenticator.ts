import type { Clock } from "../../../../host/clock.ts";
import type { UserInfo } from "../user-info.ts";
import type { Authenticator } from "./authenticator.ts";
import { tokenOfHeader, tokenOfSubprotocols } from "./bearer-token.ts";
import { userOfCertificate } from "./client-certificate.ts";
import type { TokenAuthenticator } from "./token-authenticator.ts";

export interface RequestAuthenticatorOptions {
  /** Undefined if no tokens are accepted. */
  readonly authenticateToken: TokenAuthenticator | undefined;
  readonly allowsAnonymous: boolean;
  readonly clock: Pick<Clock, "now">;
}

const AUTHENTICATED = "system:authenticated";
const ANONYMOUS: UserInfo = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * Authenticates by client certificate, then by bearer token; the first that is valid counts. Bad credentials do not make a
 * request anonymous. Rule: DelegatingAuthenticatorConfig in k8s.io/apiserver.
 */
export function createRequestAuthenticator(options: RequestAuthenticatorOptions): Authenticator {
  const { authenticateToken, allowsAnonymous, clock } = options;
  return {
    async authenticate({ socket, authorization, websocketProtocols, signal }) {
      const byCertificate = userOfCertificate(socket, clock.now());
      if (byCertificate.kind === "user") return withGroup(byCertificate.user);
      let isAnonymous = byCertificate.kind === "none";
      if (authenticateToken !== undefined)
        for (const found of [tokenOfHeader(authorization), tokenOfSubprotocols(websocketProtocols)]) {
          if (found === "none") continue;
          isAnonymous = false;
          const user = found === "malformed" ? undefined : await authenticateToken(found.token, signal);
          if (user !== undefined) return withGroup(user);
        }
      return isAnonymous && allowsAnonymous ? ANONYMOUS : undefined;
    },
  };
}

function withGroup(user: UserInfo): UserInfo {
  return user.groups.includes(AUTHENTICATED) ? user : { ...user, groups: [...user.groups, AUTHENTICATED] };
}
