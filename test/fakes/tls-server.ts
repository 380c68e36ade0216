import type { SecureServerOptions } from "node:http2";
import {
  createSecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";

/** A request as the server has got it. */
export interface Received {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly stream: ServerHttp2Stream;
  readonly session: ServerHttp2Session;
  /** Which connection it came by, from 1. */
  readonly connection: number;
}

export interface TlsServer {
  readonly port: number;
  readonly received: readonly Received[];
  /** How many connections there have been. */
  connections(): number;
  /** Those that are open. */
  open(): readonly ServerHttp2Session[];
  close(): void;
}

/** An HTTP/2 server on 127.0.0.1 that answers as a test wants it to. */
export function createTlsServer(options: SecureServerOptions, answer: (request: Received) => void): Promise<TlsServer> {
  const server = createSecureServer(options);
  const received: Received[] = [];
  const sessions = new Map<ServerHttp2Session, number>();
  const open = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.set(session, sessions.size + 1);
    open.add(session);
    session.on("close", () => open.delete(session));
    session.on("error", () => {
      // Tests break connections on purpose; what the client makes of it is what they look at.
    });
  });
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => {
      // The same.
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("end", () => {
      const session = stream.session as ServerHttp2Session | undefined;
      if (session === undefined) return;
      const request: Received = {
        method: String(headers[":method"]),
        path: String(headers[":path"]),
        headers,
        body: Buffer.concat(chunks).toString(),
        stream,
        session,
        connection: sessions.get(session) ?? 0,
      };
      received.push(request);
      answer(request);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () =>
      resolve({
        port: (server.address() as AddressInfo).port,
        received,
        connections: () => sessions.size,
        open: () => [...open],
        close() {
          for (const session of open) session.destroy();
          server.close();
        },
      }),
    );
  });
}

/** Answers with JSON. */
export function reply({ stream }: Received, status: number, body: unknown, headers: Record<string, string> = {}): void {
  if (stream.destroyed) return;
  stream.respond({ ":status": status, "content-type": "application/json", ...headers });
  stream.end(body === undefined ? undefined : JSON.stringify(body));
}
