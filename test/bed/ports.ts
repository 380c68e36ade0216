import { createServer } from "node:net";

/**
 * Picks free ports of 127.0.0.1. They lie below the kernel's range for outgoing connections, so that a server that
 * restarts later finds its port still free.
 */
export async function pickPorts(count: number): Promise<readonly number[]> {
  const [first, end] = [20_000, 32_000];
  const picked: number[] = [];
  for (let port = first + Math.floor(Math.random() * (end - first)); picked.length < count; port++) {
    if (port > end + 500) throw new Error("no free port of 127.0.0.1 from 20000 to 32500");
    if (await isFree(port)) picked.push(port);
  }
  return picked;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return await new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
