import type { SecureServerOptions } from "node:http2";
import {
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";

/** A request as the server received it. */
export interface ReceivedRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  /** The number of its connection, from 1. */
  readonly connection: number;
}

export interface TlsServer {
  readonly port: number;
  readonly received: readonly ReceivedRequest[];
  /** The number of connections so far, closed ones included. */
  connectionCount(): number;
  /** The open sessions. */
  openSessions(): readonly ServerHttp2Session[];
  close(): void;
}

/** Starts an HTTP/2 server with TLS on 127.0.0.1 that answers with the function of a test. */
export function createTlsServer(
  options: SecureServerOptions,
  respond: (request: ReceivedRequest) => void,
): Promise<TlsServer> {
  const server = createSecureServer(options);
  const received: ReceivedRequest[] = [];
  const sessions = new Map<ServerHttp2Session, number>();
  const open = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.set(session, sessions.size + 1);
    open.add(session);
    session.on("close", () => open.delete(session));
    session.on("error", () => {
      // Tests break connections on purpose and check how the client reacts.
    });
  });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => {
      // Tests break streams on purpose, too.
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      const session = stream.session as ServerHttp2Session | undefined;
      if (session === undefined) return;
      const request: ReceivedRequest = {
        method: String(headers[":method"]),
        path: String(headers[":path"]),
        headers,
        body: Buffer.concat(chunks).toString(),
        stream,
        session,
        connection: sessions.get(session) ?? 0,
      };
      received.push(request);
      respond(request);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        received,
        connectionCount: () => sessions.size,
        openSessions: () => [...open],
        close() {
          for (const session of open) session.destroy();
          server.close();
        },
      }),
    );
  });
}

/** Answers a request with JSON; undefined is an empty body. */
export function reply(
  { stream }: ReceivedRequest,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  if (stream.destroyed) return;
  stream.respond({ ":status": status, "content-type": "application/json", ...headers });
  stream.end(body === undefined ? undefined : JSON.stringify(body));
}
