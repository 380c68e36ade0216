import type { IncomingMessage, ServerResponse } from "node:http";
import http2, { type Http2ServerRequest, type Http2Session } from "node:http2";
import type { Duplex } from "node:stream";
import type { SecureContextOptions, TLSSocket } from "node:tls";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import { limitRest, withWriteTimeout } from "./answer-timeouts.ts";
import { createResponse, createUpgradeResponse, type TrackedResponse } from "./api-response.ts";
import { createAdmitRequest } from "./auth/admit-request.ts";
import type { Authenticator } from "./auth/authenticator.ts";
import type { Authorizer } from "./auth/authorizer.ts";
import { type Channel, type ConnectionLimits, type Connections, createConnections } from "./connections.ts";
import { listenOn } from "./listen.ts";
import { readBody } from "./request-body.ts";
import { dispatchRequest, type ReceivedRequest, type RequestDispatchDeps } from "./request-dispatch.ts";
import type { Route } from "./route.ts";
import { createRouteTable } from "./route-table.ts";

export interface ApiServerOptions {
  readonly routes: readonly Route[];
  readonly authenticator: Authenticator;
  readonly authorizer: Authorizer;
  readonly tls: TlsSettings;
  readonly limits: ConnectionLimits;
  /** Called with each request; its result when the request has been answered. */
  readonly onRequest?: (method: string, target: string) => () => void;
  readonly clock: Clock;
  readonly log: Log;
}

/** How connections are secured: the serving certificate, its key, the client CA, versions and ciphers. */
export interface TlsSettings
  extends Pick<
    SecureContextOptions,
    "cert" | "key" | "ca" | "minVersion" | "maxVersion" | "ciphers" | "ecdhCurve" | "honorCipherOrder"
  > {}

/** The HTTPS server of the node's API: HTTP/1.1 and HTTP/2 on one port. */
export interface ApiServer {
  /** Resolves with the port. Rejects if the address cannot be listened on. */
  listen(port: number, address: string): Promise<number>;
  /** Uses other certificates for new connections. Throws for a certificate or key that cannot be used, and keeps the old ones. */
  setTls(tls: TlsSettings): void;
  /** Ends connections once they have answered their requests: their clients authenticate again. */
  drainConnections(): void;
  /** Ends all connections and requests. */
  stop(): Promise<void>;
}

/** Requests and responses of both versions of HTTP have these in common. */
type Incoming = IncomingMessage | Http2ServerRequest;

/**
 * The command of an exec is part of its URL. The kubelet accepts four times as much, memory that a client without
 * rights could use up.
 */
const MAX_HEADER_BYTES = 256 << 10;
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** The limit of Go's server. */
const MAX_STREAMS_PER_CONNECTION = 250;

/** Node's types have these only for the servers that this one is composed of. */
const PARSER_LIMITS = { maxHeaderSize: MAX_HEADER_BYTES, handshakeTimeout: HANDSHAKE_TIMEOUT_MS };

/** Throws for a certificate or a key that cannot be used. */
export function createApiServer(options: ApiServerOptions): ApiServer {
  const { routes, authenticator, authorizer, tls, clock, log, limits, onRequest } = options;
  const admit = createAdmitRequest(authenticator, authorizer, log);
  const deps = { routes: createRouteTable(routes), admit, log, ...(onRequest && { onRequest }) };
  const connections = createConnections(limits, clock);
  const server = http2.createSecureServer({
    ...tls,
    ...PARSER_LIMITS,
    allowHTTP1: true,
    requestCert: tls.ca !== undefined,
    // A client without a certificate, or with one that is not trusted, may still have a token.
    rejectUnauthorized: false,
    settings: { maxConcurrentStreams: MAX_STREAMS_PER_CONNECTION, maxHeaderListSize: MAX_HEADER_BYTES },
  });

  const serve = (
    incoming: Incoming,
    response: TrackedResponse,
    upgrade: ReceivedRequest["upgrade"],
    ended: Ended,
  ): void => {
    serveRequest({ ...deps, connections, clock }, incoming, response, upgrade, ended).catch((err: unknown) => {
      // A session that is gone when its request arrives has no connection any more.
      log.debug({ err }, "a request to the node's API has ended before it was read");
      response.abort();
    });
  };

  server.on("request", (incoming: Incoming, outgoing: ServerResponse) => {
    outgoing.on("error", ignoreBroken);
    // An error resets a stream of HTTP/2; without one it would end like a whole answer.
    const abort = () => outgoing.destroy(new Error("the answer has failed"));
    const response = createResponse(outgoing, incoming.method === "HEAD", abort);
    serve(incoming, response, undefined, onClosed(outgoing));
  });
  server.on("upgrade", (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", ignoreBroken);
    const response = createUpgradeResponse(socket, incoming.method === "HEAD");
    const protocol = incoming.headers.upgrade ?? "";
    const upgrade = { protocol, rawHeaders: incoming.rawHeaders, socket, head };
    serve(incoming, response, upgrade, onClosed(socket));
  });
  server.on("connection", connections.onConnection);
  server.on("secureConnection", connections.onHandshake);
  server.on("session", connections.onSession);
  server.on("sessionError", ignoreBroken);
  server.on("tlsClientError", (_error: Error, socket: Duplex) => socket.destroy());

  return {
    listen: (port, address) =>
      listenOn(server, { port, address }, (err) => log.error({ err }, "the server of the node's API has failed")),
    setTls: (changed) => server.setSecureContext(changed),
    drainConnections: connections.drain,
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      connections.destroyAll();
      await closed;
    },
  };
}

interface ServeDeps extends RequestDispatchDeps {
  readonly connections: Connections;
  readonly clock: Clock;
}

/** Rejects only if the request has no connection any more. */
async function serveRequest(
  { connections, clock, ...deps }: ServeDeps,
  incoming: Incoming,
  response: TrackedResponse,
  upgrade: ReceivedRequest["upgrade"],
  ended: Ended,
): Promise<void> {
  const socket = socketOf(incoming);
  const abort = new AbortController();
  const channel = channelOf(incoming);
  const release = connections.onRequest(channel, () => abort.abort());
  ended(() => abort.abort());
  let isAuthenticated = false;
  const request: ReceivedRequest = {
    method: incoming.method ?? "",
    target: incoming.url ?? "",
    headers: incoming.headers,
    // Its certificate was verified with an earlier client CA.
    socket: connections.isDraining(channel) ? withoutTrust(socket) : socket,
    signal: abort.signal,
    onAuthenticated() {
      isAuthenticated = true;
      connections.onAuthenticated(channel);
    },
    body: (limitBytes) => readBody(incoming, limitBytes),
    upgrade,
  };
  await dispatchRequest(deps, request, withWriteTimeout(response, clock));
  const cancel = limitRest(response, isAuthenticated, clock);
  ended(() => {
    cancel();
    release();
  });
}

function withoutTrust(socket: TLSSocket): ReceivedRequest["socket"] {
  return { authorized: false, getPeerCertificate: () => socket.getPeerCertificate() };
}

/** Calls back when the answer or the connection has closed, at once if it has already. */
type Ended = (callback: () => void) => void;

function onClosed(stream: Pick<NodeJS.EventEmitter, "once">): Ended {
  let isClosed = false;
  const callbacks: (() => void)[] = [];
  stream.once("close", () => {
    isClosed = true;
    for (const callback of callbacks) callback();
  });
  return (callback) => {
    if (isClosed) callback();
    else callbacks.push(callback);
  };
}

/** In HTTP/2 a request has a stream of a session, and the session has the connection. */
function sessionOf(incoming: Incoming): Http2Session | undefined {
  return "stream" in incoming ? incoming.stream.session : undefined;
}

function channelOf(incoming: Incoming): Channel {
  return sessionOf(incoming) ?? (incoming.socket as TLSSocket);
}

function socketOf(incoming: Incoming): TLSSocket {
  return (sessionOf(incoming)?.socket ?? incoming.socket) as TLSSocket;
}

function ignoreBroken(): void {
  // The client has broken its connection; the request sees it by its own events.
}
