import { type ClientHttp2Session, connect as connectHttp2, type IncomingHttpHeaders } from "node:http2";
import { request as requestHttps } from "node:https";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { gunzipSync } from "node:zlib";
import type { KeyPair } from "../upstream/pki.ts";

export interface ApiClientOptions {
  readonly port: number;
  /** The CA of the serving certificate, in PEM; undefined accepts every certificate. */
  readonly ca: string | undefined;
  /** The client's certificate. */
  readonly pair?: KeyPair | undefined;
  readonly token?: string | undefined;
}

export interface ApiAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** A client of the node's API on 127.0.0.1, with the credentials of one user. Each request has a connection of its own. */
export function createApiClient({ port, ca, pair, token }: ApiClientOptions) {
  const tls = { host: "127.0.0.1", port, ...(ca === undefined ? { rejectUnauthorized: false } : { ca }), ...pair };
  const authorization = token === undefined ? {} : { authorization: `Bearer ${token}` };

  /** Sends a request over HTTP/1.1. Rejects if the connection breaks before the end of the answer. */
  function request(method: string, path: string, headers: Readonly<Record<string, string>> = {}, body = "") {
    return new Promise<ApiAnswer>((resolve, reject) => {
      const options = { ...tls, method, path, agent: false, headers: { ...authorization, ...headers } };
      const sent = requestHttps(options, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("aborted", () => reject(new Error("the answer has ended early")));
        response.on("error", reject);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
  }

  /** Opens an HTTP/2 session. */
  function openSession(): ClientHttp2Session {
    const session = connectHttp2(`https://127.0.0.1:${port}`, tls);
    session.on("error", () => {
      // Its streams fail with it, and report it.
    });
    return session;
  }

  /** Sends a request over HTTP/2, on a session of its own unless one is given. The text is that of a compressed answer, too. */
  async function requestHttp2(
    method: string,
    path: string,
    session?: ClientHttp2Session,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ApiAnswer> {
    const used = session ?? openSession();
    try {
      return await answerOf(used, { ":method": method, ":path": path, ...authorization, ...headers });
    } finally {
      if (session === undefined) used.close();
    }
  }

  /** Opens a TLS connection and writes bytes of its own. */
  const openSocket = (bytes: string) =>
    new Promise<TLSSocket>((resolve, reject) => {
      const socket = connectTls(tls, () => {
        socket.write(bytes);
        resolve(socket);
      });
      socket.once("error", reject);
    });

  return { port, request, get: (path: string) => request("GET", path), requestHttp2, openSession, openSocket };
}

function answerOf(session: ClientHttp2Session, headers: Readonly<Record<string, string>>): Promise<ApiAnswer> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headers);
    let answer: IncomingHttpHeaders = {};
    const chunks: Buffer[] = [];
    stream.on("response", (received) => {
      answer = received;
    });
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", reject);
    stream.on("close", () => {
      if (stream.rstCode !== 0) reject(new Error(`the stream was reset with ${stream.rstCode}`));
      const body = Buffer.concat(chunks);
      const text = (answer["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString();
      resolve({ status: Number(answer[":status"]), headers: answer, text });
    });
    stream.end();
  });
}

/** Reads a connection to its end. */
export async function readToEnd(socket: TLSSocket): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}
