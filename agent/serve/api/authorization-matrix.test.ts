import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createClock } from "../../../host/clock.ts";
import type { Reviews } from "../../../kube/reviews.ts";
import { type ApiAnswer, createApiClient } from "../../../test/fakes/api-client.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createCertificateAuthority, type KeyPair } from "../../../test/upstream/pki.ts";
import { type ApiServer, createApiServer } from "./api-server.ts";
import { createAccessAuthorizer } from "./auth/access-authorizer.ts";
import { createRequestAuthenticator } from "./auth/request-authenticator.ts";
import { createTokenAuthenticator } from "./auth/token-authenticator.ts";
import type { Route } from "./route.ts";

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
  ["/stats/summary", "/stats/summary", ["get.stats"]],
  ["/logs/", "/logs/", ["get.log"]],
  ["/logs/syslog", "/logs/{path...}", ["get.log"]],
  ["/containerLogs/a/b/c", "/containerLogs/{namespace}/{pod}/{container}", ["get.proxy"]],
  ["/checkpoint/a/b/c", "/checkpoint/{namespace}/{pod}/{container}", ["get.checkpoint"]],
  ["/debug/pprof/profile", "/debug/pprof/profile", ["get.proxy"]],
  ["/debug/flags/v", "/debug/flags/v", ["get.proxy"]],
  ["/debug/pprof/heap", "/debug/pprof/heap", ["create.proxy"]],
  ["/run/a/b/c", "/run/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/exec/a/b/c", "/exec/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/exec/a/b/u/c", "/exec/{namespace}/{pod}/{uid}/{container}", ["create.proxy"]],
  ["/attach/a/b/c", "/attach/{namespace}/{pod}/{container}", ["create.proxy"]],
  ["/portForward/a/b", "/portForward/{namespace}/{pod}", ["create.proxy"]],
];
const subresources = ["healthz", "pods", "configz", "statusz", "metrics", "stats", "log", "checkpoint", "proxy"];
const allRights = subresources.flatMap((subresource) => [`get.${subresource}`, `create.${subresource}`]);

const clientCA = createCertificateAuthority("client-ca");
const foreignCA = createCertificateAuthority("client-ca");
const HOUR_MS = 3_600_000;

/** Whether the endpoint itself was called. */
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

/** The API server: a user may do what its name says, such as `get.pods`; `admin` may do everything. */
const reviews: Reviews = {
  reviewToken: async (token) =>
    token.startsWith("bad") ? { authenticated: false } : { authenticated: true, user: { username: token } },
  reviewAccess: async ({ user = "", resourceAttributes }) => ({
    allowed: user === "admin" || user === `${resourceAttributes?.verb}.${resourceAttributes?.subresource}`,
  }),
};

let server: ApiServer;
let port: number;
beforeAll(async () => {
  const clock = createClock();
  const serving = foreignCA.issue({ commonName: "node", hosts: ["127.0.0.1"] });
  server = createApiServer({
    routes,
    authenticator: createRequestAuthenticator({
      authenticateToken: createTokenAuthenticator({ ...reviews, cacheTtlMs: 120_000, clock }),
      allowsAnonymous: false,
      clock,
    }),
    authorizer: createAccessAuthorizer({
      ...reviews,
      nodeName: "node-a",
      allowedTtlMs: 300_000,
      deniedTtlMs: 30_000,
      clock,
    }),
    tls: { ...serving, ca: [clientCA.cert] },
    limits: { maxConnections: 100, maxUnauthenticated: 100, firstRequestTimeoutMs: 30_000, idleTimeoutMs: 90_000 },
    clock,
    log: new FakeLog(),
  });
  port = await server.listen(0, "127.0.0.1");
});
afterAll(() => server.stop());

interface Sender {
  readonly pair?: KeyPair;
  readonly token?: string;
}

const clientOf = (sender: Sender) => createApiClient({ port, ca: undefined, ...sender });
const upgrade = (sender: Sender, path: string, protocol: string): Promise<ApiAnswer> =>
  clientOf(sender).request("GET", path, { connection: "Upgrade", upgrade: protocol });

/** Sends every endpoint a GET and a POST, over one connection. */
async function askAll(
  sender: Sender,
  check: (method: string, index: number, answer: ApiAnswer) => void,
): Promise<void> {
  const client = clientOf(sender);
  const session = client.openSession();
  const asked = endpoints.flatMap(([path], index) =>
    ["GET", "POST"].map(async (method) => check(method, index, await client.requestHttp2(method, path, session))),
  );
  await Promise.all(asked);
  session.close();
}

const strangers: Readonly<Record<string, Sender>> = {
  "no credentials": {},
  "a bad token": { token: "bad-token" },
  "an empty token": { token: "" },
  "a certificate of another CA": { pair: foreignCA.issue({ commonName: "admin", organizations: ["system:masters"] }) },
  "an expired certificate": {
    pair: clientCA.issue({
      commonName: "admin",
      validFrom: new Date(Date.now() - 2 * HOUR_MS),
      validTo: new Date(Date.now() - HOUR_MS),
    }),
  },
  "a certificate without a name": { pair: clientCA.issue({ commonName: "" }) },
};

for (const [stranger, sender] of Object.entries(strangers))
  test(`${stranger}: every endpoint answers 401, however it is asked`, async () => {
    called = 0;
    await askAll(sender, (method, index, { status, text }) =>
      expect([method, endpoints[index]?.[0], status, text]).toEqual([
        method,
        endpoints[index]?.[0],
        401,
        "Unauthorized",
      ]),
    );
    for (const [path] of endpoints) {
      expect([path, (await clientOf(sender).get(path)).status]).toEqual([path, 401]);
      expect([path, (await upgrade(sender, path, "SPDY/3.1")).status]).toEqual([path, 401]);
    }
    expect((await upgrade(sender, "/exec/a/b/c", "websocket")).status).toBe(401);
    expect(called).toBe(0);
  });

test("each right opens exactly its endpoints", async () => {
  for (const right of ["nothing", ...allRights, "admin"])
    await askAll({ token: right }, (method, index, { status }) => {
      const [path = "", , rights = []] = endpoints[index] ?? [];
      const needed = method === "POST" ? rights.map((one) => one.replace("get", "create")) : rights;
      const isAllowed = right === "admin" || needed.includes(right);
      expect([right, method, path, status]).toEqual([right, method, path, isAllowed ? 200 : 403]);
    });
});

test("the name of a certificate has the same rights as that of a token, over HTTP/1.1 too", async () => {
  const sender = { pair: clientCA.issue({ commonName: "get.pods" }) };
  for (const [path, , rights] of endpoints) {
    const { status } = await clientOf(sender).get(path);
    expect([path, status]).toEqual([path, rights.includes("get.pods") ? 200 : 403]);
  }
});

test("an upgrade of a streaming endpoint by a reader is refused before the endpoint is called", async () => {
  called = 0;
  for (const [path, , rights] of endpoints) {
    if (!rights.includes("create.proxy")) continue;
    for (const protocol of ["SPDY/3.1", "websocket"]) {
      const { status, text } = await upgrade({ token: "get.proxy" }, path, protocol);
      expect([path, status]).toEqual([path, 403]);
      expect(text).toBe("Forbidden (user=get.proxy, verb=create, resource=nodes, subresource(s)=[proxy])\n");
    }
  }
  expect(called).toBe(0);
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
    expect([200, 101]).not.toContain((await clientOf({ token }).get(path)).status);
  expect(called).toBe(0);
});
