import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { connect } from "node:net";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { statusCodes } from "../proto/grpc-status-codes.ts";
import { DialError, type DialOptions, within } from "./http.ts";

/** What is asked: of which service, empty for the server as a whole, and who asks. */
export interface HealthQuestion {
  readonly service: string;
  readonly userAgent: string;
}

/** Whoever refuses a connection now may take it before the time is over; gRPC's own delay before the next attempt. */
const RETRY_MS = 1_000;

/**
 * Asks a server by gRPC's health checking protocol, without TLS, on a connection of its own. Returns the number of its serving status.
 * Rejects with `DialError`: `ETIMEDOUT` where nobody can be connected to, and the name of the gRPC code for a server that does not answer
 * (`DEADLINE_EXCEEDED`), or whose answer is an error (`UNIMPLEMENTED`).
 *
 * By hand on HTTP/2, since a client of `@grpc/grpc-js` that is closed while a server has taken its connection and says nothing, as one that
 * hangs does, never closes the socket: one for each probe.
 */
export async function checkGrpcHealth(
  host: string,
  port: number,
  question: HealthQuestion,
  options: DialOptions,
): Promise<number> {
  return await within(options, async (limit) => {
    for (;;) {
      const status = await askOnce(host, port, question, limit);
      if (status !== undefined) return status;
      await waitToRetry(limit);
    }
  });
}

/** Undefined where no connection came about: another attempt may fare better. */
async function askOnce(
  host: string,
  port: number,
  question: HealthQuestion,
  limit: AbortSignal,
): Promise<number | undefined> {
  limit.throwIfAborted();
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const authority = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const socket = connect({ host, port });
  const session = connectHttp2(`http://${authority}`, { createConnection: () => socket });
  let isConnected = false;
  const lost = () =>
    isConnected ? reject(new DialError("UNAVAILABLE", "error reading from server: EOF")) : resolve(undefined);
  const late = () => {
    const { reason } = limit;
    const isLate = reason instanceof DialError && reason.code === "ETIMEDOUT";
    reject(isLate && isConnected ? new DialError("DEADLINE_EXCEEDED", "no answer in time") : reason);
  };
  limit.addEventListener("abort", late, { once: true });
  for (const each of [socket, session]) each.on("error", lost).once("close", lost);
  session.once("remoteSettings", () => {
    isConnected = true;
    call(session, authority, question).then(resolve, reject);
  });
  try {
    return await promise;
  } finally {
    limit.removeEventListener("abort", late);
    session.destroy();
    // A session that was never answered may leave it open.
    socket.destroy();
  }
}

function waitToRetry(limit: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      limit.removeEventListener("abort", late);
      resolve();
    }, RETRY_MS);
    const late = () => {
      clearTimeout(timer);
      reject(limit.reason);
    };
    if (limit.aborted) late();
    else limit.addEventListener("abort", late, { once: true });
  });
}

/** As much as is read of an answer, whose message is two bytes long. */
const LARGEST_ANSWER_BYTES = 10 * 1024;

/** The one call, as gRPC does it over HTTP/2: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */
function call(session: ClientHttp2Session, authority: string, { service, userAgent }: HealthQuestion): Promise<number> {
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
    let told: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    let size = 0;
    stream.on("response", (headers) => {
      told = { ...told, ...headers };
    });
    stream.on("trailers", (trailers) => {
      told = { ...told, ...trailers };
    });
    stream.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > LARGEST_ANSWER_BYTES) return reject(new DialError("RESOURCE_EXHAUSTED", "the answer is too large"));
      chunks.push(chunk);
    });
    stream.on("error", (error: Error) => reject(new DialError("UNAVAILABLE", error.message, { cause: error })));
    stream.once("close", () => {
      try {
        resolve(statusOf(told, Buffer.concat(chunks)));
      } catch (error) {
        reject(error);
      }
    });
    stream.end(frame(encodeHealthCheckRequest(service)));
  });
}

/** What is said of a status of HTTP that is none of gRPC's; any other is unknown. */
const codesOfHttp: Readonly<Record<number, string>> = {
  400: "INTERNAL",
  401: "UNAUTHENTICATED",
  403: "PERMISSION_DENIED",
  404: "UNIMPLEMENTED",
  429: "UNAVAILABLE",
  502: "UNAVAILABLE",
  503: "UNAVAILABLE",
  504: "UNAVAILABLE",
};

/** Throws `DialError` for an answer that is an error. */
function statusOf(told: IncomingHttpHeaders, body: Buffer): number {
  const { "grpc-status": code, "grpc-message": message = "" } = told;
  const http = Number(told[":status"]);
  if (Number.isNaN(http)) throw new DialError("UNAVAILABLE", "error reading from server: EOF");
  if (code === undefined && http !== 200)
    throw new DialError(codesOfHttp[http] ?? "UNKNOWN", `unexpected HTTP status code received from server: ${http}`);
  if (code === undefined) throw new DialError("INTERNAL", "the server has closed the stream without a status");
  if (code !== "0") throw new DialError(statusCodes[Number(code)] ?? "UNKNOWN", readable(String(message)));
  const length = body.length < FRAME_HEAD_BYTES ? 0 : body.readUInt32BE(1);
  if (body.length < FRAME_HEAD_BYTES + length) throw new DialError("INTERNAL", "the server's answer is cut off");
  try {
    return decodeHealthCheckResponse(body.subarray(FRAME_HEAD_BYTES, FRAME_HEAD_BYTES + length));
  } catch (error) {
    throw new DialError("INTERNAL", "the server's answer cannot be read", { cause: error });
  }
}

/** A message goes percent-encoded; what is not, is taken as it is. */
function readable(message: string): string {
  try {
    return decodeURIComponent(message);
  } catch {
    // Whoever has written it has not encoded it.
    return message;
  }
}

/** Whether it is compressed, and its length. */
const FRAME_HEAD_BYTES = 5;

function frame(message: Uint8Array): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/*
 * The two messages of gRPC's health checking protocol, of one field each.
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */

const CHECK_PATH = "/grpc.health.v1.Health/Check";

/** The names of `ServingStatus`, by number. */
export const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;

/** `HealthCheckRequest`: the service asked about; empty for the server as a whole. */
function encodeHealthCheckRequest(service: string): Uint8Array {
  const writer = new BinaryWriter();
  if (service !== "") writer.uint32(10).string(service);
  return writer.finish();
}

/** `HealthCheckResponse`: its status as a number; 0 where it is not said. Throws for bytes that are no message. */
function decodeHealthCheckResponse(bytes: Uint8Array): number {
  const reader = new BinaryReader(bytes);
  let status = 0;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag >>> 3 === 1) status = reader.int32();
    else reader.skip(tag & 7);
  }
  return status;
}
