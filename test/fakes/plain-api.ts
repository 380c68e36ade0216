import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { createResponse } from "../../agent/serve/api/api-response.ts";
import { readBody } from "../../agent/serve/api/request-body.ts";
import { dispatchRequest } from "../../agent/serve/api/request-dispatch.ts";
import type { Route } from "../../agent/serve/api/route.ts";
import { createRouteTable } from "../../agent/serve/api/route-table.ts";
import type { Log } from "../../host/log/log.ts";
import type { ApiAnswer } from "./api-client.ts";

export interface PlainApi {
  get(path: string): Promise<ApiAnswer>;
  send(method: string, path: string, headers?: Readonly<Record<string, string>>, body?: string): Promise<ApiAnswer>;
  stop(): Promise<void>;
}

/** Serves routes of the node's API without TLS and without authentication, for the tests of endpoints. */
export async function createPlainApi(routes: readonly Route[], log: Log): Promise<PlainApi> {
  const admin = { username: "admin", groups: [] };
  const deps = { routes: createRouteTable(routes), admit: async () => admin, log };
  const server = createServer((incoming: IncomingMessage, outgoing: ServerResponse) => {
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const response = createResponse(outgoing, incoming.method === "HEAD", () => outgoing.destroy());
    const received = {
      method: incoming.method ?? "",
      target: incoming.url ?? "",
      headers: incoming.headers,
      socket: { authorized: false, getPeerCertificate: () => ({}) as never },
      signal: gone.signal,
      onAuthenticated: () => {},
      body: (limitBytes: number) => readBody(incoming, limitBytes),
      upgrade: undefined,
    };
    void dispatchRequest(deps, received, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" ? address?.port : undefined;

  const send: PlainApi["send"] = (method, path, headers = {}, body = "") =>
    new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, method, path, headers, agent: false }, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("aborted", () => reject(new Error("the answer has ended early")));
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text });
        });
      });
      sent.on("error", reject);
      sent.end(body);
    });
  return {
    send,
    get: (path) => send("GET", path),
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
