import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import { withWriteTimeout } from "./answer-timeouts.ts";
import { createResponse } from "./api-response.ts";
import { createConnections } from "./connections.ts";
import { createHealthRoutes, type HealthCheck, type HealthResultRecorder } from "./endpoints/health.ts";
import { listenOn } from "./listen.ts";
import { dispatchRequest } from "./request-dispatch.ts";
import { createRouteTable } from "./route-table.ts";

export interface HealthServerOptions {
  readonly checks: readonly HealthCheck[];
  readonly recordResult: HealthResultRecorder;
  readonly clock: Clock;
  readonly log: Log;
}

/** The plain server of `healthzPort`. It answers whether the agent is healthy, and nothing else. */
export interface HealthServer {
  /** Resolves with the port. Rejects if the address cannot be listened on. */
  listen(port: number, address: string): Promise<number>;
  stop(): Promise<void>;
}

/** Health checks are short, and few programs ask. */
const LIMITS = { maxConnections: 64, maxUnauthenticated: 64, firstRequestTimeoutMs: 10_000, idleTimeoutMs: 30_000 };
const ANYONE = { username: "system:anonymous", groups: ["system:unauthenticated"] };

export function createHealthServer({ checks, recordResult, clock, log }: HealthServerOptions): HealthServer {
  const routes = createRouteTable(createHealthRoutes(checks, recordResult));
  const deps = { routes, admit: async () => ANYONE, log };
  const connections = createConnections(LIMITS, clock);
  const server = createServer();

  server.on("connection", connections.onConnection);
  server.on("request", (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const gone = new AbortController();
    const release = connections.onRequest(incoming.socket, () => gone.abort());
    outgoing.once("close", () => {
      gone.abort();
      release();
    });
    outgoing.on("error", () => {
      // The client has broken its connection.
    });
    const request = {
      method: incoming.method ?? "",
      target: incoming.url ?? "",
      headers: incoming.headers,
      socket: withoutCertificate,
      signal: gone.signal,
      onAuthenticated: () => {},
      body: async () => Buffer.alloc(0),
      upgrade: undefined,
    };
    const response = createResponse(outgoing, incoming.method === "HEAD", () => outgoing.destroy());
    dispatchRequest(deps, request, withWriteTimeout(response, clock)).catch((err: unknown) => {
      log.error({ err }, "a health check cannot be answered");
      response.abort();
    });
  });

  return {
    listen: (port, address) =>
      listenOn(server, { port, address }, (err) => log.error({ err }, "the server of health checks has failed")),
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      connections.destroyAll();
      await closed;
    },
  };
}

const withoutCertificate = { authorized: false, getPeerCertificate: () => ({}) as never };
