import { rm } from "node:fs/promises";
import {
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import { createConnection } from "node:net";

/** A unary call that passed through, with its messages. Times are in milliseconds since the epoch. */
export interface PassedCall {
  /** Such as `RunPodSandbox`. */
  readonly method: string;
  readonly from: number;
  readonly until: number;
  readonly request: Uint8Array;
  readonly response: Uint8Array;
}

/** A gRPC proxy in front of a runtime's socket, which notes when each call begins and ends. */
export interface RuntimeProxy {
  /** Its own socket, with the scheme. */
  readonly endpoint: string;
  /** All calls that have ended, in the order of their ends. */
  readonly calls: readonly PassedCall[];
  close(): Promise<void>;
}

/** The time with fractions of a millisecond. */
const now = () => performance.timeOrigin + performance.now();

/** Starts the proxy on a unix socket. It forwards every method, also streams, byte for byte. */
export async function startRuntimeProxy(endpoint: string, socketPath: string): Promise<RuntimeProxy> {
  const calls: PassedCall[] = [];
  const clients = new Set<ServerHttp2Session>();
  const runtime = connect("http://localhost", {
    createConnection: () => createConnection(endpoint.replace(/^unix:\/\//, "")),
  });
  const server = createServer();
  server.on("session", (session) => {
    clients.add(session);
    session.on("close", () => clients.delete(session));
    // Its streams close, too, and the agent connects again.
    session.on("error", () => undefined);
  });
  server.on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
    const from = now();
    const target = runtime.request(withoutConnection(headers));
    const request: Buffer[] = [];
    const response: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => {
      request.push(chunk);
      target.write(chunk);
    });
    stream.on("end", () => target.end());
    forwardResponse(target, stream, response);
    target.on("close", () => {
      const method = String(headers[":path"]).split("/").at(-1) ?? "";
      const messages = { request: messageIn(request), response: messageIn(response) };
      calls.push({ method, from, until: now(), ...messages });
    });
    // The agent gave the call up.
    stream.on("close", () => target.close(constants.NGHTTP2_CANCEL));
    stream.on("error", () => target.close(constants.NGHTTP2_CANCEL));
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(socketPath, resolve));
  return {
    endpoint: `unix://${socketPath}`,
    calls,
    async close() {
      for (const session of clients) session.destroy();
      runtime.destroy();
      await new Promise((resolve) => server.close(resolve));
      await rm(socketPath, { force: true });
    },
  };
}

/** Forwards the headers, the messages and the trailers, in which gRPC has its status. */
function forwardResponse(from: ClientHttp2Stream, to: ServerHttp2Stream, response: Buffer[]): void {
  let trailers: OutgoingHttpHeaders = {};
  from.on("response", (headers) => {
    if (to.destroyed) return;
    const { "grpc-status": status, "grpc-message": message, ...others } = withoutConnection(headers);
    // A call that fails at once has its status in the headers; in trailers it means the same.
    if (status !== undefined)
      trailers = { "grpc-status": status, ...(message !== undefined && { "grpc-message": message }) };
    to.respond(others, { waitForTrailers: true });
    to.on("wantTrailers", () => to.sendTrailers(trailers));
  });
  from.on("trailers", (headers) => {
    trailers = withoutConnection(headers);
  });
  from.on("data", (chunk: Buffer) => {
    response.push(chunk);
    if (!to.destroyed) to.write(chunk);
  });
  from.on("end", () => {
    if (!to.destroyed) to.end();
  });
  from.on("error", () => to.destroy(new Error("the runtime broke the call off")));
}

/** The first message of a body: a gRPC message follows a byte for compression and four for its length. */
function messageIn(chunks: readonly Buffer[]): Uint8Array {
  const body = Buffer.concat(chunks);
  return body.length < 5 ? body.subarray(0, 0) : body.subarray(5, 5 + body.readUInt32BE(1));
}

/** Removes what belongs to a single connection. */
function withoutConnection({ host: _, ...headers }: IncomingHttpHeaders): OutgoingHttpHeaders {
  return headers;
}
