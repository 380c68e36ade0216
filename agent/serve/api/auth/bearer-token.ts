/** A token that a request carries; `malformed`: it is there, but cannot be one. */
export type BearerToken = { readonly token: string } | "none" | "malformed";

/**
 * Returns the token of the header `Authorization`. Another scheme than `Bearer` is no credential. Rule: bearertoken in
 * k8s.io/apiserver.
 */
export function tokenOfHeader(authorization: string | undefined): BearerToken {
  const [scheme, token] = (authorization ?? "").trim().split(" ");
  return scheme?.toLowerCase() === "bearer" && token ? { token } : "none";
}

const SUBPROTOCOL = "base64url.bearer.authorization.k8s.io.";
const BASE64URL = /^[A-Za-z0-9_-]*$/;

/**
 * Returns the token of the header `Sec-WebSocket-Protocol`, which must offer another protocol besides it. Rule:
 * ProtocolAuthenticator in k8s.io/apiserver.
 */
export function tokenOfSubprotocols(header: string | undefined): BearerToken {
  const protocols = protocolsOf(header ?? "");
  const encoded = protocols.filter(isTokenProtocol).map((protocol) => protocol.slice(SUBPROTOCOL.length));
  const [only = ""] = encoded;
  if (only === "" && encoded.length <= 1) return "none";
  if (encoded.length !== 1 || protocols.length === 1 || !BASE64URL.test(only)) return "malformed";
  const bytes = Buffer.from(only, "base64url");
  const token = bytes.toString("utf8");
  return Buffer.from(token).equals(bytes) ? { token } : "malformed";
}

/** The header without its token, as endpoints may see it and answer it. */
export function withoutTokenProtocol(header: string): string {
  return protocolsOf(header)
    .filter((protocol) => !isTokenProtocol(protocol))
    .join(", ");
}

const protocolsOf = (header: string) => header.split(",").map((protocol) => protocol.trim());
const isTokenProtocol = (protocol: string) => protocol.startsWith(SUBPROTOCOL);
