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

/** A request on its way, as tests choose by it. */
export interface Passing {
  readonly method: string;
  /** With its query. */
  readonly path: string;
}

export interface Received {
  readonly line: string;
  /** By the clock of `performance.now`. */
  readonly at: number;
}

export type Choice = (request: Passing) => boolean;

/** Stands before an API server, speaks to one of its clients in its place, and answers by itself where a test wants it to. */
export interface Gateway {
  readonly port: number;
  /** Every request so far, in order, as `GET /api/v1/pods?watch=true`. */
  readonly requests: readonly string[];
  /** The same with their times. */
  readonly received: readonly Received[];
  /**
   * Requests that are chosen, all if nobody chooses, are answered so from now on, and the API server does not see them. The function
   * returned ends that. What is under way goes on.
   */
  answer(status: number, chosen?: Choice, headers?: OutgoingHttpHeaders): () => void;
  /** Requests that are chosen are neither passed on nor answered, until the function returned is called: then they are passed on. */
  hold(chosen?: Choice): () => void;
  /** Of answers under way that are chosen nothing more arrives, and they stay open. Whatever comes later is as good as ever. Returns how many. */
  mute(chosen: Choice): number;
  /** Ends every answer that is under way in the middle, as a server does that gives a watch up. Returns how many. */
  cut(): number;
  close(): Promise<void>;
}

export interface GatewayOptions {
  /** Where the API server is: `https://127.0.0.1:PORT`. */
  readonly target: string;
  /** Who the API server has its certificate from, and the clients that of the gateway. */
  readonly ca: string;
  /** The gateway's own, for 127.0.0.1. */
  readonly certificate: KeyPair;
  /** Who the client is to the API server: what it presents itself ends here. */
  readonly identity: KeyPair;
}

interface Rule {
  readonly chosen: Choice;
  readonly take: (stream: ServerHttp2Stream, pass: () => void) => void;
}

/** Listens on a port of 127.0.0.1. */
export async function startGateway({ target, ca, certificate, identity }: GatewayOptions): Promise<Gateway> {
  const requests: string[] = [];
  const received: Received[] = [];
  const rules = new Set<Rule>();
  const clients = new Set<ServerHttp2Session>();
  const open = new Map<ServerHttp2Stream, Passing>();
  const muted = new WeakSet<ServerHttp2Stream>();
  const upstream = createUpstream(() => connect(target, { ca, cert: identity.cert, key: identity.key }));

  function impose(rule: Rule): () => void {
    rules.add(rule);
    return () => rules.delete(rule);
  }

  function receive(stream: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
    const request = { method: String(headers[":method"]), path: String(headers[":path"]) };
    const line = `${request.method} ${request.path}`;
    requests.push(line);
    received.push({ line, at: performance.now() });
    open.set(stream, request);
    stream.on("close", () => open.delete(stream));
    stream.on("error", ignore);
    const body: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => body.push(chunk));
    stream.on("end", () => {
      const pass = () => passOn(upstream.session(), stream, headers, Buffer.concat(body), () => muted.has(stream));
      const rule = [...rules].find(({ chosen }) => chosen(request));
      if (rule === undefined) pass();
      else rule.take(stream, pass);
    });
  }

  const server = createSecureServer({ cert: certificate.cert, key: certificate.key });
  server.on("session", (session) => {
    clients.add(session);
    session.on("close", () => clients.delete(session));
    session.on("error", ignore);
  });
  server.on("stream", receive);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    requests,
    received,
    answer: (status, chosen = () => true, headers = {}) =>
      impose({ chosen, take: (stream) => refuse(stream, status, headers) }),
    hold(chosen = () => true) {
      const held: (() => void)[] = [];
      const end = impose({ chosen, take: (_, pass) => held.push(pass) });
      return () => {
        end();
        for (const pass of held.splice(0)) pass();
      };
    },
    mute(chosen) {
      const found = [...open].filter(([, request]) => chosen(request));
      for (const [stream] of found) muted.add(stream);
      return found.length;
    },
    cut() {
      const { size } = open;
      for (const stream of [...open.keys()]) breakOff(stream);
      return size;
    },
    async close() {
      for (const session of clients) session.destroy();
      upstream.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Whatever breaks shows as a stream or session that has closed. */
function ignore(): void {
  // Nothing else is to be said of it.
}

/** One session to the API server at a time, made anew when it has ended. */
function createUpstream(begin: () => ClientHttp2Session) {
  let current: ClientHttp2Session | undefined;
  return {
    session(): ClientHttp2Session {
      if (current === undefined || current.closed || current.destroyed) {
        const session = begin();
        session.on("error", ignore);
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

/** Carries one request to the API server, and its answer back as it comes. */
function passOn(
  session: ClientHttp2Session,
  to: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  body: Buffer,
  isMuted: () => boolean,
): void {
  if (to.destroyed) return;
  const from: ClientHttp2Stream = session.request(forwarded(headers), { endStream: body.length === 0 });
  if (body.length > 0) from.end(body);
  from.on("error", ignore);
  from.on("response", (answer) => {
    if (!to.destroyed) to.respond(forwarded(answer));
  });
  from.on("data", (chunk: Buffer) => {
    if (!to.destroyed && !isMuted()) to.write(chunk);
  });
  from.on("close", () => {
    if (to.destroyed || isMuted()) return;
    if (from.rstCode === constants.NGHTTP2_NO_ERROR && to.headersSent) to.end();
    else breakOff(to);
  });
  to.on("close", () => from.close(constants.NGHTTP2_CANCEL));
}

/** With RST_STREAM: closing it would be an end in order to Bun 1.4, whatever the code. */
function breakOff(stream: ServerHttp2Stream): void {
  stream.destroy(new Error("broken off"));
}

/** As it was, but for what is of one connection alone. */
function forwarded({ host: _, ...headers }: IncomingHttpHeaders): OutgoingHttpHeaders {
  return headers;
}

/** Says no as an API server does. */
function refuse(stream: ServerHttp2Stream, status: number, headers: OutgoingHttpHeaders): void {
  if (stream.destroyed) return;
  const message = `the gateway answers ${status}`;
  stream.respond({ ":status": status, "content-type": "application/json", ...headers });
  stream.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: status, message }));
}
