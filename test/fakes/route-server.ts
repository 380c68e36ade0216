import type { IncomingMessage, ServerResponse } from "node:http";
import { createSecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { ApiError } from "../../agent/serve/api/api-error.ts";
import type { ApiResponse, Route } from "../../agent/serve/api/route.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";

export interface RouteServer {
  readonly port: number;
  /** The connections that have been upgraded and are open. */
  openUpgrades(): number;
  /** Aborts every session, as a server that stops does. */
  abortAll(): void;
  close(): void;
}

/** Starts an HTTPS server on 127.0.0.1 that calls the routes without authentication. */
export async function startRouteServer(routes: readonly Route[]): Promise<RouteServer> {
  const { cert, key } = createCertificateAuthority("routes").issue({ commonName: "node", hosts: ["127.0.0.1"] });
  const server = createSecureServer({ cert, key, allowHTTP1: true });
  const upgraded = new Set<Duplex>();
  const stop = new AbortController();

  async function answer(incoming: IncomingMessage, write: (status: number, text: string) => void, upgrade?: Upgrade) {
    const { pathname, searchParams } = new URL(incoming.url ?? "", "https://node");
    const matches = routes.flatMap((route) => matchOf(route, incoming.method ?? "", pathname) ?? []);
    const [match] = matches;
    if (match === undefined) return write(404, "404 page not found");
    const abort = new AbortController();
    const socket = upgrade?.socket ?? incoming.socket;
    socket.once("close", () => abort.abort());
    const common = {
      ...{ method: incoming.method ?? "", path: pathname, params: match.params, query: searchParams },
      ...{ headers: incoming.headers, user: { username: "test", groups: [] } },
      signal: AbortSignal.any([abort.signal, stop.signal]),
    };
    try {
      if (upgrade === undefined || match.route.upgrade === undefined)
        await match.route.handle({ ...common, body: async () => Buffer.alloc(0) }, responseOf(write));
      else
        await match.route.upgrade({
          ...common,
          ...upgrade,
          rawHeaders: incoming.rawHeaders,
          protocol: incoming.headers.upgrade ?? "",
        });
    } catch (error) {
      if (error instanceof ApiError) write(error.status, error.message);
      else throw error;
    }
  }

  server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
    void answer(incoming, (status, text) => outgoing.writeHead(status).end(text));
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    upgraded.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => upgraded.delete(socket));
    const write = (status: number, text: string) =>
      void socket.end(
        `HTTP/1.1 ${status} Error\r\nContent-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      );
    void answer(incoming, write, { socket, head });
  });
  server.on("sessionError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    openUpgrades: () => upgraded.size,
    abortAll: () => stop.abort(),
    close() {
      stop.abort();
      for (const socket of upgraded) socket.destroy();
      server.close();
    },
  };
}

interface Upgrade {
  readonly socket: Duplex;
  readonly head: Buffer;
}

function matchOf(route: Route, method: string, path: string) {
  const [names, segments] = [route.pattern.split("/"), path.split("/").map(decodeURIComponent)];
  if (names.length !== segments.length) return undefined;
  if (route.methods !== "all" && !route.methods.includes(method)) return undefined;
  const params: Record<string, string> = {};
  for (const [index, name] of names.entries()) {
    const segment = segments[index] ?? "";
    if (name.startsWith("{")) params[name.slice(1, -1)] = segment;
    else if (name !== segment) return undefined;
  }
  return { route, params };
}

function responseOf(write: (status: number, text: string) => void): ApiResponse {
  let status = 200;
  return {
    start: (given) => {
      status = given;
    },
    write: async () => undefined,
    end: (chunk = "") => write(status, typeof chunk === "string" ? chunk : Buffer.from(chunk).toString()),
  };
}
