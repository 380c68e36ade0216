import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../../host/clock.ts";

export interface ConnectionLimits {
  /** More connections than that are closed at once. */
  readonly maxConnections: number;
  /** A connection without a request is closed after that time, also one that is slow to send its first request. */
  readonly idleTimeoutMs: number;
}

/** The open connections of a server. A timer runs only for those that have no request. */
export interface Connections {
  onConnection(socket: Socket): void;
  onSession(session: Http2Session): void;
  /**
   * A request has started on a connection, or on a session of HTTP/2. Returns the function that ends it. `abort` is called
   * if all connections are destroyed.
   */
  onRequest(channel: Channel, abort: () => void): () => void;
  /** Ends every connection when it has no request left. */
  drain(): void;
  destroyAll(): void;
}

/** In HTTP/2 the session has the connection to itself. */
export type Channel = Socket | Http2Session;

interface Connection {
  requests: number;
  isDraining: boolean;
  cancelTimeout: () => void;
}

export function createConnections({ maxConnections, idleTimeoutMs }: ConnectionLimits, clock: Clock): Connections {
  const open = new Map<Channel, Connection>();
  const aborts = new Set<() => void>();

  function track(channel: Channel): Connection {
    const known = open.get(channel);
    if (known !== undefined) return known;
    const connection: Connection = { requests: 0, isDraining: false, cancelTimeout: () => {} };
    open.set(channel, connection);
    channel.once("close", () => {
      connection.cancelTimeout();
      open.delete(channel);
    });
    waitForRequest(channel, connection);
    return connection;
  }

  function waitForRequest(channel: Channel, connection: Connection): void {
    connection.cancelTimeout();
    connection.cancelTimeout = clock.wakeAt(clock.now() + idleTimeoutMs, () => close(channel));
  }

  function admit(channel: Channel): void {
    if (open.size >= maxConnections) channel.destroy();
    else track(channel);
  }

  return {
    onConnection(socket) {
      if (!("alpnProtocol" in socket) || socket.alpnProtocol !== "h2") admit(socket);
    },
    onSession: admit,
    onRequest(channel, abort) {
      const connection = track(channel);
      connection.requests++;
      connection.cancelTimeout();
      aborts.add(abort);
      return () => {
        aborts.delete(abort);
        connection.requests--;
        if (connection.requests > 0 || !open.has(channel)) return;
        if (connection.isDraining) close(channel);
        else waitForRequest(channel, connection);
      };
    },
    drain() {
      for (const [channel, connection] of [...open]) {
        connection.isDraining = true;
        if (connection.requests === 0) close(channel);
      }
    },
    destroyAll() {
      for (const abort of [...aborts]) abort();
      for (const channel of [...open.keys()]) channel.destroy();
    },
  };
}

/** A session of HTTP/2 tells its client first. */
function close(channel: Channel): void {
  if ("settings" in channel) channel.close();
  else channel.destroy();
}
