import type { TLSSocket } from "node:tls";
import type { UserInfo } from "../user-info.ts";

/** What a request proves its sender with. Never log it. */
export interface RequestCredentials {
  /** The connection, with the certificate that the client has shown, if any. */
  readonly socket: Pick<TLSSocket, "authorized" | "getPeerCertificate">;
  readonly authorization: string | undefined;
  /** Of a request that asks for a WebSocket: browsers can send a token only as one of its subprotocols. */
  readonly websocketProtocols: string | undefined;
  readonly signal: AbortSignal;
}

export interface Authenticator {
  /** Finds who sends a request; undefined for bad credentials, and for none where those are required. Rejects if it cannot be found out. */
  authenticate(credentials: RequestCredentials): Promise<UserInfo | undefined>;
}
