import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createSecureServer,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import type { KeyPair } from "./pki.ts";

/** A request that passes through the gateway, as filters see it. */
export interface ProxiedRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
}

export interface ReceivedRequest {
  readonly line: string;
  /** Arrival time, by `performance.now`. */
  readonly at: number;
  /** The API server's response or the gateway's own, once its headers are there; of a watch that is its start. */
  readonly response?: { readonly status: number; readonly at: number };
}

/**
 * How long after `since` the first request arrived that got a successful response after `since`; 0 for one that was held back then, Infinity if
 * there is none. The time that the API server takes to answer is not in it.
 */
export function firstSuccessDelayMs(received: readonly ReceivedRequest[], since: number): number {
  const succeeded = received.filter(
    ({ response }) => response !== undefined && response.status < 400 && response.at >= since,
  );
  return Math.min(...succeeded.map(({ at }) => Math.max(at, since))) - since;
}

export type RequestFilter = (request: ProxiedRequest) => boolean;

/**
 * An HTTP/2 proxy in front of an API server, for one client. Tests make it answer, hold or interrupt chosen requests.
 */
export interface Http2Gateway {
  readonly port: number;
  /** Every request so far, in order, as `GET /api/v1/pods?watch=true`. */
  readonly requests: readonly string[];
  /** The same requests with their arrival times. */
  readonly received: readonly ReceivedRequest[];
  /**
   * Answers matching requests (default: all) with `status` instead of forwarding them, until the returned function is
   * called. Requests under way continue.
   */
  respondWith(status: number, matches?: RequestFilter, headers?: OutgoingHttpHeaders): () => void;
  /** Holds matching requests back until the returned function is called, which forwards them. */
  hold(matches?: RequestFilter): () => void;
  /**
   * Drops all further data of matching responses under way, but keeps their streams open. Later requests are not
   * affected. Returns the number of muted responses.
   */
  mute(matches: RequestFilter): number;
  /**
   * Ends matching responses under way with this text, as a server that ends a watch with an ERROR event. Returns their
   * number.
   */
  endWith(text: string, matches: RequestFilter): number;
  /** Resets every response under way, as a server that abandons a watch does. Returns the number of responses. */
  abortResponses(): number;
  close(): Promise<void>;
}

export interface Http2GatewayOptions {
  /** The API server's address: `https://127.0.0.1:PORT`. */
  readonly target: string;
  /** The CA of both the API server's and the gateway's certificate. */
  readonly ca: string;
  /** The gateway's server certificate, for 127.0.0.1. */
  readonly certificate: KeyPair;
  /** The client certificate for the API server. The client's own credentials are not forwarded. */
  readonly identity: KeyPair;
  /** Called with each part of a response of the API server, before it is passed on. */
  readonly onData?: (request: ReceivedRequest, chunk: Buffer) => void;
}

interface GatewayRule {
  readonly matches: RequestFilter;
  readonly handle: (stream: ServerHttp2Stream, forward: () => void, onResponse: (status: number) => void) => void;
}

/** Starts a gateway on a free port of 127.0.0.1. */
export async function startHttp2Gateway({
  target,
  ca,
  certificate,
  identity,
  onData,
}: Http2GatewayOptions): Promise<Http2Gateway> {
  const requests: string[] = [];
  const received: ReceivedRequest[] = [];
  const rules = new Set<GatewayRule>();
  const clients = new Set<ServerHttp2Session>();
  const open = new Map<ServerHttp2Stream, ProxiedRequest>();
  const muted = new WeakSet<ServerHttp2Stream>();
  const upstream = createUpstream(() => connect(target, { ca, cert: identity.cert, key: identity.key }));

  function addRule(rule: GatewayRule): () => void {
    rules.add(rule);
    return () => rules.delete(rule);
  }

  function receive(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const request = { method: String(headers[":method"]), path: String(headers[":path"]) };
    const line = `${request.method} ${request.path}`;
    requests.push(line);
    const note: { -readonly [Key in keyof ReceivedRequest]: ReceivedRequest[Key] } = { line, at: performance.now() };
    received.push(note);
    const onResponse = (status: number) => {
      note.response = { status, at: performance.now() };
    };
    open.set(stream, request);
    stream.on("close", () => open.delete(stream));
    stream.on("error", ignoreError);
    const body: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => body.push(chunk));
    stream.on("end", () => {
      const forward = () =>
        forwardRequest(upstream.session(), stream, headers, Buffer.concat(body), {
          isMuted: () => muted.has(stream),
          onResponse,
          onData: (chunk) => onData?.(note, chunk),
        });
      const rule = [...rules].find(({ matches }) => matches(request));
      if (rule === undefined) forward();
      else rule.handle(stream, forward, onResponse);
    });
  }

  const server = createSecureServer({ cert: certificate.cert, key: certificate.key });
  server.on("session", (session) => {
    clients.add(session);
    session.on("close", () => clients.delete(session));
    session.on("error", ignoreError);
  });
  server.on("stream", receive);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    received,
    respondWith: (status, matches = () => true, headers = {}) =>
      addRule({
        matches,
        handle: (stream, _, onResponse) => {
          onResponse(status);
          respondWithStatus(stream, status, headers);
        },
      }),
    hold(matches = () => true) {
      const held: (() => void)[] = [];
      const end = addRule({ matches, handle: (_, forward) => held.push(forward) });
      return () => {
        end();
        for (const forward of held.splice(0)) forward();
      };
    },
    mute(matches) {
      const found = [...open].filter(([, request]) => matches(request));
      for (const [stream] of found) muted.add(stream);
      return found.length;
    },
    endWith(text, matches) {
      const found = [...open].filter(([, request]) => matches(request));
      for (const [stream] of found) {
        muted.add(stream);
        stream.end(text);
      }
      return found.length;
    },
    abortResponses() {
      const { size } = open;
      for (const stream of [...open.keys()]) resetStream(stream);
      return size;
    },
    async close() {
      for (const session of clients) session.destroy();
      upstream.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** An error needs no handling: the stream or session closes afterwards, and the `close` event is handled. */
function ignoreError(): void {}

/** Keeps one session to the API server and replaces it when it has ended. */
function createUpstream(openSession: () => ClientHttp2Session) {
  let current: ClientHttp2Session | undefined;
  return {
    session(): ClientHttp2Session {
      if (current === undefined || current.closed || current.destroyed) {
        const session = openSession();
        session.on("error", ignoreError);
        session.on("goaway", () => {
          if (current === session) current = undefined;
        });
        current = session;
      }
      return current;
    },
    close: () => current?.destroy(),
  };
}

interface ForwardOptions {
  readonly isMuted: () => boolean;
  readonly onResponse: (status: number) => void;
  readonly onData: (chunk: Buffer) => void;
}

/** Forwards one request to the API server and streams the response back. */
function forwardRequest(
  session: ClientHttp2Session,
  to: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
  { isMuted, onResponse, onData }: ForwardOptions,
): void {
  if (to.destroyed) return;
  const from: ClientHttp2Stream = session.request(withoutHost(headers), { endStream: body.length === 0 });
  if (body.length > 0) from.end(body);
  from.on("error", ignoreError);
  from.on("response", (answer) => {
    onResponse(Number(answer[":status"]));
    if (!to.destroyed) to.respond(withoutHost(answer));
  });
  from.on("data", (chunk: Buffer) => {
    onData(chunk);
    if (!to.destroyed && !isMuted()) to.write(chunk);
  });
  from.on("close", () => {
    if (to.destroyed || isMuted()) return;
    if (from.rstCode === constants.NGHTTP2_NO_ERROR && to.headersSent) to.end();
    else resetStream(to);
  });
  to.on("close", () => from.close(constants.NGHTTP2_CANCEL));
}

/** Sends RST_STREAM. Bun 1.4 would turn `close(code)` into a normal end of the stream, whatever the code. */
function resetStream(stream: ServerHttp2Stream): void {
  stream.destroy(new Error("broken off"));
}

/** Removes the one header that belongs to a single connection. */
function withoutHost({ host: _, ...headers }: IncomingHttpHeaders): OutgoingHttpHeaders {
  return headers;
}

/** Responds with a `Status` object, as an API server does for an error. */
function respondWithStatus(stream: ServerHttp2Stream, status: number, headers: OutgoingHttpHeaders): void {
  if (stream.destroyed) return;
  const message = `the gateway answers ${status}`;
  stream.respond({ ":status": status, "content-type": "application/json", ...headers });
  stream.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: status, message }));
}
