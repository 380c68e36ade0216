import { maxHeaderSize, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { connect, type Socket } from "node:net";
import type { Duplex, Readable } from "node:stream";
import type { HttpQuestion } from "./http2.ts";

/**
 * Somebody could not be reached, or did not answer in time: `code` is the kernel's (`ECONNREFUSED`), or `ETIMEDOUT`; `ENOTTLS` for a server
 * that was asked over TLS and answers in plain text, `ENOTHTTP` for one whose answer cannot be read, `EOF` for one that hangs up before, and
 * `EUNFINISHED` for one whose answer has begun, and breaks off or does not come to an end in time.
 */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface DialOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface HttpAnswer {
  readonly status: number;
  /** Where a redirect leads, as it is written. */
  readonly location: string | undefined;
  /** As far as it was read. */
  readonly body: string;
}

/** Connects by TCP, and hangs up. Rejects with `DialError`. */
export async function dialTcp(host: string, port: number, options: DialOptions): Promise<void> {
  await within(options, (limit) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const socket = connect({ host, port }, resolve);
    socket.on("error", reject);
    limit.addEventListener("abort", () => reject(limit.reason), { once: true });
    return promise.finally(() => socket.destroy());
  });
}

/**
 * Does it within the time that there is. Neither the timer nor the listener outlives it, since many are asked every second, and the
 * signal lives as long as who is asked. Rejects with `DialError`.
 */
export async function within<T>(
  { timeoutMs, signal }: DialOptions,
  work: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController();
  const giveUp = () => limit.abort(signal.reason);
  const timer = setTimeout(() => limit.abort(new DialError("ETIMEDOUT", "no answer in time")), timeoutMs);
  if (signal.aborted) giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    return await work(limit.signal);
  } catch (error) {
    throw toDialError(error, limit.signal);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", giveUp);
  }
}

/**
 * Asks an HTTP server once, on a connection of its own, whoever its certificate names. The body is read to `maxBytes` and then left.
 * Headers are sent as they are given; a redirect is an answer. Rejects with `DialError`.
 */
export async function httpGet(
  url: string,
  headers: readonly (readonly [name: string, value: string])[],
  maxBytes: number,
  options: DialOptions,
): Promise<HttpAnswer> {
  let hasBegun = false;
  const attempt = async (signal: AbortSignal, protocols: readonly string[]) => {
    const { promise, resolve, reject: fail } = Promise.withResolvers<HttpAnswer>();
    // Who cannot even ask says so by himself, and then nobody waits for this.
    promise.catch(() => undefined);
    // Whatever becomes of the question: nobody waits longer.
    signal.addEventListener("abort", () => fail(signal.reason), { once: true });
    signal.throwIfAborted();
    const begin: HttpQuestion["begin"] = (status, location, answer) => {
      hasBegun = true;
      readBody(answer, maxBytes, (body) => resolve({ status, location, body }), fail);
    };
    const question = { url, headers: groupHeaders(headers), signal, begin, fail };
    const isTls = url.startsWith("https:");
    const hangUp = isTls ? await askOverTls(question, protocols) : askByHttp1(requestHttp, question);
    return promise.finally(hangUp);
  };
  const ask = async (signal: AbortSignal) => {
    try {
      return await attempt(signal, wantsUpgrade(headers) ? ["http/1.1"] : ["h2", "http/1.1"]);
    } catch (error) {
      if (hasBegun || !isOfHttp2(error)) throw error;
      // HTTP/1.1 bears what HTTP/2 does not, such as headers of connections; where nothing does, the first failure is told.
      return await attempt(signal, ["http/1.1"]).catch(() => {
        throw error;
      });
    }
  };
  try {
    return await within(options, ask);
  } catch (error) {
    if (!hasBegun || !(error instanceof DialError) || error.code === "ECANCELED") throw error;
    throw new DialError("EUNFINISHED", wordsBehindHeaders(error), { cause: error });
  }
}

function wordsBehindHeaders({ code, message }: DialError): string {
  if (code === "ETIMEDOUT")
    return "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
  return code === "EOF" ? "unexpected EOF" : message;
}

/** HTTP/2 has no other protocol to go over to: who wants one asks by HTTP/1.1, as Go's client does. */
const wantsUpgrade = (headers: readonly (readonly [name: string, value: string])[]) =>
  headers.some(([name]) => name.toLowerCase() === "upgrade");

/** As `https.ts` says it. */
const isOfHttp2 = (error: unknown) => (error as { readonly code?: unknown } | undefined)?.code === "ENOTHTTP";

/** Asks by that of the protocols which the server takes; returns how to hang up. */
async function askOverTls(question: HttpQuestion, protocols: readonly string[]): Promise<() => void> {
  // Loaded only where it is used: few servers are asked so.
  const { askByHttp2, connectTls } = await import("./http2.ts");
  const socket = await connectTls(new URL(question.url), protocols, question.signal);
  try {
    if (socket.alpnProtocol === "h2") return askByHttp2(socket, question);
    const hangUp = askByHttp1(requestHttps, question, () => socket);
    return () => {
      hangUp();
      socket.destroy();
    };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** Asks by HTTP/1.1, on a connection of its own if none is given; returns how to hang up. */
function askByHttp1(
  request: typeof requestHttp,
  { url, headers, signal, begin, fail }: HttpQuestion,
  createConnection?: () => Socket,
): () => void {
  // An agent of its own would make a connection of its own.
  const connection = createConnection === undefined ? ({ agent: false } as const) : { createConnection };
  const settings = { headers, signal, rejectUnauthorized: false, ...connection };
  const asked = request(url, settings, (answer) => begin(answer.statusCode ?? 0, answer.headers.location, answer));
  asked.on("error", fail);
  // Who goes over to another protocol, unasked or not, has answered too; what is said in that is the body, as with Go.
  let switched: Duplex | undefined;
  asked.once("upgrade", ({ statusCode = 0 }, socket, head) => {
    switched = socket;
    if (head.length > 0) socket.unshift(head);
    begin(statusCode, undefined, socket);
  });
  asked.end();
  return () => {
    asked.destroy();
    switched?.destroy();
  };
}

function readBody(
  answer: Readable,
  maxBytes: number,
  take: (body: string) => void,
  fail: (error: Error) => void,
): void {
  const chunks: Buffer[] = [];
  let size = 0;
  const done = () => take(Buffer.concat(chunks).subarray(0, maxBytes).toString());
  answer.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size >= maxBytes) done();
  });
  answer.once("end", done);
  answer.on("error", fail);
}

/** A question has no body: what is said of one is left out, as by Go. */
const OF_BODIES: ReadonlySet<string> = new Set(["content-length", "transfer-encoding", "trailer"]);

/**
 * A header given twice is sent twice, as its name was written first: in whatever case, it is one name. Of `Host` and `User-Agent` there can
 * be one alone, and a host without a value is none.
 */
function groupHeaders(headers: readonly (readonly [name: string, value: string])[]): Record<string, string | string[]> {
  const grouped = new Map<string, readonly [name: string, values: string[]]>();
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    const known = grouped.get(key);
    if (known === undefined && !OF_BODIES.has(key)) grouped.set(key, [name, [value]]);
    else if (key !== "user-agent") known?.[1].push(value);
  }
  const host = grouped.get("host");
  grouped.delete("host");
  const [first = ""] = host?.[1] ?? [];
  return Object.fromEntries([...(first === "" ? [] : [["Host", first] as const]), ...grouped.values()]);
}

/** What a foreign error says in a code; a limit of ours that ran out is `ETIMEDOUT`, and whatever was aborted is `ECANCELED`. */
function toDialError(error: unknown, limit: AbortSignal): DialError {
  if (error instanceof DialError) return error;
  if (limit.aborted)
    return limit.reason instanceof DialError
      ? limit.reason
      : new DialError("ECANCELED", "given up", { cause: limit.reason });
  const { code = "EIO", message = String(error) } = error as { readonly code?: unknown; readonly message?: string };
  const told = readTrouble(String(code), message);
  if (told !== undefined) return new DialError(...told, { cause: error });
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER")
    return new DialError("ENOTTLS", "http: server gave HTTP response to HTTPS client", { cause: error });
  return new DialError(String(code), message, { cause: error });
}

/** What is wrong with a question or an answer of HTTP, in the words that Go has for it. */
function readTrouble(code: string, message: string): readonly [code: string, message: string] | undefined {
  if (code === "ECONNRESET" && message === "socket hang up") return ["EOF", "EOF"];
  if (code === "ECONNRESET" && message === "aborted") return ["EOF", "unexpected EOF"];
  // In the midst of the handshake.
  if (code === "ECONNRESET" && message.startsWith("Client network socket disconnected")) return ["EOF", "EOF"];
  if (code === "HPE_HEADER_OVERFLOW")
    return ["ENOTHTTP", `net/http: server response headers exceeded ${maxHeaderSize} bytes; aborted`];
  const [, header] = /^Invalid character in header content \["(.*)"\]$/s.exec(message) ?? [];
  if (header !== undefined) return ["EINVAL", `net/http: invalid header field value for ${JSON.stringify(header)}`];
  if (code.startsWith("HPE_"))
    return ["ENOTHTTP", "net/http: HTTP/1.x transport connection broken: malformed HTTP response"];
  return undefined;
}
