import { expect, test } from "bun:test";
import { ApiError } from "../../api/api-error.ts";
import { handshakeAnswer } from "./handshake.ts";

/** The handshake of RFC 6455, section 1.3. */
const headers = { "sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" };

test("the answer accepts the key, and names the protocol", () => {
  expect(handshakeAnswer({ method: "GET", headers }, "v5.channel.k8s.io").split("\r\n")).toEqual([
    "HTTP/1.1 101 Switching Protocols",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    "Sec-WebSocket-Protocol: v5.channel.k8s.io",
    ...["", ""],
  ]);
});

test.each([
  ["POST", {}, "a WebSocket handshake must be a GET request", {}],
  [
    "GET",
    { "sec-websocket-version": "12" },
    "the WebSocket version must be 13 (header Sec-WebSocket-Version)",
    { "sec-websocket-version": "13" },
  ],
  ["GET", { "sec-websocket-key": "short" }, "the header Sec-WebSocket-Key must be 16 bytes in base64", {}],
])("%s with %j is answered with 400: %s", (method, more, message, answered) => {
  try {
    handshakeAnswer({ method, headers: { ...headers, ...more } }, undefined);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(ApiError);
    expect(error).toMatchObject({ status: 400, message, headers: answered });
  }
});
