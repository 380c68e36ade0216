import { createServer, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import { ApiError } from "../api/api-error.ts";
import type { Route } from "../api/route.ts";
import type { FindPod } from "../streaming/running-pod.ts";
import { defaultContainerOf } from "./default-container.ts";
import { listenOnRootSocket } from "./root-socket.ts";

export interface ExecServerOptions {
  /** The path of the socket. */
  readonly path: string;
  readonly findPod: FindPod;
  /** Why there is no such pod. */
  readonly whyUnknown: (namespace: string, pod: string) => string;
  /** The exec endpoint of the node's API. */
  readonly exec: NonNullable<Route["upgrade"]>;
  readonly log: Log;
}

export interface ExecServer {
  stop(): Promise<void>;
}

/**
 * Serves `berth exec` on a unix socket that only root may open: `POST /exec/NAMESPACE/POD` with the query of the node's API
 * and a request for SPDY/3.1. Without a container it takes the pod's default one. A socket of its own, because sessions
 * need the connection itself, which the server of `berth pods` does not give away. Rejects with `FilesError` if the socket cannot be
 * created.
 */
export async function serveExec(options: ExecServerOptions): Promise<ExecServer> {
  const { path, log } = options;
  const stopped = new AbortController();
  const server = createServer((_request, response) => response.writeHead(404).end("not found\n"));
  server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => {
      // "close" follows, and ends the session.
    });
    startSession(options, request, { socket, head, stopped: stopped.signal }).catch((error: unknown) => {
      if (error instanceof ApiError) return refuse(socket, error);
      log.error({ err: error }, "a session of berth exec has failed");
      refuse(socket, { status: 500, message: messageOf(error) });
    });
  });
  await listenOnRootSocket(server, path, (err) =>
    log.error({ err, socket: path }, "a connection to the socket was not accepted"),
  );
  return {
    stop: () =>
      new Promise((resolve) => {
        stopped.abort();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

interface Connection {
  readonly socket: Duplex;
  readonly head: Buffer;
  readonly stopped: AbortSignal;
}

/** Resolves when the session has ended. Rejects, with `ApiError` for a request that is refused, before it writes. */
async function startSession(
  { findPod, whyUnknown, exec }: ExecServerOptions,
  request: IncomingMessage,
  { socket, head, stopped }: Connection,
): Promise<void> {
  const closed = new AbortController();
  socket.once("close", () => closed.abort());
  const { method = "", url = "", headers, rawHeaders } = request;
  const target = URL.parse(url, "http://berth");
  if (target === null) throw new ApiError(400, `the target "${url}" is not a path`);
  const { pathname, searchParams: query } = target;
  const [, namespace = "", pod = ""] = /^\/exec\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
  const found = findPod(namespace, pod);
  if (found === undefined) throw new ApiError(404, whyUnknown(namespace, pod));
  const container = query.get("container") || defaultContainerOf(found);
  await exec({
    ...{ method, path: pathname, params: { namespace, pod, container }, query, headers, rawHeaders },
    ...{ user: ROOT, protocol: headers.upgrade ?? "", socket, head },
    signal: AbortSignal.any([closed.signal, stopped]),
  });
}

const ROOT = { username: "root", groups: [] };

function refuse(socket: Duplex, { status, message }: Pick<ApiError, "status" | "message">): void {
  const length = Buffer.byteLength(message);
  socket.end(`HTTP/1.1 ${status} Refused\r\nContent-Length: ${length}\r\nConnection: close\r\n\r\n${message}`);
}
