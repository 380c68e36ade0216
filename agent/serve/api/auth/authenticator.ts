import type { TLSSocket } from "node:tls";
import type { UserInfo } from "../user-info.ts";

/** What a request proves its sender with. Never log it. */
export interface RequestCredentials {
  readonly authorization: string | undefined;
  /** The connection, with the certificate that the client has shown, if any. */
  readonly socket: Pick<TLSSocket, "authorized" | "getPeerCertificate">;
  readonly signal: AbortSignal;
}

/** Finds who sends a request; undefined if it is anonymous and anonymous requests are refused. Rejects if it cannot be found out. */
export interface Authenticator {
  authenticate(credentials: RequestCredentials): Promise<UserInfo | undefined>;
}
