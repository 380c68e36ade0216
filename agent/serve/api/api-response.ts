import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { ApiError } from "./api-error.ts";
import type { ApiResponse } from "./route.ts";

/** An answer, and how far it has come. */
export interface TrackedResponse extends ApiResponse {
  readonly isStarted: () => boolean;
  readonly isEnded: () => boolean;
  /** Resets the stream or the connection, so that the client sees that a part is missing. */
  abort(): void;
}

const PLAIN_TEXT = "text/plain; charset=utf-8";
/** The client has gone away while it was answered. */
const gone = () => new Error("the client has closed its connection");

/**
 * The answer on an HTTP/1.1 connection or an HTTP/2 stream, whose responses have the same methods. `isHead`: the answer has
 * no body. `abort` resets the connection or the stream.
 */
export function createResponse(response: ServerResponse, isHead: boolean, abort: () => void): TrackedResponse {
  let [isStarted, isEnded] = [false, false];
  function start(status: number, headers: Readonly<Record<string, string>> = {}): void {
    isStarted = true;
    response.writeHead(status, headers);
  }
  return {
    isStarted: () => isStarted,
    isEnded: () => isEnded,
    start,
    async write(chunk) {
      if (!isStarted) start(200);
      if (response.destroyed || response.writableEnded) throw gone();
      if (isHead) return;
      if (!response.write(chunk)) await drained(response);
    },
    end(chunk) {
      if (!isStarted) start(200);
      isEnded = true;
      if (chunk === undefined || isHead) response.end();
      else response.end(chunk);
    },
    abort,
  };
}

/** Resolves when the stream takes more. Rejects when it has closed. */
function drained(stream: Pick<NodeJS.EventEmitter, "once" | "off">): Promise<void> {
  return new Promise((resolve, reject) => {
    const onDrain = () => {
      stream.off("close", onClose);
      resolve();
    };
    const onClose = () => {
      stream.off("drain", onDrain);
      reject(gone());
    };
    stream.once("drain", onDrain);
    stream.once("close", onClose);
  });
}

/**
 * The answer to a request for an upgrade that is not upgraded. It is written to the connection itself, which ends with it,
 * since the bytes that follow may belong to the other protocol.
 */
export function createUpgradeResponse(socket: Duplex, isHead: boolean): TrackedResponse {
  let [isStarted, isEnded] = [false, false];
  function start(status: number, headers: Readonly<Record<string, string>> = {}): void {
    isStarted = true;
    const lines = Object.entries({ ...headers, connection: "close" }).map(([name, value]) => `${name}: ${value}`);
    socket.write(`${[`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`, ...lines].join("\r\n")}\r\n\r\n`);
  }
  return {
    isStarted: () => isStarted,
    isEnded: () => isEnded,
    start,
    async write(chunk) {
      if (!isStarted) start(200);
      if (socket.destroyed || socket.writableEnded) throw gone();
      if (!isHead && !socket.write(chunk)) await drained(socket);
    },
    end(chunk) {
      if (!isStarted) start(200);
      isEnded = true;
      // The socket is destroyed after its last byte: what the client goes on to send is not read.
      const close = () => socket.destroy();
      if (chunk === undefined || isHead) socket.end(close);
      else socket.end(chunk, close);
    },
    abort: () => void socket.destroy(),
  };
}

/** Answers with a text, as Go does for one without a type. */
export function sendText(
  response: ApiResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const length = String(Buffer.byteLength(text));
  response.start(status, { "content-type": PLAIN_TEXT, "content-length": length, ...headers });
  response.end(text);
}

/** Answers as Go's `http.Error`: with a line break, and a type that no browser may guess again. */
export function sendGoError(response: ApiResponse, status: number, text: string): void {
  sendText(response, status, `${text}\n`, { "x-content-type-options": "nosniff" });
}

/** Answers with the status and the text of an error. */
export function sendApiError(response: ApiResponse, error: ApiError): void {
  sendText(response, error.status, error.message);
}

/** Answers with a value as JSON. */
export function sendJson(response: ApiResponse, value: unknown): void {
  sendText(response, 200, JSON.stringify(value), { "content-type": "application/json" });
}
