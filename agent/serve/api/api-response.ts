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
  const write = createWrite(response, isHead);
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
      await write(chunk);
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

/** What carries an answer: a response of HTTP/1.1 or HTTP/2, or a connection. */
interface Carrier extends Pick<NodeJS.EventEmitter, "once" | "off"> {
  readonly destroyed: boolean;
  readonly writableEnded: boolean;
  write(chunk: Uint8Array | string): boolean;
}

/**
 * Writes to a carrier, nothing in answer to a HEAD. Resolves when it takes more, rejects when it has closed. In Bun a
 * response of HTTP/2 has no `destroyed`, and after "close" a write returns false and no event follows.
 */
function createWrite(carrier: Carrier, isHead: boolean): (chunk: Uint8Array | string) => Promise<void> {
  let isClosed = false;
  carrier.once("close", () => {
    isClosed = true;
  });
  return async (chunk) => {
    if (isClosed || carrier.destroyed || carrier.writableEnded) throw gone();
    if (!isHead && !carrier.write(chunk)) await drained(carrier);
  };
}

/** Resolves when the stream takes more. Rejects when it has closed. */
function drained(stream: Carrier): Promise<void> {
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
  const write = createWrite(socket, isHead);
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
      await write(chunk);
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

/** No browser may guess another type than the one that the answer has. */
export const NO_SNIFF = { "x-content-type-options": "nosniff" } as const;

/** Answers as Go's `http.Error`: with a line break, and a type that no browser may guess again. */
export function sendGoError(
  response: ApiResponse,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendText(response, status, `${text}\n`, { ...headers, ...NO_SNIFF });
}

/** Answers with the status, the text and the headers of an error. */
export function sendApiError(response: ApiResponse, error: ApiError): void {
  sendText(response, error.status, error.message, error.headers);
}

/** Answers without a body, which has no type. */
export function sendEmpty(response: ApiResponse, status: number, headers: Readonly<Record<string, string>>): void {
  response.start(status, { ...headers, "content-length": "0" });
  response.end();
}

export const JSON_TYPE = "application/json";

/** Answers with a value as JSON. */
export function sendJson(response: ApiResponse, value: unknown): void {
  sendText(response, 200, JSON.stringify(value), { "content-type": JSON_TYPE });
}
