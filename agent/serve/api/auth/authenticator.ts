import type { PeerCertificate, TLSSocket } from "node:tls";
import type { UserInfo } from "../user-info.ts";

/** The credentials of a request. Never log them. */
export interface RequestCredentials {
  /** The connection, with the certificate that the client has shown, if any. */
  readonly socket: Pick<TLSSocket, "authorized"> & { getPeerCertificate(): PeerCertificate };
  readonly authorization: string | undefined;
  /** Of a request that asks for a WebSocket: browsers can send a token only as one of its subprotocols. */
  readonly websocketProtocols: string | undefined;
  readonly signal: AbortSignal;
}

export interface Authenticator {
  /**
   * Finds the user who sends a request; undefined for bad credentials, or for none where they are required. Rejects if
   * the API server does not answer.
   */
  authenticate(credentials: RequestCredentials): Promise<UserInfo | undefined>;
}
