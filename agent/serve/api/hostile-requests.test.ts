import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import type { TLSSocket } from "node:tls";
import { createClock } from "../../../host/clock.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createOddRequestRoutes } from "../../../test/fakes/odd-request-routes.ts";
import { oddRequests } from "../../../test/fakes/odd-requests.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { alwaysAllow } from "./auth/authorizer.ts";

setDefaultTimeout(60_000);

const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });
const log = new FakeLog();
let running = 0;
const routes = createOddRequestRoutes({
  onSession: () => running++,
  onSessionEnd: () => running--,
});

let server: ApiServer;
let client: ReturnType<typeof createApiClient>;
beforeAll(async () => {
  server = createApiServer({
    routes,
    authenticator: { authenticate: async () => ({ username: "anyone", groups: [] }) },
    authorizer: alwaysAllow,
    tls: serving,
    limits: { maxConnections: 500, maxUnauthenticated: 500, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock: createClock(),
    log,
  });
  client = createApiClient({ port: await server.listen(0, "127.0.0.1"), ca: undefined });
});
afterAll(() => server.stop());

const openFiles = async () => (await readdir("/proc/self/fd")).length;
async function cut(bytes: string): Promise<void> {
  const socket: TLSSocket = await client.openSocket(bytes);
  socket.on("error", () => {
    // The server may be the first to end the connection.
  });
  socket.resume();
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.destroy();
  await closed;
}

/** Sends bytes, waits for the first bytes of an answer or the end of the connection, and vanishes. */
async function ask(bytes: string): Promise<"answered" | "ended" | "silence"> {
  const socket: TLSSocket = await client.openSocket(bytes);
  socket.on("error", () => {
    // The server may be the first to end the connection.
  });
  const result = await Promise.race([
    new Promise<"answered">((resolve) => socket.once("data", () => resolve("answered"))),
    new Promise<"ended">((resolve) => socket.once("close", () => resolve("ended"))),
    Bun.sleep(5_000).then(() => "silence" as const),
  ]);
  socket.destroy();
  return result;
}

/** The requests are cut there, and their clients vanish. */
const requests: Readonly<Record<string, string>> = {
  GET: "GET /pods HTTP/1.1\r\nHost: node\r\nAccept: */*\r\n\r\n",
  "POST with a body": `POST /run/a/b/c HTTP/1.1\r\nHost: node\r\nContent-Length: 200\r\n\r\n${"x".repeat(200)}`,
  "POST in chunks": `POST /run/a/b/c HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n${"x".repeat(100)}\r\n0\r\n\r\n`,
  upgrade: `POST /exec/a/b/c HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n${"x".repeat(200)}`,
};

test.each(Object.entries(requests))(
  "a client that vanishes after any number of bytes of a %s leaves nothing",
  async (_name, bytes) => {
    await cut(bytes);
    const before = await openFiles();
    for (let end = 0; end <= bytes.length; end += 10) await cut(bytes.slice(0, end));
    while (running > 0) await Bun.sleep(5);
    expect((await client.get("/pods")).text).toBe("pods");
    expect(await openFiles()).toBeLessThan(before + 10);
  },
);

test("every combination of odd methods, targets and headers gets an answer, or its connection ends", async () => {
  const before = await openFiles();
  const texts = [...oddRequests];
  const silent: string[] = [];
  while (texts.length > 0)
    await Promise.all(
      texts.splice(0, 40).map(async (text) => {
        if ((await ask(text)) === "silence") silent.push(text);
      }),
    );
  expect(silent).toEqual([]);
  while (running > 0) await Bun.sleep(5);
  expect((await client.get("/pods")).text).toBe("pods");
  expect(await openFiles()).toBeLessThan(before + 20);
  expect(log.lines.filter(({ level }) => level === "error")).toEqual([]);
});
