import type { Server } from "node:http";
import { createServer, type Socket } from "node:net";
import type { Log } from "../../../host/log/log.ts";
import { readPeerUid } from "../../../host/peer-credentials.ts";
import { listenOnRootSocket } from "./root-socket.ts";

/** A unix socket that passes connections on to a server. */
export interface OwnUserSocket {
  /** Closes the socket and all connections. */
  close(): Promise<void>;
}

/**
 * Listens on a unix socket that only root may open, and passes the connections of this process's own user on to `server`. It closes
 * and logs the connections of other users, who can connect if an administrator has changed the socket's mode. Rule: SO_PEERCRED
 * (decision 127). Rejects with `FilesError` if the socket cannot be created.
 */
export async function listenForOwnUser(
  path: string,
  server: Server,
  log: Pick<Log, "warn" | "error">,
): Promise<OwnUserSocket> {
  const connections = new Set<Socket>();
  const listener = createServer((socket) => {
    const uid = peerUidOf(socket);
    if (uid === undefined || uid !== process.geteuid?.()) {
      const whose = uid === undefined ? "whose user is unknown" : "of another user";
      log.warn({ socket: path, uid }, `refused a connection ${whose}`);
      socket.destroy();
      return;
    }
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
    server.emit("connection", socket);
  });
  await listenOnRootSocket(listener, path, (err) =>
    log.error({ err, socket: path }, "a connection to the socket was not accepted"),
  );
  return {
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        for (const socket of connections) socket.destroy();
      }),
  };
}

/** The user id of the peer. Node has no public way to the descriptor; without one the id is unknown, and the connection is refused. */
function peerUidOf(socket: Socket & { readonly _handle?: { readonly fd?: number } }): number | undefined {
  const descriptor = socket._handle?.fd;
  return descriptor === undefined || descriptor < 0 ? undefined : readPeerUid(descriptor);
}
