import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect } from "node:net";
import { Reader, Writer } from "protobufjs/minimal";
import { onAbort, orAborted } from "../host/async/abort.ts";
import { grpcStatusCodes } from "../proto/grpc-status-codes.ts";
import { DialError, type DialOptions, withTimeout } from "./dial-error.ts";

/** The service to check, empty for the server as a whole, and the user agent. */
export interface HealthRequest {
  readonly service: string;
  readonly userAgent: string;
}

/** The delay before another connection attempt within the timeout, as in gRPC. */
const RETRY_MS = 1_000;

/**
 * Calls gRPC's health checking protocol without TLS on a new connection. Returns the number of the serving status.
 * Rejects with `DialError`: `ETIMEDOUT` if no connection can be established, else the name of the gRPC code:
 * `DEADLINE_EXCEEDED` if the server does not answer, or the code of its error, such as `UNIMPLEMENTED`.
 *
 * Implemented on HTTP/2 directly, because a closed `@grpc/grpc-js` client never closes its socket if the server has
 * accepted the connection and hangs: each probe of such a server would leak one.
 */
export async function checkGrpcHealth(
  host: string,
  port: number,
  healthRequest: HealthRequest,
  options: DialOptions,
): Promise<number> {
  return await withTimeout(options, async (limit) => {
    for (;;) {
      const status = await checkOnce(host, port, healthRequest, limit);
      if (status !== undefined) return status;
      await waitToRetry(limit);
    }
  });
}

/** One attempt. Undefined if no connection could be established, so that the caller retries. */
async function checkOnce(
  host: string,
  port: number,
  healthRequest: HealthRequest,
  limit: AbortSignal,
): Promise<number | undefined> {
  limit.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const socket = connect({ host, port });
  const session = connectHttp2(`http://${authority}`, { createConnection: () => socket });
  let isConnected = false;
  const onLost = () =>
    isConnected ? reject(new DialError("UNAVAILABLE", "error reading from server: EOF")) : resolve(undefined);
  const remove = onAbort(limit, () => {
    const { reason } = limit;
    const isLate = reason instanceof DialError && reason.code === "ETIMEDOUT";
    reject(isLate && isConnected ? new DialError("DEADLINE_EXCEEDED", "no answer in time") : reason);
  });
  for (const each of [socket, session]) each.on("error", onLost).once("close", onLost);
  session.once("remoteSettings", () => {
    isConnected = true;
    sendCheck(session, authority, healthRequest).then(resolve, reject);
  });
  try {
    return await promise;
  } finally {
    remove();
    session.destroy();
    // A session without any answer may leave its socket open.
    socket.destroy();
  }
}

function waitToRetry(limit: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, RETRY_MS);
  return orAborted(promise, limit).finally(() => clearTimeout(timer));
}

/** The limit for an answer, whose message is two bytes long. */
const MAX_ANSWER_BYTES = 10 * 1024;

/** The unary call over HTTP/2: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
function sendCheck(
  session: ClientHttp2Session,
  authority: string,
  { service, userAgent }: HealthRequest,
): Promise<number> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ":method": "POST",
      ":scheme": "http",
      ":authority": authority,
      ":path": CHECK_PATH,
      "content-type": "application/grpc",
      "user-agent": userAgent,
      te: "trailers",
    });
    let responseHeaders: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    let size = 0;
    stream.on("response", (headers) => {
      responseHeaders = { ...responseHeaders, ...headers };
    });
    stream.on("trailers", (trailers) => {
      responseHeaders = { ...responseHeaders, ...trailers };
    });
    stream.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_ANSWER_BYTES) return reject(new DialError("RESOURCE_EXHAUSTED", "the answer is too large"));
      chunks.push(chunk);
    });
    stream.on("error", (error: Error) => reject(new DialError("UNAVAILABLE", error.message, { cause: error })));
    stream.once("close", () => {
      try {
        resolve(servingStatusOf(responseHeaders, Buffer.concat(chunks)));
      } catch (error) {
        reject(error);
      }
    });
    stream.end(frameMessage(encodeHealthCheckRequest(service)));
  });
}

/** gRPC's mapping of HTTP statuses without a grpc-status; any other is UNKNOWN. */
const grpcCodesOfHttp: Readonly<Record<number, string>> = {
  400: "INTERNAL",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "UNIMPLEMENTED",
  429: "UNAVAILABLE",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "UNAVAILABLE",
};

/** Reads the serving status. Throws `DialError` for an error answer. */
function servingStatusOf(responseHeaders: IncomingHttpHeaders, body: Buffer): number {
  const { "grpc-status": code, "grpc-message": message = "" } = responseHeaders;
  const http = Number(responseHeaders[":status"]);
  if (Number.isNaN(http)) throw new DialError("UNAVAILABLE", "error reading from server: EOF");
  if (code === undefined && http !== 200)
    throw new DialError(
      grpcCodesOfHttp[http] ?? "UNKNOWN",
      `unexpected HTTP status code received from server: ${http}`,
    );
  if (code === undefined) throw new DialError("INTERNAL", "the server has closed the stream without a status");
  if (code !== "0") throw new DialError(grpcStatusCodes[Number(code)] ?? "UNKNOWN", decodeMessage(String(message)));
  const length = body.length < FRAME_HEAD_BYTES ? 0 : body.readUInt32BE(1);
  if (body.length < FRAME_HEAD_BYTES + length) throw new DialError("INTERNAL", "the server's answer is cut off");
  try {
    return decodeHealthCheckResponse(body.subarray(FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + length));
  } catch (error) {
    throw new DialError("INTERNAL", "the server's answer cannot be read", { cause: error });
  }
}

/** grpc-message is percent-encoded; a message that is not is returned unchanged. */
function decodeMessage(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    // The server has not encoded it.
    return message;
  }
}

/** The compression flag and the length of the message. */
const FRAME_HEAD_BYTES = 5;

function frameMessage(message: Uint8Array): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/*
 * The two messages of gRPC's health checking protocol, with one field each.
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */

const CHECK_PATH = "/grpc.health.v1.Health/Check";

/** The names of `ServingStatus`, by number. */
export const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;

/** `HealthCheckRequest`: the service; empty for the server as a whole. */
function encodeHealthCheckRequest(service: string): Uint8Array {
  const writer = Writer.create();
  if (service !== "") writer.uint32(10).string(service);
  return writer.finish();
}

/** `HealthCheckResponse`: its status as a number; 0 if absent. Throws for bytes that are not a message. */
function decodeHealthCheckResponse(bytes: Uint8Array): number {
  const reader = Reader.create(bytes);
  let status = 0;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag >>> 3 === 1) status = reader.int32();
    else reader.skipType(tag & 7);
  }
  return status;
}
