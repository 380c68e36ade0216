import { validateHeaderName, validateHeaderValue } from "node:http";
import { connect as connectHttp2, type OutgoingHttpHeaders } from "node:http2";
import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { connect, type TLSSocket } from "node:tls";

/** One GET, and who hears what comes of it. */
export interface HttpQuestion {
  readonly url: string;
  /** By their names as they are written. */
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly signal: AbortSignal;
  /** The answer begins; the body is still to be read. */
  readonly begin: (status: number, location: string | undefined, body: Readable) => void;
  /** Also of what goes wrong behind the beginning, and then of the end, which says nothing any more. */
  readonly fail: (error: unknown) => void;
}

/**
 * Connects over TLS to whom a URL names, whoever the certificate is of, and offers protocols by their names in ALPN, the best one first: what
 * was agreed upon is the socket's `alpnProtocol`, and where nothing was, it is HTTP/1.1. Whoever asks destroys it. Rejects with the error of
 * the socket, or with the signal's reason.
 */
export async function connectTls(
  { hostname, port }: URL,
  protocols: readonly string[],
  signal: AbortSignal,
): Promise<TLSSocket> {
  signal.throwIfAborted();
  // A URL has an IPv6 address in brackets.
  const host = hostname.replace(/^\[(.*)\]$/, "$1");
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connect({
    host,
    port: Number(port || 443),
    rejectUnauthorized: false,
    ALPNProtocols: [...protocols],
    ...(isIP(host) === 0 && { servername: host }),
  });
  const giveUp = () => reject(signal.reason);
  signal.addEventListener("abort", giveUp, { once: true });
  socket.on("error", reject);
  socket.once("close", () => reject(hungUp()));
  socket.once("secureConnect", () => resolve(socket));
  try {
    return await promise;
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}

/** Those that are about a connection, which HTTP/2 has no more: https://www.rfc-editor.org/rfc/rfc9113#section-8.2.2 */
const OF_CONNECTIONS: ReadonlySet<string> = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
]);

/**
 * Asks by HTTP/2 on a connection that was made for it; returns how to hang up. What is wrong with HTTP/2 itself fails with the code
 * `ENOTHTTP`. Throws for a header that nobody could send.
 */
export function askByHttp2(socket: TLSSocket, question: HttpQuestion): () => void {
  const { headers, begin } = question;
  const fail = (error: Error) => question.fail(inGoWords(error));
  const url = new URL(question.url);
  const sent = toHttp2(headers, url);
  const session = connectHttp2(url.origin, { createConnection: () => socket, ...SETTINGS });
  for (const each of [session, socket]) each.on("error", fail).once("close", () => fail(hungUp()));
  const stream = session.request(sent, { endStream: true });
  stream.on("error", fail).once("close", () => fail(hungUp()));
  // Heard before the reader of the body hears the same: a body that breaks off has an end too.
  stream.once("end", () => {
    if (stream.rstCode) fail(hungUp());
  });
  stream.once("response", ({ ":status": status = 0, location }) => begin(status, location, stream));
  return () => {
    session.destroy();
    socket.destroy();
  };
}

/** Nobody wants to be pushed what nobody has asked for; and a header is sent as often as it was given, also one that makes no sense twice. */
const SETTINGS = { settings: { enablePush: false }, strictSingleValueFields: false };

function toHttp2(headers: HttpQuestion["headers"], url: URL): OutgoingHttpHeaders {
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name);
    for (const each of [value].flat()) validateHeaderValue(name, each);
  }
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), [value].flat()] as const);
  // Of these one alone has a meaning: https://www.rfc-editor.org/rfc/rfc9113#section-8.2.2
  const isSent = ([name, values]: (typeof named)[number]) =>
    name === "te" ? values.join() === "trailers" : name !== "host" && !OF_CONNECTIONS.has(name);
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
const CODES = [
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

/** What goes wrong on HTTP/2, as Go says it. */
function inGoWords(error: Error): Error {
  const said = (words: string) => Object.assign(new Error(words, { cause: error }), { code: "ENOTHTTP" });
  const [, reset] = /^Stream closed with error code NGHTTP2_(\w+)$/.exec(error.message) ?? [];
  if (reset !== undefined) return said(`stream error: stream ID 1; ${reset}; received from peer`);
  const [, left] = /^Session closed with error code (\d+)$/.exec(error.message) ?? [];
  if (left !== undefined)
    return said(`http2: server sent GOAWAY and closed the connection; ErrCode=${CODES[Number(left)] ?? left}`);
  return error.message === "Protocol error" ? said("connection error: PROTOCOL_ERROR") : error;
}

/** In the words of `node:http`, which are read by whoever reads its errors. */
const hungUp = () => Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
