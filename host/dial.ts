import { type IncomingMessage, maxHeaderSize, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { connect } from "node:net";

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
  const request = url.startsWith("https:") ? requestHttps : requestHttp;
  let hasBegun = false;
  const ask = (signal: AbortSignal) =>
    new Promise<HttpAnswer>((resolve, reject) => {
      const settings = { headers: groupHeaders(headers), agent: false, signal, rejectUnauthorized: false } as const;
      const asked = request(url, settings, (answer) => {
        hasBegun = true;
        const take = (body: string) => {
          resolve({ status: answer.statusCode ?? 0, location: answer.headers.location, body });
          asked.destroy();
        };
        readBody(answer, maxBytes, take, reject);
      });
      asked.on("error", reject);
      asked.end();
    });
  try {
    return await within(options, ask);
  } catch (error) {
    if (!hasBegun || !(error instanceof DialError) || error.code === "ECANCELED") throw error;
    const words =
      error.code === "ETIMEDOUT"
        ? "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
        : error.message;
    throw new DialError("EUNFINISHED", words, { cause: error });
  }
}

function readBody(
  answer: IncomingMessage,
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

/**
 * A header given twice is sent twice, as its name was written first: in whatever case, it is one name. Of `Host` there can be one alone,
 * and one without a value is none.
 */
function groupHeaders(headers: readonly (readonly [name: string, value: string])[]): Record<string, string | string[]> {
  const grouped = new Map<string, readonly [name: string, values: string[]]>();
  for (const [name, value] of headers) {
    const known = grouped.get(name.toLowerCase());
    if (known === undefined) grouped.set(name.toLowerCase(), [name, [value]]);
    else known[1].push(value);
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
  if (code === "HPE_HEADER_OVERFLOW")
    return ["ENOTHTTP", `net/http: server response headers exceeded ${maxHeaderSize} bytes; aborted`];
  const [, header] = /^Invalid character in header content \["(.*)"\]$/s.exec(message) ?? [];
  if (header !== undefined) return ["EINVAL", `net/http: invalid header field value for ${JSON.stringify(header)}`];
  if (code.startsWith("HPE_"))
    return ["ENOTHTTP", "net/http: HTTP/1.x transport connection broken: malformed HTTP response"];
  return undefined;
}
