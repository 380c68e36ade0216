import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";

/** Takes whoever connects, and counts them. */
export interface Door {
  readonly port: number;
  readonly count: number;
  close(): Promise<void>;
}

export async function openDoor(): Promise<Door> {
  let count = 0;
  const server = createTcpServer((socket) => {
    count++;
    // Whoever probes hangs up by himself, some with a reset.
    socket.on("error", () => undefined);
    socket.resume();
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

/** Says of each name, which is the path it is asked by, whether it is ready; at first none is. */
export interface Answerer {
  readonly port: number;
  /** From now on the answer is another one. Resolves with when it was first given, in milliseconds since the epoch. */
  turn(name: string, isReady: boolean): Promise<number>;
  close(): Promise<void>;
}

export async function startAnswerer(): Promise<Answerer> {
  const ready = new Set<string>();
  const turned = new Map<string, (at: number) => void>();
  const server = createServer(({ url = "/" }, answer) => {
    const name = url.slice(1);
    const at = Date.now();
    answer.writeHead(ready.has(name) ? 200 : 503).end();
    turned.get(name)?.(at);
    turned.delete(name);
  });
  return {
    port: await listen(server),
    turn(name, isReady) {
      if (isReady) ready.add(name);
      else ready.delete(name);
      return new Promise((resolve) => {
        turned.set(name, resolve);
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
