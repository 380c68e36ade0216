import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { onAbort } from "../../../host/async/abort.ts";
import type { Clock } from "../../../host/clock.ts";
import { proxyError } from "./runtime-error.ts";

/** A request for another protocol, to the runtime's streaming server. */
export interface BackendRequest {
  /** The URL that the runtime has returned for the session. */
  readonly url: string;
  readonly method: string;
  /** Names and values in turn, without `Host`. */
  readonly rawHeaders: readonly string[];
}

/** The answer of the streaming server. */
export interface BackendAnswer {
  readonly status: number;
  /** The text behind the status. */
  readonly reason: string;
  /** By names in lower case; of several headers with one name the last. */
  readonly headers: Readonly<Record<string, string>>;
  /** The status line and the headers as received, with the empty line. */
  readonly head: Buffer;
  /** What the server sent behind its headers. */
  readonly rest: Buffer;
  /** Paused. The caller owns it. */
  readonly socket: Socket;
}

export interface BackendDeps {
  readonly clock: Clock;
  /** Closes the connection while it waits for the answer. */
  readonly signal: AbortSignal;
}

/** The server of a runtime answers at once, or hangs. */
const ANSWER_TIMEOUT_MS = 30_000;
/** A session may be silent for hours: the kernel finds out whether the server is still there. */
const KEEP_ALIVE_MS = 15_000;
const MAX_HEAD_BYTES = 65_536;

/**
 * Connects to the host and port of the URL and to no other, sends the request and reads the head of the answer, whatever
 * its status. Throws `ApiError` 500, with the kubelet's text where it has one, if there is no such answer.
 */
export async function requestBackend(request: BackendRequest, deps: BackendDeps): Promise<BackendAnswer> {
  const url = parseRuntimeUrl(request.url);
  const socket = await dial(url, deps);
  socket.write(requestHead(request, url));
  return await readAnswer(socket, deps);
}

/** Kubernetes takes a URL without a scheme as one of HTTP. Does not put the URL into the message: its token is a credential. */
function parseRuntimeUrl(text: string): URL {
  const url = URL.parse(text.includes("://") ? text : `http://${text.replace(/^\/\//, "")}`);
  if (url === null || !(url.protocol === "http:" || url.protocol === "https:") || url.hostname === "")
    throw proxyError("the container runtime has answered with an invalid URL of its streaming server");
  return url;
}

function dial(url: URL, { clock, signal }: BackendDeps): Promise<Socket> {
  const isTls = url.protocol === "https:";
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  const port = Number(url.port) || (isTls ? 443 : 80);
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = isTls ? connectTls({ host, port, servername: host }) : connect({ host, port, allowHalfOpen: true });
  const fail = (reason: string, cause?: unknown) => {
    socket.destroy();
    const address = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    reject(proxyError(`error dialing backend: dial tcp ${address}: ${reason}`, { cause }));
  };
  const cancelTimer = clock.wakeAt(clock.now() + ANSWER_TIMEOUT_MS, () => fail("i/o timeout"));
  const remove = onAbort(signal, () => fail("operation was canceled"));
  socket.on("error", (error) => fail(goReason(error), error));
  socket.once(isTls ? "secureConnect" : "connect", () => {
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    resolve(socket);
  });
  return promise.finally(() => {
    cancelTimer();
    remove();
  });
}

/** The reason of a failed connection, in the words of Go's library. */
function goReason(error: Error): string {
  const reasons: Readonly<Record<string, string>> = {
    ECONNREFUSED: "connect: connection refused",
    ECONNRESET: "connect: connection reset by peer",
    EHOSTUNREACH: "connect: no route to host",
    ENETUNREACH: "connect: network is unreachable",
    ETIMEDOUT: "i/o timeout",
  };
  return reasons["code" in error ? String(error.code) : ""] ?? error.message;
}

function requestHead({ method, rawHeaders }: BackendRequest, url: URL): string {
  const lines = [`${method} ${url.pathname}${url.search} HTTP/1.1`, `Host: ${url.host}`];
  for (let index = 0; index + 1 < rawHeaders.length; index += 2)
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

/**
 * Reads the status line and the headers of an answer from a connection, and pauses it. Throws `ApiError` 500 for another
 * answer, for one that takes too long, or if the connection ends.
 */
export function readAnswer(socket: Socket, { clock, signal }: BackendDeps): Promise<BackendAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<BackendAnswer>();
  let received = Buffer.alloc(0);
  const fail = (message: string) => {
    socket.destroy();
    reject(proxyError(message));
  };
  const onData = (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    const end = received.indexOf("\r\n\r\n");
    if (end < 0 && received.length > MAX_HEAD_BYTES) fail("the answer of the streaming server has no end of headers");
    if (end < 0) return;
    socket.pause();
    const head = parseHead(received.subarray(0, end).toString("latin1"));
    if (head === undefined) return fail("malformed HTTP response");
    resolve({ ...head, head: received.subarray(0, end + 4), rest: received.subarray(end + 4), socket });
  };
  const onClose = () => fail("unexpected EOF");
  const cancelTimer = clock.wakeAt(clock.now() + ANSWER_TIMEOUT_MS, () =>
    fail(`no answer of the streaming server within ${ANSWER_TIMEOUT_MS / 1000} s`),
  );
  const remove = onAbort(signal, () => fail("the client has gone away"));
  socket.on("data", onData);
  socket.on("end", onClose);
  socket.on("close", onClose);
  return promise.finally(() => {
    cancelTimer();
    remove();
    socket.off("data", onData);
    socket.off("end", onClose);
    socket.off("close", onClose);
  });
}

function parseHead(text: string): Pick<BackendAnswer, "status" | "reason" | "headers"> | undefined {
  const [statusLine = "", ...lines] = text.split("\r\n");
  const [, status, reason = ""] = /^HTTP\/1\.[01] (\d{3})(?: (.*))?$/.exec(statusLine) ?? [];
  if (status === undefined) return undefined;
  const pairs = lines.map((line) => {
    const [, name = "", value = ""] = /^([^:]*):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
    return [name.toLowerCase(), value] as const;
  });
  return { status: Number(status), reason, headers: Object.fromEntries(pairs) };
}
