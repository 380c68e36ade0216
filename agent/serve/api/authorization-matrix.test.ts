import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { IncomingHttpHeaders } from "node:http";
import { PassThrough } from "node:stream";
import { createClock } from "../../../host/clock.ts";
import type { Reviews } from "../../../kube/reviews.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority, type KeyPair } from "../../../test/upstream/pki.ts";
import type { TrackedResponse } from "./api-response.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { createAccessAuthorizer } from "./auth/access-authorizer.ts";
import { createAdmitRequest } from "./auth/admit-request.ts";
import type { RequestCredentials } from "./auth/authenticator.ts";
import { createRequestAuthenticator } from "./auth/request-authenticator.ts";
import { createTokenAuthenticator } from "./auth/token-authenticator.ts";
import { dispatchRequest, type RequestDispatchDeps } from "./request-dispatch.ts";
import type { Route } from "./route.ts";
import { createRouteTable } from "./route-table.ts";

setDefaultTimeout(60_000);

/** Every endpoint of the kubelet, and the rights of which any one is enough for a GET. */
const endpoints: readonly (readonly [path: string, pattern: string, rights: readonly string[]])[] = [
  ["/healthz", "/healthz", ["get.healthz", "get.proxy"]],
  ["/healthz/ping", "/healthz/ping", ["get.healthz", "get.proxy"]],
  ["/healthz/syncloop", "/healthz/syncloop", ["get.healthz", "get.proxy"]],
  ["/pods", "/pods", ["get.pods", "get.proxy"]],
  ["/runningpods/", "/runningpods/", ["get.pods", "get.proxy"]],
  ["/configz", "/configz", ["get.configz", "get.proxy"]],
  ["/statusz", "/statusz", ["get.statusz"]],
  ["/flagz", "/flagz", ["get.configz"]],
  ["/metrics", "/metrics", ["get.metrics"]],
  ["/metrics/cadvisor", "/metrics/cadvisor", ["get.metrics"]],
  ["/metrics/resource", "/metrics/resource", ["get.metrics"]],
  ["/metrics/probes", "/metrics/probes", ["get.metrics"]],
  ["/metrics/slis", "/metrics/slis", ["get.metrics"]],
  ["/stats/summary", "/stats/summary", ["get.stats"]],
  ["/logs/", "/logs/", ["get.log"]],
  ["/logs/syslog", "/logs/{path...}", ["get.log"]],
  ["/containerLogs/a/b/c", "/containerLogs/{namespace}/{pod}/{container}", ["get.proxy"]],
  ["/checkpoint/a/b/c", "/checkpoint/{namespace}/{pod}/{container}", ["get.checkpoint"]],
  ["/debug/pprof/", "/debug/pprof/", ["get.proxy"]],
  ["/debug/pprof/profile", "/debug/pprof/profile", ["get.proxy"]],
  ["/debug/flags/v", "/debug/flags/v", ["get.proxy"]],
  ["/debug/pprof/heap", "/debug/pprof/heap", ["create.proxy"]],
  ["/run/a/b/c", "/run/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/run/a/b/u/c", "/run/{namespace}/{pod}/{uid}/{container}", ["create.proxy"]],
  ["/exec/a/b/c", "/exec/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/exec/a/b/u/c", "/exec/{namespace}/{pod}/{uid}/{container}", ["create.proxy"]],
  ["/attach/a/b/c", "/attach/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/attach/a/b/u/c", "/attach/{namespace}/{pod}/{uid}/{container}", ["create.proxy"]],
  ["/portForward/a/b", "/portForward/{namespace}/{pod}", ["create.proxy"]],
  ["/portForward/a/b/u", "/portForward/{namespace}/{pod}/{uid}", ["create.proxy"]],
];
const subresources = ["healthz", "pods", "configz", "statusz", "metrics", "stats", "log", "checkpoint", "proxy"];
const allRights = subresources.flatMap((subresource) => [`get.${subresource}`, `create.${subresource}`]);

/** How a request is sent. A browser can send a token only as a subprotocol of a WebSocket. */
interface Way {
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly headers: (authorization: string | undefined) => IncomingHttpHeaders;
}
const withHeader = (more: IncomingHttpHeaders) => (authorization: string | undefined) => ({
  ...more,
  ...(authorization !== undefined && { authorization }),
});
const spdy = withHeader({ connection: "Upgrade", upgrade: "SPDY/3.1" });
const webSocket = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-protocol": "v5.channel.k8s.io" };
const ways: readonly Way[] = [
  { name: "GET", method: "GET", headers: withHeader({}) },
  { name: "POST", method: "POST", headers: withHeader({}) },
  { name: "SPDY by GET", method: "GET", headers: spdy },
  { name: "SPDY by POST", method: "POST", headers: spdy },
  { name: "WebSocket", method: "GET", headers: withHeader(webSocket) },
  {
    name: "WebSocket with its token as a subprotocol",
    method: "GET",
    headers: (authorization) => ({ ...webSocket, "sec-websocket-protocol": protocolsWith(authorization) }),
  },
];

function protocolsWith(authorization: string | undefined): string {
  const token = Buffer.from(authorization?.slice("Bearer ".length) ?? "").toString("base64url");
  return ["v5.channel.k8s.io", ...(token ? [`base64url.bearer.authorization.k8s.io.${token}`] : [])].join(", ");
}

const clientCA = createCertificateAuthority("client-ca");
const foreignCA = createCertificateAuthority("client-ca");
const HOUR_MS = 3_600_000;

/** How often endpoints have been called. */
let called = 0;
const routes = endpoints.map(
  ([, pattern]): Route => ({
    pattern,
    methods: "all",
    async handle(_request, response) {
      called++;
      response.end("served");
    },
    async upgrade({ socket }) {
      called++;
      socket.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n");
    },
  }),
);

/** The API server: a user may do what its name says, such as `get.pods`, and `admin` everything; `grants` are other rights by name. */
const reviewsOf = (grants: Readonly<Record<string, string>>): Reviews => ({
  reviewToken: async (token) =>
    token.startsWith("bad") ? { authenticated: false } : { authenticated: true, user: { username: token } },
  async reviewAccess({ user = "", resourceAttributes }) {
    const right = grants[user] ?? user;
    return { allowed: right === "admin" || right === `${resourceAttributes?.verb}.${resourceAttributes?.subresource}` };
  },
});

const clock = createClock();
const log = new FakeLog();

/** `anonymousRight`: what requests without credentials may do; undefined if they are not allowed. */
function authOf(anonymousRight: string | undefined) {
  const reviews = reviewsOf({ "system:anonymous": anonymousRight ?? "nothing" });
  return {
    authenticator: createRequestAuthenticator({
      authenticateToken: createTokenAuthenticator({ ...reviews, cacheTtlMs: 120_000, clock }),
      allowsAnonymous: anonymousRight !== undefined,
      clock,
    }),
    authorizer: createAccessAuthorizer({
      ...reviews,
      nodeName: "node-a",
      allowedTtlMs: 300_000,
      deniedTtlMs: 30_000,
      clock,
    }),
  };
}

function dispatchDeps({ authenticator, authorizer }: ReturnType<typeof authOf>): RequestDispatchDeps {
  return { routes: createRouteTable(routes), admit: createAdmitRequest(authenticator, authorizer, log), log };
}

const auth = authOf(undefined);
const deps = dispatchDeps(auth);
/** The server's side of the connection that the last request came on, with its certificate. */
let connection: RequestCredentials["socket"];

// A handshake for each of some thousand requests would take longer than all else: the server gets one connection of each
// client, and the other requests are dispatched as if they came on this connection.
let server: ApiServer;
let port: number;
beforeAll(async () => {
  const serving = foreignCA.issue({ commonName: "node", hosts: ["127.0.0.1"] });
  server = createApiServer({
    ...auth,
    routes,
    authenticator: {
      authenticate(credentials) {
        connection = credentials.socket;
        return auth.authenticator.authenticate(credentials);
      },
    },
    tls: { ...serving, ca: [clientCA.cert] },
    limits: { maxConnections: 100, maxUnauthenticated: 100, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock,
    log,
  });
  port = await server.listen(0, "127.0.0.1");
});
afterAll(() => server.stop());

interface Sender {
  readonly pair?: KeyPair;
  readonly token?: string;
}
const clientOf = (sender: Sender) => createApiClient({ port, ca: undefined, ...sender });

/** Sends a GET of these paths over one connection of HTTP/2. `connection` is the server's side of it until it is closed. */
async function askServer(sender: Sender, paths: readonly string[]) {
  const client = clientOf(sender);
  const session = client.openSession();
  const statuses = await Promise.all(
    paths.map(async (path) => (await client.requestHttp2("GET", path, session)).status),
  );
  return { statuses, close: () => session.close() };
}

interface DispatchedAnswer {
  /** 101 if the endpoint has got the connection. */
  readonly status: number;
  readonly text: string;
  /** The connection counts as one of a client with credentials. */
  readonly isAuthenticated: boolean;
}

/** Dispatches a request that comes on `socket`. */
async function ask(
  target: string,
  { method, headers }: Way,
  { token, socket }: { readonly token?: string | undefined; readonly socket: RequestCredentials["socket"] },
  to = deps,
): Promise<DispatchedAnswer> {
  const sent = headers(token === undefined ? undefined : `Bearer ${token}`);
  let [status, text, isAuthenticated] = [101, "", false];
  const response: TrackedResponse = {
    start(given) {
      status = given;
    },
    async write() {},
    end(chunk = "") {
      if (status === 101) status = 200;
      text = String(chunk);
    },
    isStarted: () => status !== 101,
    isEnded: () => status !== 101,
    abort() {},
  };
  const upgrade = sent.upgrade && { protocol: sent.upgrade, rawHeaders: [], head: Buffer.alloc(0) };
  const request = {
    ...{ method, target, headers: sent, socket, signal: new AbortController().signal },
    onAuthenticated() {
      isAuthenticated = true;
    },
    body: async () => Buffer.alloc(0),
    upgrade: upgrade ? { ...upgrade, socket: new PassThrough() } : undefined,
  };
  await dispatchRequest(to, request, response);
  return { status, text, isAuthenticated };
}

/** Asks every endpoint in every way, and returns those whose answer is not what `isExpected` says. */
async function unexpected(
  sender: Parameters<typeof ask>[2],
  isExpected: (answer: DispatchedAnswer, row: { readonly path: string; readonly needed: readonly string[] }) => boolean,
  to = deps,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const [path, , rights] of endpoints)
    for (const way of ways) {
      const answer = await ask(path, way, sender, to);
      const needed = way.method === "POST" ? rights.map((one) => one.replace("get", "create")) : rights;
      if (!isExpected(answer, { path, needed })) found.push(`${way.name} ${path}: ${answer.status} ${answer.text}`);
    }
  return found;
}

const isServed = ({ status }: DispatchedAnswer) => status === 200 || status === 101;
const opensExactly =
  (right: string) =>
  (answer: DispatchedAnswer, { needed }: { readonly needed: readonly string[] }) =>
    right === "admin" || needed.includes(right) ? isServed(answer) : answer.status === 403;

const certificate = (more: object = {}) => ({
  pair: clientCA.issue({ commonName: "admin", organizations: ["system:masters"], ...more }),
});
const strangers: Readonly<Record<string, Sender>> = {
  "no credentials": {},
  "an empty token": { token: "" },
  "a bad token": { token: "bad-token" },
  "a certificate of another CA": { pair: foreignCA.issue({ commonName: "admin", organizations: ["system:masters"] }) },
  "an expired certificate": certificate({
    validFrom: new Date(Date.now() - 2 * HOUR_MS),
    validTo: new Date(Date.now() - HOUR_MS),
  }),
  "a certificate that is not valid yet": certificate({ validFrom: new Date(Date.now() + HOUR_MS) }),
  "a certificate without a name": certificate({ commonName: "" }),
};
/** Where anonymous requests are allowed and may do everything. */
const open = dispatchDeps(authOf("admin"));

for (const [stranger, sender] of Object.entries(strangers))
  test(`${stranger}: every endpoint answers 401, however it is asked`, async () => {
    called = 0;
    const { statuses, close } = await askServer(
      sender,
      endpoints.map(([path]) => path),
    );
    expect(statuses).toEqual(endpoints.map(() => 401));
    const dispatched = { ...sender, socket: connection };
    const isRefused = ({ status, text, isAuthenticated }: DispatchedAnswer) =>
      status === 401 && text === "Unauthorized" && !isAuthenticated;
    expect(await unexpected(dispatched, isRefused)).toEqual([]);
    for (const protocol of ["SPDY/3.1", "websocket"]) {
      const answer = await clientOf(sender).request("POST", "/exec/a/b/c", {
        connection: "Upgrade",
        upgrade: protocol,
      });
      expect([protocol, answer.status]).toEqual([protocol, 401]);
    }
    expect(called).toBe(0);
    // Bad credentials do not make a request anonymous; what is none does.
    const isAnonymous = ["no credentials", "an empty token"].includes(stranger);
    expect(await unexpected(dispatched, isAnonymous ? isServed : isRefused, open)).toEqual([]);
    close();
  });

const withoutCertificate = { authorized: false, getPeerCertificate: () => undefined as never };

test.each(["nothing", ...allRights, "admin"])("the right %s opens exactly its endpoints", async (right) => {
  const isExpected = opensExactly(right);
  const isRight: typeof isExpected = (answer, row) =>
    answer.isAuthenticated === isServed(answer) && isExpected(answer, row);
  expect(await unexpected({ token: right, socket: withoutCertificate }, isRight)).toEqual([]);
});

test.each(["nothing", "get.pods", "get.proxy", "create.proxy", "admin"])(
  "anonymous requests, where they are allowed, with the right %s open exactly its endpoints, and stay without credentials",
  async (right) => {
    const isExpected = opensExactly(right);
    const isRight: typeof isExpected = (answer, row) => !answer.isAuthenticated && isExpected(answer, row);
    expect(await unexpected({ socket: withoutCertificate }, isRight, dispatchDeps(authOf(right)))).toEqual([]);
  },
);

test.each(["nothing", "get.pods", "create.proxy"])(
  "the name %s of a certificate has the same rights as that of a token",
  async (right) => {
    const { statuses, close } = await askServer({ pair: clientCA.issue({ commonName: right }) }, [
      "/pods",
      "/exec/a/b/c",
    ]);
    expect(statuses).toEqual(["get.pods", "create.proxy"].map((needed) => (needed === right ? 200 : 403)));
    expect(await unexpected({ socket: connection }, opensExactly(right))).toEqual([]);
    close();
  },
);

test("an upgrade of a streaming endpoint by a reader is refused before the endpoint is called", async () => {
  called = 0;
  for (const protocol of ["SPDY/3.1", "websocket"]) {
    const headers = { connection: "Upgrade", upgrade: protocol };
    const { status, text } = await clientOf({ token: "get.proxy" }).request("GET", "/exec/a/b/c", headers);
    expect([status, text]).toEqual([
      403,
      "Forbidden (user=get.proxy, verb=create, resource=nodes, subresource(s)=[proxy])\n",
    ]);
  }
  expect(called).toBe(0);
  const creator = clientOf({ token: "create.proxy" });
  const socket = await creator.openSocket(
    "GET /exec/a/b/c HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer create.proxy\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n",
  );
  const first = await new Promise<Buffer>((resolve) => socket.once("data", resolve));
  expect(first.toString()).toStartWith("HTTP/1.1 101 ");
  socket.destroy();
});

test("the text of a refusal names both subresources of a fine-grained endpoint", async () => {
  const { text } = await clientOf({ token: "nothing" }).get("/pods");
  expect(text).toBe("Forbidden (user=nothing, verb=get, resource=nodes, subresource(s)=[pods proxy])\n");
});

test("a good certificate counts beside a bad token, and a good token beside a bad certificate", async () => {
  const good = clientCA.issue({ commonName: "admin" });
  const bad = foreignCA.issue({ commonName: "admin" });
  expect((await clientOf({ pair: good, token: "bad" }).get("/pods")).status).toBe(200);
  expect((await clientOf({ pair: bad, token: "admin" }).get("/pods")).status).toBe(200);
  expect((await clientOf({ pair: bad, token: "bad" }).get("/pods")).status).toBe(401);
});

test.each([
  "/exec%2Fa/b/c",
  "/stats/%2e%2e/exec/a/b/c",
  "/%65xec/a/b/c",
  "//exec/a/b/c",
  "/EXEC/a/b/c",
  "/exec/a/b/c/",
])("%s, another way to write a path, opens nothing", async (path) => {
  called = 0;
  for (const token of ["get.stats", "get.log", "get.proxy"])
    for (const way of ways)
      expect([200, 101]).not.toContain((await ask(path, way, { token, socket: withoutCertificate })).status);
  expect(called).toBe(0);
});
