import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../../host/clock.ts";
import { createApiClient, readToEnd } from "../../../test/fakes/api-client.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import { ApiError } from "./api-error.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { alwaysAllow } from "./auth/authorizer.ts";
import { createRequestAuthenticator } from "./auth/request-authenticator.ts";
import type { Route } from "./route.ts";

const clientCA = createCertificateAuthority("client-ca");
const servingCA = createCertificateAuthority("serving-ca");
const serving = servingCA.issue({ commonName: "node", hosts: ["127.0.0.1"] });
const admin = clientCA.issue({ commonName: "admin", organizations: ["system:masters", "b"] });

const log = new FakeLog();
let server: ApiServer;
let client: ReturnType<typeof createApiClient>;
const aborted: string[] = [];

const routes: readonly Route[] = [
  {
    pattern: "/pods",
    methods: ["GET"],
    async handle({ user, headers, query }, response) {
      await response.write(JSON.stringify({ user, hasToken: "authorization" in headers, a: query.getAll("a") }));
    },
  },
  {
    pattern: "/run/{namespace}/{pod}/{container}",
    methods: ["POST"],
    async handle({ params, body }, response) {
      response.end(`${JSON.stringify(params)} ${await body(10)}`);
    },
  },
  {
    pattern: "/stats/fails",
    methods: ["GET"],
    async handle() {
      throw new ApiError(418, "short and stout", { headers: { "x-content-type-options": "nosniff" } });
    },
  },
  {
    pattern: "/stats/breaks",
    methods: ["GET"],
    async handle(_request, response) {
      await response.write("half of ");
      throw new Error("the disk is gone");
    },
  },
  {
    pattern: "/stats/endless",
    methods: ["GET"],
    handle: ({ signal }, response) =>
      new Promise((resolve) => {
        void response.write("begins");
        signal.addEventListener("abort", () => {
          aborted.push("endless");
          resolve();
        });
      }),
  },
  {
    pattern: "/exec/{namespace}/{pod}/{container}",
    methods: ["GET", "POST"],
    async handle() {
      throw new ApiError(400, "Upgrade request required");
    },
    async upgrade({ socket, head, protocol, rawHeaders, query }) {
      if (query.has("refuse")) throw new ApiError(404, "pod does not exist");
      socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: ${protocol}\r\nConnection: Upgrade\r\n\r\n`);
      socket.write(`${rawHeaders.join(",")}\n${head}`);
      socket.pipe(socket);
    },
  },
];

beforeEach(async () => {
  server = createApiServer({
    routes,
    authenticator: createRequestAuthenticator({
      authenticateToken: undefined,
      allowsAnonymous: false,
      clock: createClock(),
    }),
    authorizer: alwaysAllow,
    tls: { cert: serving.cert, key: serving.key, ca: clientCA.cert },
    limits: { maxConnections: 20, maxUnauthenticated: 20, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock: createClock(),
    log,
  });
  const port = await server.listen(0, "127.0.0.1");
  client = createApiClient({ port, ca: servingCA.cert, pair: admin });
});
afterEach(() => server.stop());

test("HTTP/1.1 and HTTP/2 give the same answers, and endpoints never see credentials", async () => {
  const user = { username: "admin", groups: ["system:masters", "b", "system:authenticated"] };
  for (const send of [client.request, client.requestHttp2]) {
    const answer = await send("GET", "/pods?a=1&a=2");
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text)).toMatchObject({ user, hasToken: false, a: ["1", "2"] });
  }
  const withHeader = await client.request("GET", "/pods", { authorization: "Bearer secret" });
  expect(JSON.parse(withHeader.text)).toMatchObject({ hasToken: false });
});

test.each([
  ["GET", "/nothing", 404, "404 page not found\n"],
  ["GET", "/pods/web", 404, "404: Page Not Found"],
  ["DELETE", "/pods", 405, "405: Method Not Allowed"],
  ["GET", "//pods", 307, '<a href="/pods">Temporary Redirect</a>.\n\n'],
  ["GET", "/stats/fails", 418, "short and stout"],
  ["GET", "/pods%zz", 400, "400 Bad Request"],
])("%s %s is answered with %i", async (method, path, status, text) => {
  for (const send of [client.request, client.requestHttp2]) {
    const answer = await send(method, path);
    expect([answer.status, answer.text]).toEqual([status, text]);
  }
});

test("an error is answered with its headers", async () => {
  const { status, headers } = await client.get("/stats/fails");
  expect([status, headers["x-content-type-options"]]).toEqual([418, "nosniff"]);
});

test("the body is read up to its limit", async () => {
  const sent = await client.request("POST", "/run/shop/web/app", {}, "0123456789");
  expect(sent.text).toBe('{"namespace":"shop","pod":"web","container":"app"} 0123456789');
  const tooLong = await client.request("POST", "/run/shop/web/app", {}, "01234567890");
  expect([tooLong.status, tooLong.text]).toEqual([413, "the body is larger than 10 bytes"]);
});

test("an answer that fails half-way breaks off, so that no part passes for the whole", async () => {
  await expect(client.get("/stats/breaks")).rejects.toThrow();
  await expect(client.requestHttp2("GET", "/stats/breaks")).rejects.toThrow();
  expect((await client.get("/pods")).status).toBe(200);
});

test("a client that goes away aborts its request", async () => {
  aborted.length = 0;
  const socket = await client.openSocket("GET /stats/endless HTTP/1.1\r\nHost: node\r\n\r\n");
  await new Promise((resolve) => socket.once("data", resolve));
  socket.destroy();
  while (aborted.length === 0) await Bun.sleep(5);
});

const upgrade = (path: string, protocol: string) =>
  `POST ${path} HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer secret\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;

test("an upgrade gets the connection, the raw headers without credentials, and what came behind them", async () => {
  const socket = await client.openSocket(`${upgrade("/exec/shop/web/app", "SPDY/3.1")}first`);
  socket.end(" second");
  const text = await readToEnd(socket);
  expect(text).toBe(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nHost,node,Connection,Upgrade,Upgrade,SPDY/3.1\nfirst second",
  );
});

test.each([
  ["/exec/shop/web/app?refuse", "HTTP/1.1 404 Not Found", "pod does not exist"],
  ["/nothing", "HTTP/1.1 404 Not Found", "404 page not found\n"],
  ["/run/a/b", "HTTP/1.1 404 Not Found", "404: Page Not Found"],
])("an upgrade of %s is answered on its connection, which ends then", async (path, line, body) => {
  const socket = await client.openSocket(upgrade(path, "SPDY/3.1"));
  const [head, text] = (await readToEnd(socket)).split("\r\n\r\n");
  expect([head?.split("\r\n")[0], text]).toEqual([line, body]);
  expect(head?.toLowerCase()).toContain("connection: close");
});

test("a client that ends its connection after such an upgrade aborts its request", async () => {
  aborted.length = 0;
  const socket = await client.openSocket(upgrade("/stats/endless", "h2c").replace("POST", "GET"));
  await new Promise((resolve) => socket.once("data", resolve));
  socket.end(Buffer.alloc(1 << 20));
  while (aborted.length === 0) await Bun.sleep(5);
});

test("an upgrade of an endpoint that has none is an ordinary request", async () => {
  const socket = await client.openSocket(upgrade("/pods", "h2c").replace("POST", "GET"));
  expect(await readToEnd(socket)).toContain('"username":"admin"');
});
