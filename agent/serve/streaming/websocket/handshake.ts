import { createHash } from "node:crypto";
import { ApiError } from "../../api/api-error.ts";
import type { UpgradeRequest } from "../../api/route.ts";

type WebSocketRequest = Pick<UpgradeRequest, "method" | "headers">;

/** The subprotocols that the client offers, in its order. */
export function offeredProtocols({ headers }: Pick<UpgradeRequest, "headers">): readonly string[] {
  return (headers["sec-websocket-protocol"] ?? "")
    .split(",")
    .map((protocol) => protocol.trim())
    .filter((protocol) => protocol !== "");
}

/**
 * The answer that accepts a WebSocket (RFC 6455, section 4.2.2) with a subprotocol, or without one. Throws `ApiError` 400
 * for a request that is no proper handshake.
 */
export function handshakeAnswer(request: WebSocketRequest, protocol: string | undefined): string {
  checkHandshake(request);
  const key = request.headers["sec-websocket-key"] ?? "";
  const accept = createHash("sha1").update(`${key}${GUID}`).digest("base64");
  return [
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    `Sec-WebSocket-Accept: ${accept}`,
    ...(protocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocol}`]),
    "\r\n",
  ].join("\r\n");
}

const VERSION = "13";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

function checkHandshake({ method, headers }: WebSocketRequest): void {
  if (method !== "GET") throw new ApiError(400, "a WebSocket handshake must be a GET request");
  if (headers["sec-websocket-version"] !== VERSION)
    throw new ApiError(400, `the WebSocket version must be ${VERSION} (header Sec-WebSocket-Version)`, {
      // RFC 6455, section 4.4: the client may try again with this version.
      headers: { "sec-websocket-version": VERSION },
    });
  if (Buffer.from(headers["sec-websocket-key"] ?? "", "base64").length !== 16)
    throw new ApiError(400, "the header Sec-WebSocket-Key must be 16 bytes in base64");
}
