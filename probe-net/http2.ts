import { validateHeaderName, validateHeaderValue } from "node:http";
import { connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { connect, type TLSSocket } from "node:tls";
import { orAborted } from "../host/async/abort.ts";

/** One GET request with the callbacks for its answer. */
export interface HttpRequest {
  readonly url: string;
  /** By name, with the given spelling. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly signal: AbortSignal;
  /** Called with the response headers; the body is still to be read. */
  readonly onResponse: (status: number, location: string | undefined, body: Readable) => void;
  /**
   * Called for every error, also after `onResponse`, and for the close of the connection; calls after the body's end
   * have no effect.
   */
  readonly onError: (error: unknown) => void;
}

/**
 * Connects over TLS to the host of a URL without verifying its certificate, and offers protocols by ALPN in order of
 * preference. The selected one is the socket's `alpnProtocol`; without a selection it is HTTP/1.1. The caller destroys
 * the socket. Rejects with the socket's error, or with the signal's reason.
 */
export async function connectTls(
  { hostname, port }: URL,
  protocols: readonly string[],
  signal: AbortSignal,
): Promise<TLSSocket> {
  signal.throwIfAborted();
  // A URL writes an IPv6 address in brackets.
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({
    host,
    port: Number(port || 443),
    rejectUnauthorized: false,
    ALPNProtocols: [...protocols],
    ...(isIP(host) === 0 && { servername: host }),
  });
  socket.on("error", reject);
  socket.once("close", () => reject(closedError()));
  socket.once("secureConnect", () => resolve(socket));
  try {
    return await orAborted(promise, signal);
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Connection-specific headers, which HTTP/2 forbids: https://www.rfc-editor.org/rfc/rfc9113#section-8.2.2 */
const CONNECTION_HEADERS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Sends the request by HTTP/2 on a new connection; returns a function that closes it. Errors of HTTP/2 itself have the
 * code `ENOTHTTP`. Throws for an invalid header.
 */
export function sendHttp2(socket: TLSSocket, httpRequest: HttpRequest): () => void {
  const { headers, onResponse } = httpRequest;
  const onError = (error: Error) => httpRequest.onError(toGoHttp2Error(error));
  const url = new URL(httpRequest.url);
  const sentHeaders = toHttp2(headers, url);
  const session = connectHttp2(url.origin, { createConnection: () => socket, ...SESSION_OPTIONS });
  for (const each of [session, socket]) each.on("error", onError).once("close", () => onError(closedError()));
  const stream = session.request(sentHeaders, { endStream: true });
  stream.on("error", onError).once("close", () => onError(closedError()));
  // Registered before the reader of the body: a body that breaks off emits 'end', too.
  stream.once("end", () => {
    if (stream.rstCode) onError(closedError());
  });
  stream.once("response", ({ ":status": status = 0, location }) => onResponse(status, location, stream));
  return () => {
    session.destroy();
    socket.destroy();
  };
}

/** No server push; and repeated headers are sent as given, even those that node:http2 would refuse to send twice. */
const SESSION_OPTIONS = { settings: { enablePush: false }, strictSingleValueFields: false };

function toHttp2(headers: HttpRequest["headers"], url: URL): OutgoingHttpHeaders {
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name);
    for (const each of [value].flat()) validateHeaderValue(name, each);
  }
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value].flat()] as const);
  // HTTP/2 allows only `te: trailers`: https://www.rfc-editor.org/rfc/rfc9113#section-8.2.2
  const isSent = ([name, values]: (typeof named)[number]) =>
    name === "te" ? values.join() === "trailers" : name !== "host" && !CONNECTION_HEADERS.has(name);
  const [, [authority = url.host] = []] = named.find(([name]) => name === "host") ?? [];
  return {
    ...Object.fromEntries(named.filter(isSent)),
    ":method": "GET",
    ":scheme": "https",
    ":authority": authority,
    ":path": url.pathname + url.search,
  };
}

/** https://www.rfc-editor.org/rfc/rfc9113#section-7 */
const HTTP2_ERROR_CODES = [
  "NO_ERROR",
  "PROTOCOL_ERROR",
  "INTERNAL_ERROR",
  "FLOW_CONTROL_ERROR",
  "SETTINGS_TIMEOUT",
  "STREAM_CLOSED",
  "FRAME_SIZE_ERROR",
  "REFUSED_STREAM",
  "CANCEL",
  "COMPRESSION_ERROR",
  "CONNECT_ERROR",
  "ENHANCE_YOUR_CALM",
  "INADEQUATE_SECURITY",
  "HTTP_1_1_REQUIRED",
];

/** Maps errors of node:http2 to the messages of Go's HTTP/2 client. */
function toGoHttp2Error(error: Error): Error {
  const http2Error = (message: string) => Object.assign(new Error(message, { cause: error }), { code: "ENOTHTTP" });
  const [, resetCode] = /^Stream closed with error code NGHTTP2_(\w+)$/.exec(error.message) ?? [];
  if (resetCode !== undefined) return http2Error(`stream error: stream ID 1; ${resetCode}; received from peer`);
  const [, goAwayCode] = /^Session closed with error code (\d+)$/.exec(error.message) ?? [];
  if (goAwayCode !== undefined)
    return http2Error(
      `http2: server sent GOAWAY and closed the connection; ErrCode=${HTTP2_ERROR_CODES[Number(goAwayCode)] ?? goAwayCode}`,
    );
  return error.message === "Protocol error" ? http2Error("connection error: PROTOCOL_ERROR") : error;
}

/** The error that `node:http` emits for a closed connection, so that both protocols are converted alike. */
const closedError = () => Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
