const methods = ["GET", "POST", "CONNECT", "G\u00c4T", "GET GET"];
const targets = [
  "/pods",
  "/pods%",
  "/../..",
  "*",
  "/exec/a/b/c",
  "/exec/%00/%ff/%2e%2e",
  "http://x/pods",
  `/${"%2f".repeat(1000)}`,
];
const headers = [
  "X: y",
  "Upgrade: SPDY/3.1\r\nConnection: Upgrade",
  "Upgrade: websocket",
  "Content-Length: -1",
  "Content-Length: 99999999999",
  "Transfer-Encoding: gzip",
  "Authorization: Bearer \0",
  "X: a\r\n b",
  ": x",
  "Host: a\r\nHost: b",
  "Expect: 100-continue",
];

/** Requests of HTTP/1.1 with every combination of odd methods, targets and headers. */
export const oddRequests: readonly string[] = methods.flatMap((method) =>
  targets.flatMap((target) =>
    headers.map((header) => `${method} ${target} HTTP/1.1\r\nHost: node\r\n${header}\r\n\r\n`),
  ),
);

/** The first bytes of every client (RFC 9113, section 3.4). */
const PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const [DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION] = [
  0, 1, 2, 3, 4, 6, 7, 8, 9,
];
const END_HEADERS = 4;

/** A frame of HTTP/2 (RFC 9113, section 4.1). `length`: what it says of its payload. */
function frame(type: number, flags: number, stream: number, payload: Uint8Array, length = payload.length): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

const bytes = (length: number, value = 0) => Buffer.alloc(length, value);
const repeated = (count: number, each: Buffer) => Buffer.concat(Array.from({ length: count }, () => each));
const hello = Buffer.concat([Buffer.from(PREFACE), frame(SETTINGS, 0, 0, bytes(0))]);
/** `:method: GET`, `:path: /`, `:scheme: https` of HPACK's static table. */
const getRoot = Buffer.from([0x82, 0x84, 0x87]);

/** What a client of HTTP/2 must not send, by the rule that it breaks or the flood that it is. */
export const oddFrames: Readonly<Record<string, Buffer>> = {
  "no preface": frame(SETTINGS, 0, 0, bytes(0)),
  "half a preface": Buffer.from(PREFACE.slice(0, 10)),
  "HTTP/1.1 after ALPN": Buffer.from("GET /pods HTTP/1.1\r\nHost: node\r\n\r\n"),
  "bytes that are no frames": Buffer.concat([hello, bytes(5_000, 0xff)]),
  "a frame of 16 MB": Buffer.concat([hello, frame(DATA, 0, 1, bytes(100), 0xff_ff_ff)]),
  "headers on stream 0": Buffer.concat([hello, frame(HEADERS, END_HEADERS, 0, getRoot)]),
  "headers on a stream of the server": Buffer.concat([hello, frame(HEADERS, END_HEADERS, 2, getRoot)]),
  "headers that are no HPACK": Buffer.concat([hello, frame(HEADERS, END_HEADERS, 1, bytes(200, 0xff))]),
  "headers without a method": Buffer.concat([hello, frame(HEADERS, END_HEADERS, 1, Buffer.from([0x84, 0x87]))]),
  "headers that never end": Buffer.concat([
    ...[hello, frame(HEADERS, 0, 1, getRoot)],
    repeated(2_000, frame(CONTINUATION, 0, 1, bytes(0))),
  ]),
  "a continuation of nothing": Buffer.concat([hello, frame(CONTINUATION, END_HEADERS, 1, getRoot)]),
  "data of a stream that is not open": Buffer.concat([hello, frame(DATA, 0, 5, bytes(10))]),
  "a reset of a stream that is not open": Buffer.concat([hello, frame(RST_STREAM, 0, 5, bytes(4))]),
  "a stream that depends on itself": Buffer.concat([hello, frame(PRIORITY, 0, 1, Buffer.from([0, 0, 0, 1, 0]))]),
  "a window update of nothing": Buffer.concat([hello, frame(WINDOW_UPDATE, 0, 0, bytes(4))]),
  "a window that overflows": Buffer.concat([hello, repeated(2, frame(WINDOW_UPDATE, 0, 0, bytes(4, 0x7f)))]),
  "settings of half a record": Buffer.concat([hello, frame(SETTINGS, 0, 0, bytes(3))]),
  "2,000 settings": Buffer.concat([hello, repeated(2_000, frame(SETTINGS, 0, 0, bytes(0)))]),
  "2,000 pings": Buffer.concat([hello, repeated(2_000, frame(PING, 0, 0, bytes(8)))]),
  "500 requests that are reset at once": Buffer.concat([
    hello,
    ...Array.from({ length: 500 }, (_, index) => [
      frame(HEADERS, END_HEADERS, 2 * index + 1, getRoot),
      frame(RST_STREAM, 0, 2 * index + 1, bytes(4)),
    ]).flat(),
  ]),
  "goodbye at once": Buffer.concat([hello, frame(GOAWAY, 0, 0, bytes(8))]),
};
