import { afterEach, beforeEach, expect, test } from "bun:test";
import { connect as connectHttp2 } from "node:http2";
import { connect } from "node:net";
import type { TLSSocket } from "node:tls";
import { createApiClient, readToEnd } from "../../../test/fakes/api-client.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { hasKeepAlive } from "../../../test/fakes/tcp-keep-alive.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { alwaysAllow } from "./auth/authorizer.ts";
import type { Route } from "./route.ts";

const [clientCA, otherCA] = [createCertificateAuthority("clients"), createCertificateAuthority("clients")];
const serving = createCertificateAuthority("serving").issue({ commonName: "node", hosts: ["127.0.0.1"] });
const newServing = createCertificateAuthority("new").issue({ commonName: "new-node", hosts: ["127.0.0.1"] });
const MAX_CONNECTIONS = 20;

let clock: FakeClock;
let server: ApiServer;
let client: ReturnType<typeof createApiClient>;
let running: number;
let chunks = 0;
const routes: readonly Route[] = [
  { pattern: "/healthz", methods: "all", handle: async (_request, response) => response.end("ok") },
  {
    pattern: "/stats/waits",
    methods: ["GET"],
    handle: ({ signal }, response) =>
      new Promise((resolve) => {
        running++;
        void response.write("begins");
        signal.addEventListener("abort", () => {
          running--;
          resolve();
        });
      }),
  },
  {
    pattern: "/user",
    methods: ["GET"],
    handle: async ({ user }, response) => response.end(user.username),
  },
  {
    pattern: "/stats/long",
    methods: ["GET"],
    async handle(_request, response) {
      running++;
      try {
        for (;;) {
          await response.write(Buffer.alloc(1 << 20));
          chunks++;
        }
      } finally {
        running--;
      }
    },
  },
  {
    pattern: "/stats/follows",
    methods: ["GET"],
    async handle(_request, response) {
      running++;
      try {
        for (;;) {
          await response.write("a line\n");
          // As a log that is followed: it waits for the container, not for the client.
          await Bun.sleep(10);
        }
      } finally {
        running--;
      }
    },
  },
];

beforeEach(async () => {
  running = 0;
  clock = new FakeClock();
  server = createApiServer({
    routes,
    authenticator: {
      authenticate: async ({ socket, authorization }) =>
        authorization === undefined ? { username: String(socket.authorized), groups: [] } : undefined,
    },
    authorizer: alwaysAllow,
    tls: { ...serving, ca: [clientCA.cert] },
    limits: {
      maxConnections: MAX_CONNECTIONS,
      maxUnauthenticated: MAX_CONNECTIONS,
      firstRequestTimeoutMs: 30_000,
      idleTimeoutMs: 90_000,
    },
    clock,
    log: new FakeLog(),
  });
  const port = await server.listen(0, "127.0.0.1");
  client = createApiClient({ port, ca: undefined });
});
afterEach(() => server.stop());

const waits = "GET /stats/waits HTTP/1.1\r\nHost: node\r\n\r\n";
const headers = "GET /healthz HTTP/1.1\r\nHost: node\r\n";
const closed = (socket: TLSSocket) => new Promise<void>((resolve) => socket.once("close", () => resolve()));
const nextData = (socket: TLSSocket) => new Promise<void>((resolve) => socket.once("data", () => resolve()));

test("a client that sends its headers slowly is disconnected", async () => {
  const socket = await client.openSocket(headers);
  socket.on("error", () => {});
  const ended = closed(socket);
  for (let i = 0; i < 29; i++) {
    await clock.advance(1_000);
    socket.write(`X-${i}: slow\r\n`);
  }
  expect(socket.destroyed).toBe(false);
  await clock.advance(1_000);
  await ended;
});

test("a connection may be idle for 90 seconds after a request, of HTTP/2 too", async () => {
  const socket = await client.openSocket(`${headers}\r\n`);
  const session = client.openSession();
  await Promise.all([nextData(socket), client.requestHttp2("GET", "/healthz", session)]);
  const ended = [closed(socket), new Promise<void>((resolve) => session.once("close", () => resolve()))];
  await clock.advance(89_000);
  expect([socket.destroyed, session.closed]).toEqual([false, false]);
  await clock.advance(2_000);
  await Promise.all(ended);
});

test("a client that speaks HTTP/2 and sends no request is disconnected", async () => {
  const session = client.openSession();
  await new Promise<void>((resolve) => session.once("remoteSettings", () => resolve()));
  const ended = new Promise<void>((resolve) => session.once("close", () => resolve()));
  await clock.advance(31_000);
  await ended;
});

test("a request may take as long as it needs", async () => {
  const socket = await client.openSocket("GET /stats/waits HTTP/1.1\r\nHost: node\r\n\r\n");
  await nextData(socket);
  await clock.advance(4 * 3_600_000);
  expect([socket.destroyed, running]).toEqual([false, 1]);
  socket.destroy();
  while (running > 0) await Bun.sleep(5);
});

test("when there are too many connections, the oldest without an authenticated request is closed for a new one", async () => {
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < MAX_CONNECTIONS; i++) sockets.push(await client.openSocket(i === 0 ? waits : headers));
  const [busy, oldest, ...others] = sockets as [TLSSocket, TLSSocket, ...TLSSocket[]];
  if (running === 0) await nextData(busy);
  const ended = closed(oldest);
  expect((await client.get("/healthz")).text).toBe("ok");
  await ended;
  expect([running, ...others.map(({ destroyed }) => destroyed)]).toEqual([1, ...others.map(() => false)]);
  for (const socket of sockets) socket.destroy();
});

test("when authenticated requests need all connections, a new one is closed", async () => {
  const sockets: TLSSocket[] = [];
  for (let i = 0; i < MAX_CONNECTIONS; i++) sockets.push(await client.openSocket(waits));
  while (running < MAX_CONNECTIONS) await Bun.sleep(5);
  await expect(client.get("/healthz")).rejects.toThrow();
  expect(running).toBe(MAX_CONNECTIONS);
  for (const socket of sockets) socket.destroy();
  const isServed = async () =>
    await client.get("/healthz").then(
      () => true,
      () => false,
    );
  while (!(await isServed())) await Bun.sleep(5);
});

test("a refusal that its client does not read is reset after half a minute", async () => {
  const session = connectHttp2(`https://127.0.0.1:${client.port}`, {
    rejectUnauthorized: false,
    settings: { initialWindowSize: 0 },
  });
  const stream = session.request({ ":path": "/stats/waits", authorization: "Bearer bad" });
  stream.on("error", () => {});
  const reset = new Promise<void>((resolve) => stream.once("close", () => resolve()));
  await new Promise<void>((resolve) => stream.once("response", () => resolve()));
  await clock.advance(29_000);
  expect(stream.closed).toBe(false);
  await clock.advance(1_000);
  await reset;
  session.destroy();
});

test("an answer whose client reads nothing ends after five minutes, over HTTP/1.1 and HTTP/2", async () => {
  const session = client.openSession();
  const stream = session.request({ ":path": "/stats/long" });
  stream.pause();
  stream.on("error", () => {});
  const socket = await client.openSocket("GET /stats/long HTTP/1.1\r\nHost: node\r\n\r\n");
  socket.pause();
  socket.on("error", () => {});
  while (running < 2) await Bun.sleep(5);
  let written = -1;
  while (written !== chunks) {
    written = chunks;
    await Bun.sleep(50);
  }
  await clock.advance(4 * 60_000);
  expect(running).toBe(2);
  await clock.advance(61_000);
  while (running > 0) await Bun.sleep(5);
  socket.destroy();
  session.destroy();
});

test.each([
  ["headers of 300 KB", `${headers}X: ${"a".repeat(300_000)}\r\n\r\n`, "431 Request Header Fields Too Large"],
  [
    "a path of 300 KB",
    `GET /${"a".repeat(300_000)} HTTP/1.1\r\nHost: node\r\n\r\n`,
    "431 Request Header Fields Too Large",
  ],
  ["bytes that are no HTTP", "\0\x16\x03nothing\r\n\r\n", "400 Bad Request"],
  ["two lengths of one body", `${headers}Content-Length: 5\r\nContent-Length: 6\r\n\r\n`, "400 Bad Request"],
  [
    "a length and chunks",
    `${headers}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "400 Bad Request",
  ],
])("%s are refused, and the connection ends", async (_name, bytes, status) => {
  const socket = await client.openSocket(bytes);
  expect(await readToEnd(socket).catch(() => `HTTP/1.1 ${status}`)).toStartWith(`HTTP/1.1 ${status}`);
  expect((await client.get("/healthz")).text).toBe("ok");
});

test("a command of 200 KB fits into the URL of an exec", async () => {
  expect((await client.get(`/healthz?command=${"a".repeat(200_000)}`)).text).toBe("ok");
});

test("ten thousand streams that are reset at once cost nothing that stays", async () => {
  const session = client.openSession();
  for (let round = 0; round < 100; round++) {
    for (let i = 0; i < 100; i++) {
      const stream = session.request({ ":path": "/stats/waits" });
      stream.on("error", () => {});
      stream.close(8);
    }
    await Bun.sleep(0);
  }
  while (running > 0) await Bun.sleep(5);
  session.destroy();
  expect((await client.get("/healthz")).text).toBe("ok");
}, 60_000);

test("a route that waits for something else while its client resets the stream ends at its next write", async () => {
  const session = client.openSession();
  for (let round = 0; round < 5; round++) {
    const streams = Array.from({ length: 100 }, () => session.request({ ":path": "/stats/follows" }));
    await Promise.all(streams.map((stream) => new Promise<void>((resolve) => stream.once("data", () => resolve()))));
    expect(running).toBe(100);
    for (const stream of streams) {
      stream.on("error", () => {});
      stream.close(8);
    }
    while (running > 0) await Bun.sleep(5);
  }
  session.destroy();
});

test("plain HTTP and silence instead of a TLS handshake do not stop the server", async () => {
  const port = Number(new URL(`https://127.0.0.1:${client.port}`).port);
  const plain = connect(port, "127.0.0.1", () => plain.write("GET / HTTP/1.1\r\n\r\n"));
  plain.on("error", () => {});
  const silent = connect(port, "127.0.0.1");
  silent.on("error", () => {});
  await new Promise((resolve) => plain.once("close", resolve));
  const ended = new Promise((resolve) => silent.once("close", resolve));
  await clock.advance(31_000);
  await ended;
  expect((await client.get("/healthz")).text).toBe("ok");
});

test("after the client CA has changed, a connection with a long request gives its certificate no rights any more", async () => {
  const pair = clientCA.issue({ commonName: "admin" });
  const admitted = createApiClient({ port: client.port, ca: undefined, pair });
  const session = admitted.openSession();
  const stream = session.request({ ":path": "/stats/waits" });
  stream.on("error", () => {});
  await new Promise<void>((resolve) => stream.once("data", () => resolve()));
  expect((await admitted.requestHttp2("GET", "/user", session)).text).toBe("true");
  const goaway = new Promise<void>((resolve) => session.once("goaway", () => resolve()));
  server.setTls({ ...newServing, ca: [otherCA.cert] });
  server.drainConnections();
  const sent = admitted.requestHttp2("GET", "/user", session).catch(() => ({ text: "refused" }));
  expect((await sent).text).not.toBe("true");
  await goaway;
  expect([stream.closed, running]).toEqual([false, 1]);
  stream.close(8);
  await new Promise<void>((resolve) => session.once("close", () => resolve()));
});

test("the kernel asks after a client that is silent", async () => {
  const socket = await client.openSocket(headers);
  expect(await hasKeepAlive(client.port, socket.localPort ?? 0)).toBe(true);
  socket.destroy();
});

test("new certificates count for new connections; those that an old client CA has admitted end after their requests", async () => {
  const pair = clientCA.issue({ commonName: "admin" });
  const admitted = createApiClient({ port: client.port, ca: undefined, pair });
  const idle = admitted.openSession();
  expect((await admitted.requestHttp2("GET", "/healthz", idle)).text).toBe("ok");
  const busy = await admitted.openSocket("GET /stats/waits HTTP/1.1\r\nHost: node\r\n\r\n");
  await nextData(busy);
  const idleEnded = new Promise<void>((resolve) => idle.once("close", () => resolve()));
  server.setTls({ ...newServing, ca: [otherCA.cert] });
  server.drainConnections();
  await idleEnded;
  expect([busy.destroyed, running]).toEqual([false, 1]);
  const again = await admitted.openSocket("");
  expect([again.getPeerCertificate().subject.CN, again.authorized]).toEqual(["new-node", false]);
  again.destroy();
  busy.destroy();
  expect(() => server.setTls({ cert: serving.cert, key: newServing.key })).toThrow();
  expect((await client.get("/healthz")).text).toBe("ok");
});
