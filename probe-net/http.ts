import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Socket } from "node:net";
import type { Duplex, Readable } from "node:stream";
import { onAbort } from "../host/async/abort.ts";
import { DialError, type DialOptions, withTimeout } from "./dial-error.ts";
import type { HttpRequest } from "./http2.ts";

export interface HttpResponse {
  readonly status: number;
  /** The Location header of a redirect, unresolved. */
  readonly location: string | undefined;
  /** At most the requested number of bytes. */
  readonly body: string;
}

/**
 * Sends one GET on a new connection, without verifying the server's certificate. Reads at most `maxBytes` of the body.
 * Sends the headers as given and does not follow redirects. Rejects with `DialError`.
 */
export async function httpGet(
  url: string,
  headers: readonly (readonly [name: string, value: string])[],
  maxBytes: number,
  options: DialOptions,
): Promise<HttpResponse> {
  let hasStarted = false;
  const attempt = async (signal: AbortSignal, protocols: readonly string[]) => {
    const { promise, resolve, reject: onError } = Promise.withResolvers<HttpResponse>();
    // Avoids an unhandled rejection if sending the request throws before the promise is awaited.
    promise.catch(() => undefined);
    onAbort(signal, () => onError(signal.reason));
    signal.throwIfAborted();
    const onResponse: HttpRequest["onResponse"] = (status, location, answer) => {
      hasStarted = true;
      readBody(answer, maxBytes, (body) => resolve({ status, location, body }), onError);
    };
    const httpRequest = { url, headers: groupHeaders(headers), signal, onResponse: onResponse, onError: onError };
    const isTls = url.startsWith("https:");
    const close = isTls ? await sendOverTls(httpRequest, protocols) : sendHttp1(requestHttp, httpRequest);
    return promise.finally(close);
  };
  const attemptWithFallback = async (signal: AbortSignal) => {
    try {
      return await attempt(signal, wantsUpgrade(headers) ? ["http/1.1"] : ["h2", "http/1.1"]);
    } catch (error) {
      if (hasStarted || !isHttp2Error(error)) throw error;
      // HTTP/1.1 allows what HTTP/2 does not, such as connection headers. If it fails too, the first error is reported.
      return await attempt(signal, ["http/1.1"]).catch(() => {
        throw error;
      });
    }
  };
  try {
    return await withTimeout(options, attemptWithFallback);
  } catch (error) {
    if (!hasStarted || !(error instanceof DialError) || error.code === "ECANCELED") throw error;
    throw new DialError("EUNFINISHED", bodyErrorMessage(error), { cause: error });
  }
}

function bodyErrorMessage({ code, message }: DialError): string {
  if (code === "ETIMEDOUT")
    return "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
  return code === "EOF" ? "unexpected EOF" : message;
}

/** HTTP/2 has no Upgrade: such a request uses HTTP/1.1, as in Go's client. */
const wantsUpgrade = (headers: readonly (readonly [name: string, value: string])[]) =>
  headers.some(([name]) => name.toLowerCase() === "upgrade");

/** The code that `http2.ts` gives to errors of HTTP/2 itself. */
const isHttp2Error = (error: unknown) => (error as { readonly code?: unknown } | undefined)?.code === "ENOTHTTP";

/** Sends the request by the protocol that ALPN selects; returns a function that closes the connection. */
async function sendOverTls(httpRequest: HttpRequest, protocols: readonly string[]): Promise<() => void> {
  // Loaded on first use: few probes use HTTPS.
  const { sendHttp2, connectTls } = await import("./http2.ts");
  const socket = await connectTls(new URL(httpRequest.url), protocols, httpRequest.signal);
  try {
    if (socket.alpnProtocol === "h2") return sendHttp2(socket, httpRequest);
    const close = sendHttp1(requestHttps, httpRequest, () => socket);
    return () => {
      close();
      socket.destroy();
    };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** What Go's client refuses in a header, and the lenient parser of node:http accepts. */
const CONTROL_CHARACTER = /[^\t\x20-\x7e\x80-\xff]/;

/**
 * Sends the request by HTTP/1.1, on a new connection if none is given; returns a function that closes it. The parser is the
 * lenient one: as Go's client does, it accepts lines that end with LF alone, which CGI programs write (httpd of busybox sends
 * them on). A proxy might read such a response differently from its client; here is one request on one connection.
 */
function sendHttp1(
  request: typeof requestHttp,
  { url, headers, signal, onResponse, onError }: HttpRequest,
  createConnection?: () => Socket,
): () => void {
  // With `createConnection` there must be no `agent`: it would open a connection of its own.
  const connection = createConnection === undefined ? ({ agent: false } as const) : { createConnection };
  const requestOptions = { headers, signal, rejectUnauthorized: false, insecureHTTPParser: true, ...connection };
  const clientRequest = request(url, requestOptions, (answer) => {
    if (answer.rawHeaders.some((text) => CONTROL_CHARACTER.test(text)))
      onError(Object.assign(new Error("a header has a control character"), { code: "HPE_INVALID_HEADER_TOKEN" }));
    else onResponse(answer.statusCode ?? 0, answer.headers.location, answer);
  });
  clientRequest.on("error", onError);
  // 101 Switching Protocols, requested or not, is an answer; the bytes of the other protocol are its body, as in Go.
  let upgradedSocket: Duplex | undefined;
  clientRequest.once("upgrade", ({ statusCode = 0 }, socket, head) => {
    upgradedSocket = socket;
    if (head.length > 0) socket.unshift(head);
    onResponse(statusCode, undefined, socket);
  });
  clientRequest.end();
  return () => {
    clientRequest.destroy();
    upgradedSocket?.destroy();
  };
}

function readBody(
  answer: Readable,
  maxBytes: number,
  onBody: (body: string) => void,
  onError: (error: Error) => void,
): void {
  const chunks: Buffer[] = [];
  let size = 0;
  const finish = () => onBody(Buffer.concat(chunks).subarray(0, maxBytes).toString());
  answer.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBytes) finish();
  });
  answer.once("end", finish);
  answer.on("error", onError);
}

/** A GET has no body: headers about a body are dropped, as in Go. */
const BODY_HEADERS: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "trailer"]);

/**
 * Groups headers by their case-insensitive name: a repeated header is sent as often as given, with the spelling of the
 * first. Of `Host` and `User-Agent` only the first is sent, and an empty `Host` not at all.
 */
function groupHeaders(headers: readonly (readonly [name: string, value: string])[]): Record<string, string | string[]> {
  const grouped = new Map<string, readonly [name: string, values: string[]]>();
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const known = grouped.get(key);
    if (known === undefined && !BODY_HEADERS.has(key)) grouped.set(key, [name, [value]]);
    else if (key !== "user-agent") known?.[1].push(value);
  }
  const host = grouped.get("host");
  grouped.delete("host");
  const [first = ""] = host?.[1] ?? [];
  return Object.fromEntries([...(first === "" ? [] : [["Host", first] as const]), ...grouped.values()]);
}
