import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";

/** A server that counts connections or requests, as the target of TCP or HTTP probes. */
export interface ProbeTarget {
  readonly port: number;
  readonly count: number;
  close(): Promise<void>;
}

export const startTcpProbeTarget = (): Promise<ProbeTarget> =>
  startTarget((counted) =>
    createTcpServer((socket) => {
      counted();
      // The prober closes the connection, some probers with a reset.
      socket.on("error", () => undefined);
      socket.resume();
    }),
  );

export const startHttpProbeTarget = (): Promise<ProbeTarget> =>
  startTarget((counted) =>
    createServer((_, answer) => {
      counted();
      answer.end();
    }),
  );

async function startTarget(createTarget: (counted: () => void) => Server): Promise<ProbeTarget> {
  let count = 0;
  const server = createTarget(() => {
    count++;
  });
  const port = await listen(server);
  return {
    port,
    get count() {
      return count;
    },
    close: () => end(server),
  };
}

/** An HTTP server, as the target of readiness probes. Each path is the name of a pod, which is not ready at first. */
export interface ReadinessServer {
  readonly port: number;
  /** Changes the answer for a pod. Resolves with the time of the first such answer, in milliseconds since the epoch. */
  setReady(name: string, isReady: boolean): Promise<number>;
  close(): Promise<void>;
}

export async function startReadinessServer(): Promise<ReadinessServer> {
  const ready = new Set<string>();
  const changeWaiters = new Map<string, (at: number) => void>();
  const server = createServer(({ url = "/" }, answer) => {
    const name = url.slice(1);
    const at = Date.now();
    answer.writeHead(ready.has(name) ? 200 : 503).end();
    changeWaiters.get(name)?.(at);
    changeWaiters.delete(name);
  });
  return {
    port: await listen(server),
    setReady(name, isReady) {
      if (isReady) ready.add(name);
      else ready.delete(name);
      return new Promise((resolve) => {
        changeWaiters.set(name, resolve);
      });
    },
    close: () => end(server),
  };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const end = (server: Server) => new Promise<void>((resolve) => server.close(() => resolve()));
