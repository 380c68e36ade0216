import type { Http2Session } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Clock } from "../../../host/clock.ts";

export interface ConnectionLimits {
  /**
   * When one more connects, the oldest connection that no client has authenticated on is closed, one without a request
   * first; then the oldest without a request; without any of these the new one.
   */
  readonly maxConnections: number;
  /**
   * When one more connects, the oldest that no client has authenticated on is closed, as above. It limits what clients
   * without rights can make the parsers of HTTP keep.
   */
  readonly maxUnauthenticated: number;
  /** A connection is closed if its first request, with all headers, has not arrived after that time. */
  readonly firstRequestTimeoutMs: number;
  /** A connection without a request is closed that long after its last one. */
  readonly idleTimeoutMs: number;
}

/** Of the node's API. The idle time is the kubelet's, which knows none of the others. */
export const apiConnectionLimits: ConnectionLimits = {
  maxConnections: 2_048,
  maxUnauthenticated: 256,
  firstRequestTimeoutMs: 30_000,
  idleTimeoutMs: 90_000,
};

/** The open connections of a server. A timer runs only for those that have no request. */
export interface Connections {
  /** A client has connected; the TLS handshake may still come. */
  onConnection(socket: Socket): void;
  /** The connection speaks HTTP/2: from now on its session counts. */
  onHandshake(socket: TLSSocket): void;
  onSession(session: Http2Session): void;
  /**
   * A request has started on a connection, or on a session of HTTP/2. Returns the function that ends it. `abort` is called
   * if all connections are destroyed.
   */
  onRequest(channel: Channel, abort: () => void): () => void;
  /** A request on the connection has been authenticated. */
  onAuthenticated(channel: Channel): void;
  /** Ends every connection when it has no request left. A session of HTTP/2 takes no further request from now on. */
  drain(): void;
  /** Whether the connection is to end since the last `drain`. */
  isDraining(channel: Channel): boolean;
  destroyAll(): void;
}

/** In HTTP/2 the session has the connection to itself. */
export type Channel = Socket | Http2Session;

interface Connection {
  requests: number;
  isDraining: boolean;
  cancelTimeout: () => void;
}

/** As Go's servers: without it, a client that vanishes while it follows a log would keep its connection for ever. */
const KEEP_ALIVE_MS = 15_000;

export function createConnections(limits: ConnectionLimits, clock: Clock): Connections {
  const { maxConnections, maxUnauthenticated, firstRequestTimeoutMs, idleTimeoutMs } = limits;
  const open = new Map<Channel, Connection>();
  /** In the order of their connecting, as `open`. */
  const unauthenticated = new Set<Channel>();
  const aborts = new Set<() => void>();

  function track(channel: Channel): Connection {
    const known = open.get(channel);
    if (known !== undefined) return known;
    const connection: Connection = { requests: 0, isDraining: false, cancelTimeout: () => {} };
    open.set(channel, connection);
    unauthenticated.add(channel);
    channel.once("close", () => forget(channel));
    waitForRequest(channel, connection, firstRequestTimeoutMs);
    return connection;
  }

  function forget(channel: Channel): void {
    open.get(channel)?.cancelTimeout();
    open.delete(channel);
    unauthenticated.delete(channel);
  }

  function waitForRequest(channel: Channel, connection: Connection, timeoutMs: number): void {
    connection.cancelTimeout();
    connection.cancelTimeout = clock.wakeAt(clock.now() + timeoutMs, () => close(channel));
  }

  function firstIdle(channels: Iterable<Channel>): Channel | undefined {
    for (const channel of channels) if (open.get(channel)?.requests === 0) return channel;
    return undefined;
  }

  /** Closes a connection if there are too many for one more. False if none may be closed for it. */
  function makeRoom(): boolean {
    if (open.size < maxConnections && unauthenticated.size < maxUnauthenticated) return true;
    const [oldest] = unauthenticated;
    const closed = firstIdle(unauthenticated) ?? oldest ?? firstIdle(open.keys());
    if (closed === undefined) return false;
    forget(closed);
    closed.destroy();
    return true;
  }

  return {
    onConnection(socket) {
      // A session of HTTP/2 gives its connection no such option later.
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      if (makeRoom()) track(socket);
      else socket.destroy();
    },
    onHandshake(socket) {
      if (socket.alpnProtocol === "h2") forget(socket);
    },
    // It takes the place of its connection.
    onSession: track,
    onAuthenticated: (channel) => void unauthenticated.delete(channel),
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
        else waitForRequest(channel, connection, idleTimeoutMs);
      };
    },
    drain() {
      for (const [channel, connection] of [...open]) {
        connection.isDraining = true;
        if (connection.requests === 0 || isSession(channel)) close(channel);
      }
    },
    isDraining: (channel) => open.get(channel)?.isDraining === true,
    destroyAll() {
      for (const abort of [...aborts]) abort();
      for (const channel of [...open.keys()]) channel.destroy();
    },
  };
}

const isSession = (channel: Channel): channel is Http2Session => "settings" in channel;

/** A session of HTTP/2 says so to its client first (GOAWAY), and ends after its last request. */
function close(channel: Channel): void {
  if (isSession(channel)) channel.close();
  else channel.destroy();
}
