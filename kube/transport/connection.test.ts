import { afterEach, describe, expect, test } from "bun:test";
import { createSecureServer, type SecureServerOptions } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { type Clock, createClock } from "../../host/clock.ts";
import { until as untilWithin } from "../../test/bed/poll-until.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { fixedCluster } from "../../test/fakes/cluster-endpoint.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createTlsServer, type Received, reply, type TlsServer } from "../../test/fakes/tls-server.ts";
import { createAuthority } from "../../test/upstream/pki.ts";
import { type Relay, startRelay } from "../../test/upstream/tcp-relay.ts";
import type { Cluster, ClusterSource } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { KubeError } from "../error.ts";
import { type Connection, type ConnectionState, createConnection } from "./connection.ts";
import type { Rates } from "./flow-control.ts";

const dayMs = 86_400_000;
const now = Date.now();
const authority = createAuthority("kubernetes");
const hosts = ["127.0.0.1", "localhost"];
const serving = authority.issue({ commonName: "kube-apiserver", hosts });
const ours = authority.issue({ commonName: "system:node:a", organizations: ["system:nodes"] });
const expired = { validFrom: new Date(now - 9 * dayMs), validTo: new Date(now - dayMs) };
const future = { validFrom: new Date(now + dayMs), validTo: new Date(now + 9 * dayMs) };

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

interface Setting {
  readonly source?: ClusterSource;
  readonly port?: number;
  readonly host?: string;
  readonly cluster?: Partial<Cluster>;
  readonly identity?: Identity;
  readonly clock?: Clock;
  readonly rates?: Partial<Rates>;
  readonly log?: FakeLog;
  readonly random?: () => number;
}

const plain = (server: string) => ({
  server: new URL(server),
  certificateAuthority: authority.cert,
  tlsServerName: undefined,
  insecureSkipTlsVerify: false,
});

function connectTo({
  source,
  port = 1,
  host = "127.0.0.1",
  cluster,
  identity = {},
  clock,
  rates,
  log,
  random,
}: Setting): Connection {
  const connection = createConnection({
    cluster: source ?? fixedCluster({ ...plain(`https://${host}:${port}`), credentials: fixed(identity), ...cluster }),
    userAgent: "berth/test",
    rates: { main: undefined, events: undefined, ...rates },
    clock: clock ?? createClock(),
    random: random ?? (() => 0.5),
    log: log ?? new FakeLog(),
  });
  closers.push(() => connection.close());
  return connection;
}

function fixed(identity: Identity) {
  return { identity: () => Promise.resolve(identity), refused: () => undefined };
}

async function serve(answer: (request: Received) => void, options: SecureServerOptions = serving): Promise<TlsServer> {
  const server = await createTlsServer(options, answer);
  closers.push(server.close);
  return server;
}

async function relayTo({ port }: TlsServer): Promise<Relay> {
  const relay = await startRelay(port);
  closers.push(relay.close);
  return relay;
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  closers.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A clock that begins at a time and runs so many times as fast. */
function runningFrom(at: number, speed: number): Clock {
  const { now: realNow, wakeAt } = createClock();
  const began = realNow();
  const time = () => at + (realNow() - began) * speed;
  return { now: time, wakeAt: (then, wake) => wakeAt(realNow() + (then - time()) / speed, wake) };
}

const get = (path: string) => ({ method: "GET", path, deadlineMs: 5000 }) as const;

async function failureOf(work: Promise<unknown>): Promise<KubeError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof KubeError) return error;
    throw error;
  }
  throw new Error("it succeeded");
}

test("JSON comes back, a session is shared, and what was sent is what was asked for", async () => {
  const server = await serve((request) => reply(request, 200, { path: request.path }));
  const connection = connectTo({ port: server.port, identity: { token: "secret-token" } });
  expect(connection.state()).toEqual({ kind: "never connected" });

  const answers = await Promise.all([
    connection.request(get("/api/v1/nodes/a")),
    connection.request({ ...get("/api/v1/pods"), query: { fieldSelector: "spec.nodeName=a b", limit: undefined } }),
    connection.request({ ...get("/x"), method: "PATCH", body: { ä: 1 }, contentType: "application/merge-patch+json" }),
  ]);

  expect(answers).toEqual([
    { path: "/api/v1/nodes/a" },
    { path: "/api/v1/pods?fieldSelector=spec.nodeName%3Da+b" },
    { path: "/x" },
  ]);
  expect(server.connections()).toBe(1);
  expect(connection.state().kind).toBe("connected");
  const patch = server.received.find(({ method }) => method === "PATCH");
  expect(patch?.body).toBe('{"ä":1}');
  expect(patch?.headers["content-type"]).toBe("application/merge-patch+json");
  expect(patch?.headers.authorization).toBe("Bearer secret-token");
  expect(patch?.headers["user-agent"]).toBe("berth/test");
});

test("a body of megabytes arrives whole", async () => {
  const server = await serve((request) => reply(request, 200, request.body.length));
  const body = "x".repeat(3 << 20);
  expect(await connectTo({ port: server.port }).request({ ...get("/x"), method: "PUT", body })).toBe(body.length + 2);
});

test("a path of the server stands before that of each request", async () => {
  const server = await serve((request) => reply(request, 200, { path: request.path }));
  const connection = connectTo({
    cluster: { server: new URL(`https://127.0.0.1:${server.port}/k8s/clusters/c1/`) },
  });
  expect(await connection.request(get("/api"))).toEqual({ path: "/k8s/clusters/c1/api" });
});

describe("what keeps us from the server is said with what to do:", () => {
  interface Row {
    readonly when: string;
    readonly setting: () => Setting | Promise<Setting>;
    readonly code: string;
    readonly says: RegExp;
  }
  const withServer = async (options: SecureServerOptions, setting: Setting = {}): Promise<Setting> => ({
    port: (await serve((request) => reply(request, 200, {}), options)).port,
    ...setting,
  });
  const rows: readonly Row[] = [
    {
      when: "no such host",
      setting: () => ({ host: "no-such-host.invalid" }),
      code: "UNREACHABLE",
      says: /there is no host no-such-host\.invalid: correct the server's address/,
    },
    {
      when: "nobody listens",
      setting: () => ({ port: 1 }),
      code: "UNREACHABLE",
      says: /nobody listens at 127\.0\.0\.1:1: is the API server running/,
    },
    {
      when: "a port without TLS",
      setting: async () => ({
        port: await listening(createTcpServer((socket) => socket.end("HTTP/1.1 400 Bad\r\n\r\n"))),
      }),
      code: "UNREACHABLE",
      says: /does not speak TLS/,
    },
    {
      when: "a server without HTTP/2",
      setting: async () => ({ port: await listening(createHttpsServer(serving)) }),
      code: "UNREACHABLE",
      says: /does not speak HTTP\/2/,
    },
    {
      when: "a connection that is broken off",
      setting: async () => ({ port: await listening(createTcpServer((socket) => socket.destroy())) }),
      code: "UNREACHABLE",
      says: /was broken off/,
    },
    {
      when: "a certificate of another authority",
      setting: () => withServer(createAuthority("kubernetes").issue({ commonName: "kube-apiserver", hosts })),
      code: "TLS",
      says: /not from the certificate authority that we were given: correct certificate-authority/,
    },
    {
      when: "the server's certificate has expired",
      setting: () => withServer(authority.issue({ commonName: "kube-apiserver", hosts, ...expired })),
      code: "TLS",
      says: /the certificate of 127\.0\.0\.1:\d+ has expired by this machine's clock \(20\d\d-.*\): renew it on the server/,
    },
    {
      when: "a clock at 1970",
      setting: () =>
        withServer(authority.issue({ commonName: "kube-apiserver", hosts, ...future }), {
          clock: runningFrom(60_000, 1),
        }),
      code: "TLS",
      says: /is not valid yet by this machine's clock \(1970-01-01\): set the clock/,
    },
    {
      when: "a certificate for another name",
      setting: () => withServer(authority.issue({ commonName: "kube-apiserver", hosts: ["api.example"] })),
      code: "TLS",
      says: /is not made out to 127\.0\.0\.1: use a name that it carries/,
    },
    {
      when: "a tls-server-name that the certificate does not carry",
      setting: () => withServer(serving, { cluster: { tlsServerName: "api.example" } }),
      code: "TLS",
      says: /is not made out to api\.example: use a name that it carries \(IP Address:127\.0\.0\.1, DNS:localhost\) as server/,
    },
    {
      when: "only TLS 1.1",
      setting: () => withServer({ ...serving, minVersion: "TLSv1", maxVersion: "TLSv1.1" }),
      code: "TLS",
      says: /does not speak TLS 1\.2/,
    },
    {
      when: "a client certificate is wanted and there is none",
      setting: () => withServer({ ...serving, requestCert: true, rejectUnauthorized: true, ca: authority.cert }),
      code: "TLS",
      says: /certificate required.*a client without credentials/,
    },
    {
      when: "our own certificate has expired, and the server resets",
      setting: () =>
        withServer(
          { ...serving, requestCert: true, rejectUnauthorized: true, ca: authority.cert, maxVersion: "TLSv1.2" },
          { identity: { certificate: authority.issue({ commonName: "system:node:a", ...expired }) } },
        ),
      code: "TLS",
      says: /our client certificate has expired on 20\d\d-.*give this node a new one/,
    },
    {
      when: "our own certificate has expired, and the server says nothing",
      setting: () =>
        withServer(
          { ...serving, requestCert: true, rejectUnauthorized: true, ca: authority.cert },
          { identity: { certificate: authority.issue({ commonName: "system:node:a", ...expired }) } },
        ),
      code: "TLS",
      says: /our client certificate has expired on 20\d\d-.*give this node a new one/,
    },
  ];
  for (const { when, setting, code, says } of rows)
    test(when, async () => {
      const connection = connectTo({ clock: runningFrom(now, 20), ...(await setting()) });
      const error = await failureOf(connection.request({ ...get("/healthz"), deadlineMs: 60_000 }));
      expect(error.message).toMatch(says);
      expect(error.code).toBe(code as KubeError["code"]);
      expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { why: { code } } });
    });

  test("a server that never speaks", async () => {
    const port = await listening(createTcpServer(() => undefined));
    const clock = new FakeClock();
    const connection = connectTo({ port, clock });
    const failure = failureOf(connection.request({ ...get("/healthz"), deadlineMs: 11_000 }));
    await clock.advance(11_000);
    const error = await failure;
    expect(error.code).toBe("TIMEOUT");
    expect(error.message).toMatch(
      /^GET \/healthz: no answer within 11 s: 127\.0\.0\.1:\d+ does not answer: is the address/,
    );
  });

  test("NODE_TLS_REJECT_UNAUTHORIZED changes nothing", async () => {
    const { port } = await serve(
      (request) => reply(request, 200, {}),
      createAuthority("kubernetes").issue({ commonName: "x", hosts }),
    );
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      expect((await failureOf(connectTo({ port }).request(get("/")))).code).toBe("TLS");
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
  });
});

test("insecure-skip-tls-verify and tls-server-name do what they say", async () => {
  const other = createAuthority("other").issue({ commonName: "x", hosts: ["api.example"] });
  const { port } = await serve((request) => reply(request, 200, 1), other);
  const insecure = connectTo({ port, cluster: { certificateAuthority: undefined, insecureSkipTlsVerify: true } });
  expect(await insecure.request(get("/"))).toBe(1);
  const named = await serve(
    (request) => reply(request, 200, 2),
    authority.issue({ commonName: "x", hosts: ["api.example"] }),
  );
  expect(await connectTo({ port: named.port, cluster: { tlsServerName: "api.example" } }).request(get("/"))).toBe(2);
});

describe("an answer that is no success:", () => {
  const failure = (code: number, reason: string, message: string) => ({
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    code,
    reason,
    message,
  });
  const rows: readonly [status: number, body: unknown, code: string, says: RegExp, identity?: Identity][] = [
    [
      401,
      failure(401, "Unauthorized", "Unauthorized"),
      "UNAUTHORIZED",
      /^127\.0\.0\.1:\d+ does not accept our token: renew it, or use the kubeconfig of this cluster$/,
      { token: "t" },
    ],
    [
      401,
      failure(401, "Unauthorized", "Unauthorized"),
      "UNAUTHORIZED",
      /^127\.0\.0\.1:\d+ does not accept us: our client certificate has expired on/,
      { certificate: authority.issue({ commonName: "system:node:a", ...expired }) },
    ],
    [
      403,
      failure(403, "Forbidden", 'nodes "b" is forbidden: node "a" is not allowed to modify node "b"'),
      "FORBIDDEN",
      /not allowed to modify node "b"; we are the client certificate of "system:node:a"/,
      { certificate: ours },
    ],
    [404, failure(404, "NotFound", 'nodes "a" not found'), "NOT_FOUND", /^GET \/x: nodes "a" not found$/],
    [409, failure(409, "Conflict", "changed"), "CONFLICT", /changed/],
    [409, failure(409, "AlreadyExists", "exists"), "ALREADY_EXISTS", /exists/],
    [410, failure(410, "Expired", "too old"), "GONE", /too old/],
    [422, failure(422, "Invalid", "wrong"), "INVALID", /wrong/],
    [400, failure(400, "BadRequest", "bad"), "INVALID", /bad/],
    [501, "<html>", "SERVER", /the API server answered 501/],
  ];
  for (const [status, body, code, says, identity] of rows)
    test(`${status} is ${code}, ${says}`, async () => {
      const { port } = await serve((request) => reply(request, status, body));
      const error = await failureOf(connectTo({ port, ...(identity && { identity }) }).request(get("/x")));
      expect(error.message).toMatch(says);
      expect(error).toMatchObject({ code, status });
    });
});

describe("an answer that cannot be used:", () => {
  test("a page of a proxy", async () => {
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "text/html; charset=utf-8" });
      stream.end("<html>secret words</html>");
    });
    const error = await failureOf(connectTo({ port }).request(get("/x")));
    expect(error.code).toBe("NOT_JSON");
    expect(error.message).toBe(
      "GET /x: the answer is text/html and not JSON: is this the API server, without a proxy in between?",
    );
  });

  test("half of a JSON", async () => {
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      stream.end('{"kind":"Secret","da');
    });
    const error = await failureOf(connectTo({ port }).request(get("/x")));
    expect(error.code).toBe("NOT_JSON");
    expect(error.message).toBe("GET /x: the answer is no whole JSON (20 characters)");
  });

  test("fewer bytes than were promised", async () => {
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json", "content-length": "100" });
      stream.end("[1]");
    });
    const error = await failureOf(connectTo({ port }).request(get("/x")));
    expect(error.code).toBe("NOT_JSON");
    expect(error.message).toBe("GET /x: the answer ended after 3 of 100 bytes");
  });

  test("one that is larger than 16 MiB", async () => {
    const mebibyte = Buffer.alloc(1 << 20, 32);
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      const more = () => {
        while (!stream.destroyed && stream.write(mebibyte));
      };
      stream.on("drain", more);
      more();
    });
    const error = await failureOf(connectTo({ port }).request({ ...get("/x"), deadlineMs: 20_000 }));
    expect(error.code).toBe("TOO_LARGE");
    expect(error.message).toBe("GET /x: the answer is larger than 16 MiB");
  }, 30_000);

  test("one that arrives in chunks which part letters is whole", async () => {
    const text = JSON.stringify({ name: "größer ☃ 🚢" });
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      for (const byte of Buffer.from(text)) stream.write(Buffer.of(byte));
      stream.end();
    });
    expect(await connectTo({ port }).request(get("/x"))).toEqual({ name: "größer ☃ 🚢" });
  });

  test("one that is packed is unpacked, up to the same size, and a watch is never packed", async () => {
    const server = await serve(({ stream, path }) => {
      stream.respond({ ":status": 200, "content-type": "application/json", "content-encoding": "gzip" });
      if (path === "/broken") stream.end("no gzip");
      else stream.end(gzipSync(path === "/bomb" ? Buffer.alloc(17 << 20, 32) : '{"name":"☃"}'));
    });
    const connection = connectTo({ port: server.port });
    expect(await connection.request(get("/x"))).toEqual({ name: "☃" });
    expect(await failureOf(connection.request(get("/bomb")))).toMatchObject({
      code: "TOO_LARGE",
      message: "GET /bomb: the answer is larger than 16 MiB",
    });
    expect(await failureOf(connection.request(get("/broken")))).toMatchObject({
      code: "NOT_JSON",
      message: "GET /broken: the answer cannot be unpacked",
    });
    await connection.lines({ method: "GET", path: "/watch" }, () => undefined);
    expect(server.received.map(({ headers }) => headers["accept-encoding"])).toEqual([
      "gzip",
      "gzip",
      "gzip",
      undefined,
    ]);
  });

  test("our own body in the server's words is left out", async () => {
    const message = "couldn't get version/kind (226e6f6e73656e736522)";
    const { port } = await serve((request) => reply(request, 400, { kind: "Status", reason: "BadRequest", message }));
    const error = await failureOf(connectTo({ port }).request({ ...get("/x"), method: "POST", body: "nonsense" }));
    expect(error.message).toBe("POST /x: couldn't get version/kind (…)");
  });

  test("none at all is undefined", async () => {
    const { port } = await serve((request) => reply(request, 200, undefined));
    expect(await connectTo({ port }).request(get("/x"))).toBeUndefined();
  });
});

describe("a request is sent again", () => {
  test("after a 429, when the server wants it, whatever it is", async () => {
    const clock = new FakeClock();
    const server = await serve((request) =>
      server.received.length === 1 ? reply(request, 429, {}, { "retry-after": "2" }) : reply(request, 200, "ok"),
    );
    const answer = connectTo({ port: server.port, clock }).request({ ...get("/x"), method: "POST", body: {} });
    await until(() => server.received.length === 1 && clock.timers > 1);
    await clock.advance(1999);
    expect(server.received.length).toBe(1);
    await clock.advance(100);
    expect(await answer).toBe("ok");
  });

  test("after a 503, where it only reads", async () => {
    const server = await serve((request) => reply(request, server.received.length < 3 ? 503 : 200, "ok"));
    expect(await connectTo({ port: server.port }).request(get("/x"))).toBe("ok");
    expect(server.received.length).toBe(3);
  });

  test("not for ever", async () => {
    const server = await serve((request) => reply(request, 500, { kind: "Status", message: "etcd is away" }));
    const error = await failureOf(connectTo({ port: server.port }).request(get("/x")));
    expect(error.message).toBe("GET /x: etcd is away");
    expect(server.received.length).toBe(5);
  });

  test("not when its time would be over by then", async () => {
    const server = await serve((request) => reply(request, 429, {}, { "retry-after": "60" }));
    const error = await failureOf(connectTo({ port: server.port }).request(get("/x")));
    expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS", retryAfterMs: 60_000 });
    expect(server.received.length).toBe(1);
  });

  for (const method of ["POST", "PATCH", "PUT"] as const)
    test(`not after a 503, where it is a ${method} that may have been carried out`, async () => {
      const server = await serve((request) => reply(request, 503, {}));
      const error = await failureOf(connectTo({ port: server.port }).request({ ...get("/x"), method, body: {} }));
      expect(error.code).toBe("SERVER");
      expect(server.received.length).toBe(1);
    });

  test("when the connection broke in the middle of the answer, where it only reads", async () => {
    const server = await serve((request) => {
      if (server.received.length > 1) return reply(request, 200, "ok");
      request.stream.respond({ ":status": 200 });
      request.stream.write('"o');
    });
    const relay = await relayTo(server);
    const asked = connectTo({ port: relay.port }).request(get("/x"));
    await until(() => server.received.length === 1);
    relay.reset();
    expect(await asked).toBe("ok");
  });

  test("not when the connection broke, where it is a PATCH", async () => {
    const server = await serve(() => relay.reset());
    const relay = await relayTo(server);
    const connection = connectTo({ port: relay.port });
    const error = await failureOf(connection.request({ ...get("/x"), method: "PATCH", body: {} }));
    expect(error).toMatchObject({ code: "UNREACHABLE", isUnprocessed: false });
    expect(server.received.length).toBe(1);
    expect(connection.state()).toMatchObject({ kind: "away" });
  });

  test("by another session when the server has said that it goes away, and what is under way ends where it is", async () => {
    const server = await serve((request) => {
      if (request.path === "/slow") request.session.goaway(0, request.stream.id);
      else reply(request, 200, request.connection);
    });
    const connection = connectTo({ port: server.port });
    expect(await connection.request(get("/1"))).toBe(1);
    const slow = connection.request(get("/slow"));
    await until(() => server.received.length === 2);
    expect(await connection.request({ ...get("/2"), method: "POST", body: {} })).toBe(2);
    const first = server.received[1];
    if (first !== undefined) reply(first, 200, "late");
    expect(await slow).toBe("late");
    expect(connection.state().kind).toBe("connected");
    await until(() => server.open().length === 1);
  });

  test("when as many watches stand as a connection may have: it goes over another one", async () => {
    const server = await serve(
      (request) => {
        if (!request.path.startsWith("/watch")) return reply(request, 200, "ok");
        request.stream.respond({ ":status": 200 });
      },
      { ...serving, settings: { maxConcurrentStreams: 100 } },
    );
    const connection = connectTo({ port: server.port });
    const { promise: areOpen, resolve } = Promise.withResolvers<void>();
    let opened = 0;
    const count = () => {
      opened += 1;
      if (opened === 130) resolve();
    };
    const leaving = new AbortController();
    const watches = Array.from({ length: 130 }, (_, index) =>
      connection.lines({ method: "GET", path: `/watch/${index}`, signal: leaving.signal }, () => {}, count),
    );
    await areOpen;
    expect(await connection.request({ ...get("/x"), method: "POST", body: {} })).toBe("ok");
    expect(server.open().length).toBe(2);
    leaving.abort();
    await Promise.all(watches);
    // What is full is no longer needed once its streams have ended.
    await until(() => server.open().length === 1);
  });

  test("when the server had no room for one more, whatever it is", async () => {
    const server = await serve((request) => setTimeout(() => reply(request, 200, "ok"), 20), {
      ...serving,
      settings: { maxConcurrentStreams: 1 },
    });
    const connection = connectTo({ port: server.port });
    const post = { ...get("/x"), method: "POST", body: {} } as const;
    expect(await Promise.all([connection.request(post), connection.request(post), connection.request(post)])).toEqual([
      "ok",
      "ok",
      "ok",
    ]);
    expect(server.received.length).toBe(3);
  });

  test("when it came to a server that was just starting", async () => {
    const probe = createTcpServer();
    const port = await listening(probe);
    await new Promise((resolve) => probe.close(resolve));
    const asked = connectTo({ port }).request({ ...get("/x"), method: "POST", body: {} });
    const late = createSecureServer(serving, (_request, response) => void response.end('"ok"'));
    const timer = setTimeout(() => late.listen(port, "127.0.0.1"), 150);
    closers.push(() => {
      clearTimeout(timer);
      late.close();
    });
    expect(await asked).toBe("ok");
  });
});

describe("when a 401 comes", () => {
  test("and newer credentials can be had, they are presented at once", async () => {
    const server = await serve((request) =>
      reply(request, request.headers.authorization === "Bearer new" ? 200 : 401, "ok"),
    );
    let identity = { token: "old" };
    const credentials = {
      identity: () => Promise.resolve(identity),
      refused: () => {
        identity = { token: "new" };
      },
    };
    const connection = connectTo({ port: server.port, cluster: { credentials } });
    expect(await connection.request({ ...get("/x"), method: "POST", body: {} })).toBe("ok");
    expect(connection.state().kind).toBe("connected");
  });

  test("and there are no others, it is said, and the server counts as away", async () => {
    const server = await serve((request) => reply(request, 401, {}));
    const connection = connectTo({ port: server.port, identity: { token: "t" } });
    expect((await failureOf(connection.request(get("/x")))).code).toBe("UNAUTHORIZED");
    expect(server.received.length).toBe(1);
    expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { why: { code: "UNAUTHORIZED" } } });
  });
});

test("a new certificate is presented by a new session, and what is under way goes on", async () => {
  const options = { ...serving, requestCert: true, rejectUnauthorized: false, ca: authority.cert };
  const server = await serve((request) => {
    if (request.path === "/watch") {
      request.stream.respond({ ":status": 200 });
      request.stream.write('{"n":1}\n');
    } else reply(request, 200, request.connection);
  }, options);
  const renewed = authority.issue({ commonName: "system:node:a", organizations: ["system:nodes"] });
  let identity: Identity = { certificate: ours };
  const credentials = { identity: () => Promise.resolve(identity), refused: () => undefined };
  const connection = connectTo({ port: server.port, cluster: { credentials } });
  const lines: unknown[] = [];
  const watch = connection.lines({ method: "GET", path: "/watch" }, (line) => lines.push(line));
  await until(() => lines.length === 1);
  expect(await connection.request(get("/"))).toBe(1);

  identity = { certificate: renewed };
  expect(await connection.request(get("/"))).toBe(2);
  expect(await connection.request(get("/"))).toBe(2);

  server.received[0]?.stream.end('{"n":2}\n');
  expect(await watch).toBeUndefined();
  expect(lines).toEqual([{ n: 1 }, { n: 2 }]);
  // The older session has nothing more to do.
  await until(() => server.open().length === 1);
});

test("another server, or another authority, is connected to by a new session, and what is under way goes on", async () => {
  const options = { ...serving, requestCert: true, rejectUnauthorized: false, ca: authority.cert };
  const answer = (request: Received) => {
    if (request.path !== "/watch") return reply(request, 200, request.session.socket.localPort);
    request.stream.respond({ ":status": 200 });
    request.stream.write('{"n":1}\n');
  };
  const [first, second] = [await serve(answer, options), await serve(answer, options)];
  let cluster: Cluster = { ...plain(`https://127.0.0.1:${first.port}`), credentials: fixed({}) };
  const source = { server: () => cluster.server, latest: () => Promise.resolve(cluster) };
  const log = new FakeLog();
  const connection = connectTo({ source, log });
  const lines: unknown[] = [];
  const watch = connection.lines({ method: "GET", path: "/watch" }, (line) => lines.push(line));
  await until(() => lines.length === 1);
  expect(await connection.request(get("/"))).toBe(first.port);

  cluster = { ...cluster, server: new URL(`https://127.0.0.1:${second.port}`) };
  expect(await connection.request(get("/"))).toBe(second.port);
  cluster = { ...cluster, certificateAuthority: createAuthority("kubernetes").cert };
  expect((await failureOf(connection.request(get("/")))).code).toBe("TLS");
  cluster = { ...cluster, certificateAuthority: authority.cert };
  expect(await connection.request(get("/"))).toBe(second.port);

  first.received[0]?.stream.end('{"n":2}\n');
  expect(await watch).toBeUndefined();
  expect(lines).toEqual([{ n: 1 }, { n: 2 }]);
  await until(() => first.open().length === 0);
});

describe("what stands between us and the server is told", () => {
  test("once for each reason, whatever is asked for, and so is its end; that a connection stands is no end", async () => {
    const answers = { token: "none" };
    const server = await serve((request) => {
      const isKnown = request.headers.authorization === `Bearer ${answers.token}`;
      reply(request, isKnown ? 200 : 401, {});
    });
    const log = new FakeLog();
    let port = 1;
    const clusterNow = () => ({ ...plain(`https://127.0.0.1:${port}`), credentials: fixed({ token: "ours" }) });
    const source = { server: () => clusterNow().server, latest: async () => clusterNow() };
    const connection = connectTo({ source, log, clock: runningFrom(now, 20) });
    const ask = (path: string) => failureOf(connection.request({ ...get(path), method: "POST", deadlineMs: 60_000 }));
    for (const path of ["/a", "/b", "/c"]) await ask(path);
    port = server.port;
    for (const path of ["/a", "/b", "/c"]) {
      expect((await ask(path)).code).toBe("UNAUTHORIZED");
      // As the real one does it with a client that it does not know.
      for (const session of server.open()) session.destroy();
      await until(() => server.open().length === 0);
    }
    const { since, lastFailure } = connection.state() as Extract<ConnectionState, { kind: "away" }>;
    expect(lastFailure.at).toBeGreaterThan(since);
    answers.token = "ours";
    await connection.request(get("/a"));
    expect(log.told()).toEqual([
      "warn: the API server cannot be used: nobody listens at 127.0.0.1:1: is the API server running, and is this its port?; trying again",
      `warn: the API server cannot be used: 127.0.0.1:${port} does not accept our token: renew it, or use the kubeconfig of this cluster; trying again`,
      "info: the API server answers again",
    ]);
    expect(connection.state()).toMatchObject({ kind: "connected", lastFailure: { why: { code: "UNAUTHORIZED" } } });
  });

  test("not where a newer token was had at once", async () => {
    const server = await serve((request) =>
      reply(request, request.headers.authorization === "Bearer b" ? 200 : 401, {}),
    );
    let identity = { token: "a" };
    const refused = () => {
      identity = { token: "b" };
    };
    const log = new FakeLog();
    const credentials = { identity: () => Promise.resolve(identity), refused };
    await connectTo({ port: server.port, cluster: { credentials }, log }).request(get("/"));
    expect(log.told()).toEqual([]);
  });
});

test("a server that has answered and ends the connection in order is not away", async () => {
  const log = new FakeLog();
  const server = await serve((request) => {
    if (request.path !== "/never") reply(request, 200, request.connection);
  });
  const clients: Socket[] = [];
  const way = createTcpServer((client) => {
    clients.push(client);
    const onward = connect(server.port, "127.0.0.1");
    for (const socket of [client.pipe(onward), onward.pipe(client)])
      socket.on("error", () => {
        // One end goes before the other.
      });
  });
  const connection = connectTo({ port: await listening(way), log });
  expect(await connection.request(get("/"))).toBe(1);
  const ended = failureOf(connection.request({ ...get("/never"), method: "POST" }));
  await until(() => server.received.length === 2);
  clients[0]?.end();
  expect((await ended).code).toBe("CLOSED");
  expect(connection.state().kind).toBe("connected");
  expect(await connection.request(get("/"))).toBe(2);
  expect(log.told()).toEqual([]);
});

describe("lines", () => {
  const watching = { method: "GET", path: "/watch", query: { watch: "1" } } as const;

  test("come one by one, however they are cut, and the end in order is undefined", async () => {
    const text = `${JSON.stringify({ a: "☃" })}\n\n${JSON.stringify({ b: "🚢" })}\n${JSON.stringify({ c: 1 })}`;
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      for (const byte of Buffer.from(text)) stream.write(Buffer.of(byte));
      stream.end();
    });
    const told: unknown[] = [];
    const end = await connectTo({ port }).lines(
      watching,
      (line) => told.push(line),
      () => told.push("opened"),
    );
    expect(end).toBeUndefined();
    expect(told).toEqual(["opened", { a: "☃" }, { b: "🚢" }, { c: 1 }]);
  });

  test("that are open have no deadline any more", async () => {
    const clock = new FakeClock();
    const server = await serve(({ stream }) => stream.respond({ ":status": 200 }));
    let isOpen = false;
    const told: unknown[] = [];
    const abort = new AbortController();
    const end = connectTo({ port: server.port, clock }).lines(
      { ...watching, signal: abort.signal },
      (line) => told.push(line),
      () => {
        isOpen = true;
      },
    );
    await until(() => isOpen);
    for (let second = 0; second < 60; second += 5) {
      await clock.advance(5_000);
      await real(5);
    }
    server.received[0]?.stream.write("1\n");
    await until(() => told.length === 1);
    abort.abort();
    expect(await end).toMatchObject({ code: "CANCELLED" });
  });

  const rows: readonly [when: string, answer: (request: Received) => void, code: string, says: RegExp][] = [
    ["a 410", (request) => reply(request, 410, { kind: "Status", reason: "Expired", message: "old" }), "GONE", /old/],
    [
      "a line that is no JSON",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.write('{"a":1}\n{"b":\n');
      },
      "NOT_JSON",
      /is no whole JSON/,
    ],
    [
      "a last line that is not whole",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.end('{"a":1}\n{"b":');
      },
      "NOT_JSON",
      /is no whole JSON/,
    ],
  ];
  for (const [when, answer, code, says] of rows)
    test(`end with ${when}`, async () => {
      const { port } = await serve(answer);
      const error = await connectTo({ port }).lines(watching, () => undefined);
      expect(error?.code).toBe(code as KubeError["code"]);
      expect(error?.message).toMatch(says);
    });

  test("that break in the middle say so, and are not begun again", async () => {
    const server = await serve(({ stream }) => {
      stream.respond({ ":status": 200 });
      stream.write('{"a":1}\n{"b"');
    });
    const relay = await relayTo(server);
    const told: unknown[] = [];
    const end = connectTo({ port: relay.port }).lines(watching, (line) => told.push(line));
    await until(() => told.length === 1);
    relay.reset();
    expect(await end).toMatchObject({ code: "UNREACHABLE" });
    expect(told).toEqual([{ a: 1 }]);
    expect(server.received.length).toBe(1);
  });

  test("that never begin end with TIMEOUT", async () => {
    const { port } = await serve(() => undefined);
    const error = await connectTo({ port }).lines({ ...watching, deadlineMs: 200 }, () => undefined);
    expect(error).toMatchObject({ code: "TIMEOUT", message: "GET /watch: no answer within 200 ms" });
  });
});

test("a connection that has died without a word is noticed within 30 seconds, and the next request makes another", async () => {
  const clock = new FakeClock();
  const server = await serve((request) =>
    request.path === "/watch" ? request.stream.respond({ ":status": 200 }) : reply(request, 200, request.connection),
  );
  const relay = await relayTo(server);
  const connection = connectTo({ port: relay.port, clock });
  let isOpen = false;
  const end = connection.lines(
    { method: "GET", path: "/watch" },
    () => undefined,
    () => {
      isOpen = true;
    },
  );
  await until(() => isOpen);
  relay.stall();
  await clock.advance(15_000);
  await real(20);
  expect(connection.state().kind).toBe("connected");
  await clock.advance(15_000);
  expect(await end).toMatchObject({ code: "UNREACHABLE" });
  expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { why: { code: "UNREACHABLE" } } });

  relay.resume();
  const asked = connection.request(get("/x"));
  await rest();
  await clock.advance(2_000);
  expect(await asked).toBe(2);
  expect(connection.state().kind).toBe("connected");
});

test("at whatever byte a connection breaks, a read ends with the whole answer or with an error", async () => {
  const items = Array.from({ length: 100 }, (_, index) => ({ name: `pod-${index}`, ä: "☃" }));
  const server = await serve((request) => reply(request, 200, { items }));
  const relay = await relayTo(server);
  const ends: string[] = [];
  for (const bytes of [1, 7, 200, 900, 1100, 1300, 1500, 2000, 2500, 3000, 3500, 4000, 9000]) {
    relay.resetAfter(bytes);
    const connection = connectTo({ port: relay.port, clock: runningFrom(now, 20) });
    try {
      // Only the breaks are to end it, however slow the machine is.
      expect(await connection.request({ ...get("/list"), deadlineMs: 60_000 })).toEqual({ items });
      ends.push("whole");
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      ends.push(error.code);
    }
    connection.close();
  }
  expect(ends[0]).toBe("UNREACHABLE");
  expect(ends.at(-1)).toBe("whole");
  expect(new Set(ends)).toEqual(new Set(["UNREACHABLE", "whole"]));
});

test("a quiet connection is asked every 15 seconds and stays, and is left alone when nothing is expected", async () => {
  const clock = new FakeClock();
  let pings = 0;
  const server = await serve((request) => {
    request.session.on("ping", () => {
      pings += 1;
    });
    if (request.path === "/watch") request.stream.respond({ ":status": 200 });
    else reply(request, 200, 1);
  });
  const connection = connectTo({ port: server.port, clock });
  await connection.request(get("/x"));
  await clock.advance(120_000);
  await real(20);
  expect(pings).toBe(0);
  const abort = new AbortController();
  let isOpen = false;
  const end = connection.lines(
    { method: "GET", path: "/watch", signal: abort.signal },
    () => undefined,
    () => {
      isOpen = true;
    },
  );
  await until(() => isOpen);
  const before = pings;
  for (let count = 1; count <= 4; count += 1) {
    await clock.advance(15_000);
    await until(() => pings >= before + count);
    await real(10);
  }
  expect(server.connections()).toBe(1);
  abort.abort();
  await end;
});

test("a deadline ends what hangs, and the signal what is no longer wanted", async () => {
  const server = await serve(() => undefined);
  const connection = connectTo({ port: server.port });
  expect(await failureOf(connection.request({ ...get("/x"), deadlineMs: 100 }))).toMatchObject({
    code: "TIMEOUT",
    message: "GET /x: no answer within 100 ms",
  });
  await until(() => server.received[0]?.stream.closed === true);
  const abort = new AbortController();
  const asked = failureOf(connection.request({ ...get("/x"), signal: abort.signal }));
  await until(() => server.received.length === 2);
  abort.abort();
  expect((await asked).code).toBe("CANCELLED");
  await until(() => server.received[1]?.stream.closed === true);
  const early = failureOf(connection.request({ ...get("/x"), signal: abort.signal }));
  expect((await early).code).toBe("CANCELLED");
});

test("a server that takes requests and answers none is away after two of them, and said once", async () => {
  let isStuck = true;
  const server = await serve((request) => {
    if (!isStuck || request.path === "/free") reply(request, 200, {});
  });
  const log = new FakeLog();
  const connection = connectTo({ port: server.port, log });
  const hang = async () => void (await failureOf(connection.request({ ...get("/x"), deadlineMs: 100 })));
  await connection.request(get("/free"));
  await real(5);
  await hang();
  expect(connection.state().kind).toBe("connected");
  for (let time = 0; time < 3; time += 1) await hang();
  expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { why: { code: "UNREACHABLE" } } });
  isStuck = false;
  await connection.request(get("/x"));
  expect(connection.state().kind).toBe("connected");
  expect(log.told()).toEqual([
    `warn: the API server cannot be used: 127.0.0.1:${server.port} can be connected to, and answers no request; trying again`,
    "info: the API server answers again",
  ]);
});

test("a connection on which two requests in a row hang is left for another one, and ended when its last stream is", async () => {
  const server = await serve((request) => {
    if (request.connection > 1 || request.path === "/free") reply(request, 200, request.connection);
    else if (request.path === "/watch") request.stream.respond({ ":status": 200 });
  });
  const connection = connectTo({ port: server.port });
  const hang = async () => (await failureOf(connection.request({ ...get("/x"), deadlineMs: 100 }))).code;
  expect(await connection.request(get("/free"))).toBe(1);
  const abort = new AbortController();
  const opened = Promise.withResolvers<void>();
  const request = { method: "GET", path: "/watch", signal: abort.signal } as const;
  const watch = connection.lines(request, () => undefined, opened.resolve);
  await opened.promise;
  await real(5);
  expect([await hang(), await hang()]).toEqual(["TIMEOUT", "TIMEOUT"]);
  expect(await connection.request(get("/x"))).toBe(2);
  expect([await connection.request(get("/x")), server.open().length]).toEqual([2, 2]);
  abort.abort();
  await watch;
  await until(() => server.open().length === 1);
});

test("a server that answers others while requests hang is not away", async () => {
  const server = await serve((request) => {
    if (request.path === "/free") reply(request, 200, {});
  });
  const connection = connectTo({ port: server.port });
  await connection.request(get("/free"));
  const hung = Array.from({ length: 3 }, () => failureOf(connection.request({ ...get("/x"), deadlineMs: 200 })));
  await until(() => server.received.length === 4);
  await connection.request(get("/free"));
  await Promise.all(hung);
  expect(connection.state().kind).toBe("connected");
});

test("many who ask for a server that is away do not knock more often than one", async () => {
  let knocks = 0;
  const port = await listening(
    createTcpServer((socket) => {
      knocks += 1;
      socket.destroy();
    }),
  );
  const connection = connectTo({ port, clock: runningFrom(now, 20), random: Math.random });
  const asked = Array.from({ length: 50 }, () => failureOf(connection.request({ ...get("/x"), deadlineMs: 20_000 })));
  expect(new Set((await Promise.all(asked)).map(({ code }) => code))).toEqual(new Set(["UNREACHABLE"]));
  expect(knocks).toBeLessThan(15);
});

test("close ends everything under way, and nothing can be asked for afterwards", async () => {
  const server = await serve(() => undefined);
  const connection = connectTo({ port: server.port });
  const asked = failureOf(connection.request(get("/x")));
  const watch = connection.lines({ method: "GET", path: "/watch" }, () => undefined);
  await until(() => server.received.length === 2);
  connection.close();
  expect((await asked).code).toBe("CLOSED");
  expect((await watch)?.code).toBe("CLOSED");
  expect((await failureOf(connection.request(get("/x")))).code).toBe("CLOSED");
  await until(() => server.open().length === 0);
});

test("heartbeats wait for nobody: neither for the rate of the others nor for their answers", async () => {
  const clock = new FakeClock();
  const server = await serve((request) => {
    if (request.path === "/lease") reply(request, 200, "ok");
  });
  const connection = connectTo({ port: server.port, clock, rates: { main: { qps: 1, burst: 100 } } });
  const abort = new AbortController();
  const others = Array.from({ length: 150 }, () =>
    failureOf(connection.request({ ...get("/pods"), signal: abort.signal })),
  );
  await until(() => server.received.length === 64);
  expect(await connection.request({ ...get("/lease"), method: "PUT", body: {}, lane: "heartbeat" })).toBe("ok");
  expect(server.received.length).toBe(65);
  abort.abort();
  expect((await Promise.all(others)).every(({ code }) => code === "CANCELLED")).toBe(true);
});

test("a body is asked for when the request's turn has come, and not before", async () => {
  const clock = new FakeClock();
  const server = await serve((request) => reply(request, 200, JSON.parse(request.body)));
  const connection = connectTo({ port: server.port, clock, rates: { main: { qps: 1, burst: 1 } } });
  let latest = 1;
  const send = () => connection.request({ ...get("/pods"), method: "PATCH", body: () => ({ latest }) });
  expect(await send()).toEqual({ latest: 1 });
  const second = send();
  await rest();
  latest = 2;
  await clock.advance(1_000);
  expect(await second).toEqual({ latest: 2 });
});

test("no token, key, header or body stands in an error or in the log", async () => {
  const log = new FakeLog();
  const token = "planted-token-4711";
  const secret = "planted-body-4711";
  const server = await serve((request) => {
    if (request.path === "/401") reply(request, 401, { kind: "Status", message: "Unauthorized" });
    else if (request.path === "/html") {
      request.stream.respond({ ":status": 200, "content-type": "text/html", "x-secret": secret });
      request.stream.end(secret);
    } else request.session.destroy();
  });
  const connection = connectTo({ port: server.port, identity: { token, certificate: ours }, log });
  const errors: KubeError[] = [];
  for (const path of ["/401", "/html", "/gone"])
    errors.push(await failureOf(connection.request({ ...get(path), method: "POST", body: { secret } })));
  const said = Bun.inspect([errors, log.lines], { depth: 20 });
  expect(errors.map(({ code }) => code).slice(0, 2)).toEqual(["UNAUTHORIZED", "NOT_JSON"]);
  expect(log.lines.length).toBeGreaterThan(2);
  const keyLine = ours.key.split("\n")[1] ?? "";
  for (const hidden of [token, secret, keyLine]) expect(said).not.toContain(hidden);
});

/** Lets sockets have their say; never instead of a condition, only where nothing is to happen. */
function real(ms: number): Promise<void> {
  return Bun.sleep(ms);
}

async function until(condition: () => boolean): Promise<void> {
  await untilWithin(String(condition), 4000, condition);
}
