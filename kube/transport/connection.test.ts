import { afterEach, describe, expect, test } from "bun:test";
import { createSecureServer, type SecureServerOptions } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { type Clock, createClock } from "../../host/clock.ts";
import { pollUntil as untilWithin } from "../../test/bed/poll-until.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { fixedEndpoint } from "../../test/fakes/cluster-endpoint.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { createTlsServer, type ReceivedRequest, reply, type TlsServer } from "../../test/fakes/tls-server.ts";
import { createCertificateAuthority } from "../../test/upstream/pki.ts";
import { type Relay, startRelay } from "../../test/upstream/tcp-relay.ts";
import type { ClusterEndpoint, ClusterEndpointSource } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { KubeError } from "../error.ts";
import { type ConnectionState, createKubeConnection, type KubeConnection } from "./connection.ts";
import type { RateLimits } from "./flow-control.ts";

const dayMs = 86_400_000;
const now = Date.now();
const authority = createCertificateAuthority("kubernetes");
const hosts = ["127.0.0.1", "localhost"];
const serverOptions = authority.issue({ commonName: "kube-apiserver", hosts });
const ours = authority.issue({ commonName: "system:node:a", organizations: ["system:nodes"] });
const expired = { validFrom: new Date(now - 9 * dayMs), validTo: new Date(now - dayMs) };
const future = { validFrom: new Date(now + dayMs), validTo: new Date(now + 9 * dayMs) };

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

interface ConnectionSetup {
  readonly source?: ClusterEndpointSource;
  readonly port?: number;
  readonly host?: string;
  readonly cluster?: Partial<ClusterEndpoint>;
  readonly identity?: Identity;
  readonly clock?: Clock;
  readonly rates?: Partial<RateLimits>;
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
}: ConnectionSetup): KubeConnection {
  const connection = createKubeConnection({
    cluster: source ?? fixedEndpoint({ ...plain(`https://${host}:${port}`), credentials: fixed(identity), ...cluster }),
    userAgent: "berth/test",
    rateLimits: { main: undefined, events: undefined, ...rates },
    clock: clock ?? createClock(),
    random: random ?? (() => 0.5),
    log: log ?? new FakeLog(),
  });
  closers.push(() => connection.close());
  return connection;
}

function fixed(identity: Identity) {
  return { identity: () => Promise.resolve(identity), markRejected: () => undefined };
}

async function serve(
  answer: (request: ReceivedRequest) => void,
  options: SecureServerOptions = serverOptions,
): Promise<TlsServer> {
  const server = await createTlsServer(options, answer);
  closers.push(server.close);
  return server;
}

async function startRelayTo({ port }: TlsServer): Promise<Relay> {
  const relay = await startRelay(port);
  closers.push(relay.close);
  return relay;
}

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, host, () => resolve()));
  closers.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** A clock that starts at a given time and runs `factor` times as fast. */
function acceleratedClock(at: number, speed: number): Clock {
  const { now: realNow, monotonicMs, wakeAt } = createClock();
  const startedAt = realNow();
  const time = () => at + (realNow() - startedAt) * speed;
  return { now: time, monotonicMs, wakeAt: (then, wake) => wakeAt(realNow() + (then - time()) / speed, wake) };
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

test("requests share a session, send what was asked for, and return the parsed JSON", async () => {
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
  expect(server.connectionCount()).toBe(1);
  expect(connection.state().kind).toBe("connected");
  const patch = server.received.find(({ method }) => method === "PATCH");
  expect(patch?.body).toBe('{"ä":1}');
  expect(patch?.headers["content-type"]).toBe("application/merge-patch+json");
  expect(patch?.headers.authorization).toBe("Bearer secret-token");
  expect(patch?.headers["user-agent"]).toBe("berth/test");
});

test("a body of several megabytes arrives complete", async () => {
  const server = await serve((request) => reply(request, 200, request.body.length));
  const body = "x".repeat(3 << 20);
  expect(await connectTo({ port: server.port }).request({ ...get("/x"), method: "PUT", body })).toBe(body.length + 2);
});

test("the path of the server's URL is the prefix of each request's path", async () => {
  const server = await serve((request) => reply(request, 200, { path: request.path }));
  const connection = connectTo({
    cluster: { server: new URL(`https://127.0.0.1:${server.port}/k8s/clusters/c1/`) },
  });
  expect(await connection.request(get("/api"))).toEqual({ path: "/k8s/clusters/c1/api" });
});

describe("a connection error comes with advice:", () => {
  interface Row {
    readonly when: string;
    readonly setup: () => ConnectionSetup | Promise<ConnectionSetup>;
    readonly code: string;
    readonly says: RegExp;
  }
  const withServer = async (options: SecureServerOptions, setup: ConnectionSetup = {}): Promise<ConnectionSetup> => ({
    port: (await serve((request) => reply(request, 200, {}), options)).port,
    ...setup,
  });
  const rows: readonly Row[] = [
    {
      when: "unknown host",
      setup: () => ({ host: "no-such-host.invalid" }),
      code: "UNREACHABLE",
      says: /there is no host no-such-host\.invalid: correct the server's address/,
    },
    {
      when: "connection refused",
      setup: () => ({ port: 1 }),
      code: "UNREACHABLE",
      says: /nothing listens at 127\.0\.0\.1:1: is the API server running/,
    },
    {
      when: "a port without TLS",
      setup: async () => ({
        port: await listen(createTcpServer((socket) => socket.end("HTTP/1.1 400 Bad\r\n\r\n"))),
      }),
      code: "UNREACHABLE",
      says: /does not speak TLS/,
    },
    {
      when: "a server without HTTP/2",
      setup: async () => ({ port: await listen(createHttpsServer(serverOptions)) }),
      code: "UNREACHABLE",
      says: /does not speak HTTP\/2/,
    },
    {
      when: "a connection that is reset",
      setup: async () => ({ port: await listen(createTcpServer((socket) => socket.destroy())) }),
      code: "UNREACHABLE",
      says: /was reset/,
    },
    {
      when: "a certificate of another CA",
      setup: () => withServer(createCertificateAuthority("kubernetes").issue({ commonName: "kube-apiserver", hosts })),
      code: "TLS",
      says: /not signed by the configured certificate authority: correct certificate-authority/,
    },
    {
      when: "the server's certificate has expired",
      setup: () => withServer(authority.issue({ commonName: "kube-apiserver", hosts, ...expired })),
      code: "TLS",
      says: /the certificate of 127\.0\.0\.1:\d+ has expired by this machine's clock \(20\d\d-.*\): renew it on the server/,
    },
    {
      when: "a clock in 1970",
      setup: () =>
        withServer(authority.issue({ commonName: "kube-apiserver", hosts, ...future }), {
          clock: acceleratedClock(60_000, 1),
        }),
      code: "TLS",
      says: /is not valid yet by this machine's clock \(1970-01-01\): set the clock/,
    },
    {
      when: "a certificate for another name",
      setup: () => withServer(authority.issue({ commonName: "kube-apiserver", hosts: ["api.example"] })),
      code: "TLS",
      says: /is not valid for 127\.0\.0\.1: use a name that it contains/,
    },
    {
      when: "a tls-server-name that the certificate does not contain",
      setup: () => withServer(serverOptions, { cluster: { tlsServerName: "api.example" } }),
      code: "TLS",
      says: /is not valid for api\.example: use a name that it contains \(IP Address:127\.0\.0\.1, DNS:localhost\) as server/,
    },
    {
      when: "only TLS 1.1",
      setup: () => withServer({ ...serverOptions, minVersion: "TLSv1", maxVersion: "TLSv1.1" }),
      code: "TLS",
      says: /does not speak TLS 1\.2/,
    },
    {
      when: "a client certificate is required and there is none",
      setup: () => withServer({ ...serverOptions, requestCert: true, rejectUnauthorized: true, ca: authority.cert }),
      code: "TLS",
      says: /certificate required.*a client without credentials/,
    },
    {
      when: "our certificate has expired, and the server resets the connection",
      setup: () =>
        withServer(
          { ...serverOptions, requestCert: true, rejectUnauthorized: true, ca: authority.cert, maxVersion: "TLSv1.2" },
          { identity: { certificate: authority.issue({ commonName: "system:node:a", ...expired }) } },
        ),
      code: "TLS",
      says: /our client certificate expired on 20\d\d-.*issue a new one for this node/,
    },
    {
      when: "our certificate has expired, and the server closes the connection without an alert",
      setup: () =>
        withServer(
          { ...serverOptions, requestCert: true, rejectUnauthorized: true, ca: authority.cert },
          { identity: { certificate: authority.issue({ commonName: "system:node:a", ...expired }) } },
        ),
      code: "TLS",
      says: /our client certificate expired on 20\d\d-.*issue a new one for this node/,
    },
  ];
  for (const { when, setup, code, says } of rows)
    test(when, async () => {
      const connection = connectTo({ clock: acceleratedClock(now, 20), ...(await setup()) });
      const error = await failureOf(connection.request({ ...get("/healthz"), deadlineMs: 60_000 }));
      expect(error.message).toMatch(says);
      expect(error.code).toBe(code as KubeError["code"]);
      expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { error: { code } } });
    });

  test("a server that never answers", async () => {
    const port = await listen(createTcpServer(() => undefined));
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

  test("NODE_TLS_REJECT_UNAUTHORIZED has no effect", async () => {
    const { port } = await serve(
      (request) => reply(request, 200, {}),
      createCertificateAuthority("kubernetes").issue({ commonName: "x", hosts }),
    );
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      expect((await failureOf(connectTo({ port }).request(get("/")))).code).toBe("TLS");
    } finally {
      delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    }
  });
});

test("insecure-skip-tls-verify and tls-server-name take effect", async () => {
  const other = createCertificateAuthority("other").issue({ commonName: "x", hosts: ["api.example"] });
  const { port } = await serve((request) => reply(request, 200, 1), other);
  const insecure = connectTo({ port, cluster: { certificateAuthority: undefined, insecureSkipTlsVerify: true } });
  expect(await insecure.request(get("/"))).toBe(1);
  const named = await serve(
    (request) => reply(request, 200, 2),
    authority.issue({ commonName: "x", hosts: ["api.example"] }),
  );
  expect(await connectTo({ port: named.port, cluster: { tlsServerName: "api.example" } }).request(get("/"))).toBe(2);
});

describe("an error response:", () => {
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
      /^127\.0\.0\.1:\d+ does not accept us: our client certificate expired on/,
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

describe("an unusable response:", () => {
  test("an HTML page of a proxy fails", async () => {
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

  test("truncated JSON fails", async () => {
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      stream.end('{"kind":"Secret","da');
    });
    const error = await failureOf(connectTo({ port }).request(get("/x")));
    expect(error.code).toBe("NOT_JSON");
    expect(error.message).toBe("GET /x: the answer is not complete JSON (20 characters)");
  });

  test("fewer bytes than content-length fails", async () => {
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json", "content-length": "100" });
      stream.end("[1]");
    });
    const error = await failureOf(connectTo({ port }).request(get("/x")));
    expect(error.code).toBe("NOT_JSON");
    expect(error.message).toBe("GET /x: the answer ended after 3 of 100 bytes");
  });

  test("a response larger than 16 MiB is TOO_LARGE", async () => {
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

  test("a response whose chunks split characters is decoded correctly", async () => {
    const text = JSON.stringify({ name: "größer ☃ 🚢" });
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      for (const byte of Buffer.from(text)) stream.write(Buffer.of(byte));
      stream.end();
    });
    expect(await connectTo({ port }).request(get("/x"))).toEqual({ name: "größer ☃ 🚢" });
  });

  test("a compressed response is decompressed up to the same limit, and a watch is never compressed", async () => {
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
      message: "GET /broken: the answer cannot be decompressed",
    });
    await connection.lines({ method: "GET", path: "/watch" }, () => undefined);
    expect(server.received.map(({ headers }) => headers["accept-encoding"])).toEqual([
      "gzip",
      "gzip",
      "gzip",
      undefined,
    ]);
  });

  test("our own body, quoted by the server, is left out of the message", async () => {
    const message = "couldn't get version/kind (226e6f6e73656e736522)";
    const { port } = await serve((request) => reply(request, 400, { kind: "Status", reason: "BadRequest", message }));
    const error = await failureOf(connectTo({ port }).request({ ...get("/x"), method: "POST", body: "nonsense" }));
    expect(error.message).toBe("POST /x: couldn't get version/kind (…)");
  });

  test("an empty response is undefined", async () => {
    const { port } = await serve((request) => reply(request, 200, undefined));
    expect(await connectTo({ port }).request(get("/x"))).toBeUndefined();
  });
});

describe("retry:", () => {
  test("any request is sent again after a 429, at the time of Retry-After", async () => {
    const clock = new FakeClock();
    const server = await serve((request) =>
      server.received.length === 1 ? reply(request, 429, {}, { "retry-after": "2" }) : reply(request, 200, "ok"),
    );
    const answer = connectTo({ port: server.port, clock }).request({ ...get("/x"), method: "POST", body: {} });
    await until(() => server.received.length === 1 && clock.pendingTimers > 1);
    await clock.advance(1999);
    expect(server.received.length).toBe(1);
    await clock.advance(100);
    expect(await answer).toBe("ok");
  });

  test("a GET is sent again after a 503", async () => {
    const server = await serve((request) => reply(request, server.received.length < 3 ? 503 : 200, "ok"));
    expect(await connectTo({ port: server.port }).request(get("/x"))).toBe("ok");
    expect(server.received.length).toBe(3);
  });

  test("a request is sent a limited number of times", async () => {
    const server = await serve((request) => reply(request, 500, { kind: "Status", message: "etcd is away" }));
    const error = await failureOf(connectTo({ port: server.port }).request(get("/x")));
    expect(error.message).toBe("GET /x: etcd is away");
    expect(server.received.length).toBe(5);
  });

  test("a request is not sent again if its deadline would pass first", async () => {
    const server = await serve((request) => reply(request, 429, {}, { "retry-after": "60" }));
    const error = await failureOf(connectTo({ port: server.port }).request(get("/x")));
    expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS", retryAfterMs: 60_000 });
    expect(server.received.length).toBe(1);
  });

  for (const method of ["POST", "PATCH", "PUT"] as const)
    test(`a ${method} is not sent again after a 503, since it may have been processed`, async () => {
      const server = await serve((request) => reply(request, 503, {}));
      const error = await failureOf(connectTo({ port: server.port }).request({ ...get("/x"), method, body: {} }));
      expect(error.code).toBe("SERVER");
      expect(server.received.length).toBe(1);
    });

  test("a GET is sent again when the connection breaks in the middle of the response", async () => {
    const server = await serve((request) => {
      if (server.received.length > 1) return reply(request, 200, "ok");
      request.stream.respond({ ":status": 200 });
      request.stream.write('"o');
    });
    const relay = await startRelayTo(server);
    const asked = connectTo({ port: relay.port }).request(get("/x"));
    await until(() => server.received.length === 1);
    relay.reset();
    expect(await asked).toBe("ok");
  });

  test("a PATCH is not sent again when the connection breaks", async () => {
    const server = await serve(() => relay.reset());
    const relay = await startRelayTo(server);
    const connection = connectTo({ port: relay.port });
    const error = await failureOf(connection.request({ ...get("/x"), method: "PATCH", body: {} }));
    expect(error).toMatchObject({ code: "UNREACHABLE", isUnprocessed: false });
    expect(server.received.length).toBe(1);
    expect(connection.state()).toMatchObject({ kind: "away" });
  });

  test("after a GOAWAY a request uses another session, and current streams end where they are", async () => {
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
    await until(() => server.openSessions().length === 1);
  });

  test("when a session has its maximum of watches, a request uses another session", async () => {
    const server = await serve(
      (request) => {
        if (!request.path.startsWith("/watch")) return reply(request, 200, "ok");
        request.stream.respond({ ":status": 200 });
      },
      { ...serverOptions, settings: { maxConcurrentStreams: 100 } },
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
    expect(server.openSessions().length).toBe(2);
    leaving.abort();
    await Promise.all(watches);
    // The full session closes once its streams have ended.
    await until(() => server.openSessions().length === 1);
  });

  test("any request is sent again when the server refused its stream", async () => {
    const server = await serve((request) => setTimeout(() => reply(request, 200, "ok"), 20), {
      ...serverOptions,
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

  test("a request is sent again while the server is starting", async () => {
    // No other test listens on this address, so that none takes the port before the server starts.
    const lateHost = "127.0.0.2";
    const certificate = authority.issue({ commonName: "kube-apiserver", hosts: [lateHost] });
    const probe = createTcpServer();
    const port = await listen(probe, lateHost);
    await new Promise((resolve) => probe.close(resolve));
    const asked = connectTo({ host: lateHost, port }).request({ ...get("/x"), method: "POST", body: {} });
    const late = createSecureServer(certificate, (_request, response) => void response.end('"ok"'));
    const timer = setTimeout(() => late.listen(port, lateHost), 150);
    closers.push(() => {
      clearTimeout(timer);
      late.close();
    });
    expect(await asked).toBe("ok");
  });
});

describe("a 401:", () => {
  test("newer credentials are used at once", async () => {
    const server = await serve((request) =>
      reply(request, request.headers.authorization === "Bearer new" ? 200 : 401, "ok"),
    );
    let identity = { token: "old" };
    const credentials = {
      identity: () => Promise.resolve(identity),
      markRejected: () => {
        identity = { token: "new" };
      },
    };
    const connection = connectTo({ port: server.port, cluster: { credentials } });
    expect(await connection.request({ ...get("/x"), method: "POST", body: {} })).toBe("ok");
    expect(connection.state().kind).toBe("connected");
  });

  test("without other credentials the request fails, and the state is away", async () => {
    const server = await serve((request) => reply(request, 401, {}));
    const connection = connectTo({ port: server.port, identity: { token: "t" } });
    expect((await failureOf(connection.request(get("/x")))).code).toBe("UNAUTHORIZED");
    expect(server.received.length).toBe(1);
    expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { error: { code: "UNAUTHORIZED" } } });
  });
});

test("a new certificate is used by a new session, and current streams continue", async () => {
  const options = { ...serverOptions, requestCert: true, rejectUnauthorized: false, ca: authority.cert };
  const server = await serve((request) => {
    if (request.path === "/watch") {
      request.stream.respond({ ":status": 200 });
      request.stream.write('{"n":1}\n');
    } else reply(request, 200, request.connection);
  }, options);
  const renewed = authority.issue({ commonName: "system:node:a", organizations: ["system:nodes"] });
  let identity: Identity = { certificate: ours };
  const credentials = { identity: () => Promise.resolve(identity), markRejected: () => undefined };
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
  // The older session is closed.
  await until(() => server.openSessions().length === 1);
});

test("a new server address or CA is used by a new session, and current streams continue", async () => {
  const options = { ...serverOptions, requestCert: true, rejectUnauthorized: false, ca: authority.cert };
  const answer = (request: ReceivedRequest) => {
    if (request.path !== "/watch") return reply(request, 200, request.session.socket.localPort);
    request.stream.respond({ ":status": 200 });
    request.stream.write('{"n":1}\n');
  };
  const [first, second] = [await serve(answer, options), await serve(answer, options)];
  let cluster: ClusterEndpoint = { ...plain(`https://127.0.0.1:${first.port}`), credentials: fixed({}) };
  const source = { server: () => cluster.server, latest: () => Promise.resolve(cluster) };
  const log = new FakeLog();
  const connection = connectTo({ source, log });
  const lines: unknown[] = [];
  const watch = connection.lines({ method: "GET", path: "/watch" }, (line) => lines.push(line));
  await until(() => lines.length === 1);
  expect(await connection.request(get("/"))).toBe(first.port);

  cluster = { ...cluster, server: new URL(`https://127.0.0.1:${second.port}`) };
  expect(await connection.request(get("/"))).toBe(second.port);
  cluster = { ...cluster, certificateAuthority: createCertificateAuthority("kubernetes").cert };
  expect((await failureOf(connection.request(get("/")))).code).toBe("TLS");
  cluster = { ...cluster, certificateAuthority: authority.cert };
  expect(await connection.request(get("/"))).toBe(second.port);

  first.received[0]?.stream.end('{"n":2}\n');
  expect(await watch).toBeUndefined();
  expect(lines).toEqual([{ n: 1 }, { n: 2 }]);
  await until(() => first.openSessions().length === 0);
});

describe("the log of outages:", () => {
  test("each reason is logged once for all requests, and so is the end; an established connection is not the end", async () => {
    const answers = { token: "none" };
    const server = await serve((request) => {
      const isKnown = request.headers.authorization === `Bearer ${answers.token}`;
      reply(request, isKnown ? 200 : 401, {});
    });
    const log = new FakeLog();
    let port = 1;
    const clusterNow = () => ({ ...plain(`https://127.0.0.1:${port}`), credentials: fixed({ token: "ours" }) });
    const source = { server: () => clusterNow().server, latest: async () => clusterNow() };
    const connection = connectTo({ source, log, clock: acceleratedClock(now, 20) });
    const ask = (path: string) => failureOf(connection.request({ ...get(path), method: "POST", deadlineMs: 60_000 }));
    for (const path of ["/a", "/b", "/c"]) await ask(path);
    port = server.port;
    for (const path of ["/a", "/b", "/c"]) {
      expect((await ask(path)).code).toBe("UNAUTHORIZED");
      // As the real API server answers a client that it does not know.
      for (const session of server.openSessions()) session.destroy();
      await until(() => server.openSessions().length === 0);
    }
    const { since, lastFailure } = connection.state() as Extract<ConnectionState, { kind: "away" }>;
    expect(lastFailure.at).toBeGreaterThan(since);
    answers.token = "ours";
    await connection.request(get("/a"));
    expect(log.takeLines()).toEqual([
      "warn: the API server cannot be used: nothing listens at 127.0.0.1:1: is the API server running, and is this its port?; trying again",
      `warn: the API server cannot be used: 127.0.0.1:${port} does not accept our token: renew it, or use the kubeconfig of this cluster; trying again`,
      "info: the API server answers again",
    ]);
    expect(connection.state()).toMatchObject({ kind: "connected", lastFailure: { error: { code: "UNAUTHORIZED" } } });
  });

  test("a 401 with a newer token available is not logged", async () => {
    const server = await serve((request) =>
      reply(request, request.headers.authorization === "Bearer b" ? 200 : 401, {}),
    );
    let identity = { token: "a" };
    const markRejected = () => {
      identity = { token: "b" };
    };
    const log = new FakeLog();
    const credentials = { identity: () => Promise.resolve(identity), markRejected: markRejected };
    await connectTo({ port: server.port, cluster: { credentials }, log }).request(get("/"));
    expect(log.takeLines()).toEqual([]);
  });
});

test("a server that closes the connection normally after an answer is not away", async () => {
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
        // One of the two ends is closed first.
      });
  });
  const connection = connectTo({ port: await listen(way), log });
  expect(await connection.request(get("/"))).toBe(1);
  const ended = failureOf(connection.request({ ...get("/never"), method: "POST" }));
  await until(() => server.received.length === 2);
  clients[0]?.end();
  expect((await ended).code).toBe("CLOSED");
  expect(connection.state().kind).toBe("connected");
  expect(await connection.request(get("/"))).toBe(2);
  expect(log.takeLines()).toEqual([]);
});

describe("lines:", () => {
  const watching = { method: "GET", path: "/watch", query: { watch: "1" } } as const;

  test("arrive one by one, however they are chunked; a normal end is undefined", async () => {
    const text = `${JSON.stringify({ a: "☃" })}\n\n${JSON.stringify({ b: "🚢" })}\n${JSON.stringify({ c: 1 })}`;
    const { port } = await serve(({ stream }) => {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      for (const byte of Buffer.from(text)) stream.write(Buffer.of(byte));
      stream.end();
    });
    const logged: unknown[] = [];
    const end = await connectTo({ port }).lines(
      watching,
      (line) => logged.push(line),
      () => logged.push("opened"),
    );
    expect(end).toBeUndefined();
    expect(logged).toEqual(["opened", { a: "☃" }, { b: "🚢" }, { c: 1 }]);
  });

  test("have no deadline once the response has started", async () => {
    const clock = new FakeClock();
    const server = await serve(({ stream }) => stream.respond({ ":status": 200 }));
    let isOpen = false;
    const logged: unknown[] = [];
    const abort = new AbortController();
    const end = connectTo({ port: server.port, clock }).lines(
      { ...watching, signal: abort.signal },
      (line) => logged.push(line),
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
    await until(() => logged.length === 1);
    abort.abort();
    expect(await end).toMatchObject({ code: "CANCELLED" });
  });

  const rows: readonly [when: string, answer: (request: ReceivedRequest) => void, code: string, says: RegExp][] = [
    ["a 410", (request) => reply(request, 410, { kind: "Status", reason: "Expired", message: "old" }), "GONE", /old/],
    [
      "a line that is no JSON",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.write('{"a":1}\n{"b":\n');
      },
      "NOT_JSON",
      /is not complete JSON/,
    ],
    [
      "an incomplete last line",
      ({ stream }) => {
        stream.respond({ ":status": 200, "content-type": "application/json" });
        stream.end('{"a":1}\n{"b":');
      },
      "NOT_JSON",
      /is not complete JSON/,
    ],
  ];
  for (const [when, answer, code, says] of rows)
    test(`end with ${when}`, async () => {
      const { port } = await serve(answer);
      const error = await connectTo({ port }).lines(watching, () => undefined);
      expect(error?.code).toBe(code as KubeError["code"]);
      expect(error?.message).toMatch(says);
    });

  test("that break in the middle end with an error and are not retried", async () => {
    const server = await serve(({ stream }) => {
      stream.respond({ ":status": 200 });
      stream.write('{"a":1}\n{"b"');
    });
    const relay = await startRelayTo(server);
    const logged: unknown[] = [];
    const end = connectTo({ port: relay.port }).lines(watching, (line) => logged.push(line));
    await until(() => logged.length === 1);
    relay.reset();
    expect(await end).toMatchObject({ code: "UNREACHABLE" });
    expect(logged).toEqual([{ a: 1 }]);
    expect(server.received.length).toBe(1);
  });

  test("that never start end with TIMEOUT", async () => {
    const { port } = await serve(() => undefined);
    const error = await connectTo({ port }).lines({ ...watching, deadlineMs: 200 }, () => undefined);
    expect(error).toMatchObject({ code: "TIMEOUT", message: "GET /watch: no answer within 200 ms" });
  });
});

test("a dead connection is detected within 30 seconds, and the next request opens another one", async () => {
  const clock = new FakeClock();
  const server = await serve((request) =>
    request.path === "/watch" ? request.stream.respond({ ":status": 200 }) : reply(request, 200, request.connection),
  );
  const relay = await startRelayTo(server);
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
  expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { error: { code: "UNREACHABLE" } } });

  relay.resume();
  const asked = connection.request(get("/x"));
  await settlePromises();
  await clock.advance(2_000);
  expect(await asked).toBe(2);
  expect(connection.state().kind).toBe("connected");
});

test("at whatever byte a connection breaks, a GET ends with the whole response or with an error", async () => {
  const items = Array.from({ length: 100 }, (_, index) => ({ name: `pod-${index}`, ä: "☃" }));
  const server = await serve((request) => reply(request, 200, { items }));
  const relay = await startRelayTo(server);
  const ends: string[] = [];
  for (const bytes of [1, 7, 200, 900, 1100, 1300, 1500, 2000, 2500, 3000, 3500, 4000, 9000]) {
    relay.resetAfter(bytes);
    const connection = connectTo({ port: relay.port, clock: acceleratedClock(now, 20) });
    try {
      // Only the break may end it, however slow the machine is.
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

test("an idle connection with a watch gets a ping every 15 seconds, and none when no answer is expected", async () => {
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
  expect(server.connectionCount()).toBe(1);
  abort.abort();
  await end;
});

test("the deadline ends a request that hangs, and the signal one that is cancelled", async () => {
  const server = await serve(() => undefined);
  const connection = connectTo({ port: server.port });
  // Long enough to connect on a busy machine: the server has to receive the request.
  expect(await failureOf(connection.request({ ...get("/x"), deadlineMs: 1_500 }))).toMatchObject({
    code: "TIMEOUT",
    message: "GET /x: no answer within 1500 ms",
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

test("a server that answers no request is away after two timeouts, which is logged once", async () => {
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
  expect(connection.state()).toMatchObject({ kind: "away", lastFailure: { error: { code: "UNREACHABLE" } } });
  isStuck = false;
  await connection.request(get("/x"));
  expect(connection.state().kind).toBe("connected");
  expect(log.takeLines()).toEqual([
    `warn: the API server cannot be used: 127.0.0.1:${server.port} accepts connections but answers no request; trying again`,
    "info: the API server answers again",
  ]);
});

test("after two timeouts in a row a session is retired, and closed when its last stream ends", async () => {
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
  expect([await connection.request(get("/x")), server.openSessions().length]).toEqual([2, 2]);
  abort.abort();
  await watch;
  await until(() => server.openSessions().length === 1);
});

test("a server that answers other requests while one hangs is not away", async () => {
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

test("concurrent requests to an unreachable server share one connection attempt", async () => {
  let connectionAttempts = 0;
  const port = await listen(
    createTcpServer((socket) => {
      connectionAttempts += 1;
      socket.destroy();
    }),
  );
  const connection = connectTo({ port, clock: acceleratedClock(now, 20), random: Math.random });
  const asked = Array.from({ length: 50 }, () => failureOf(connection.request({ ...get("/x"), deadlineMs: 20_000 })));
  expect(new Set((await Promise.all(asked)).map(({ code }) => code))).toEqual(new Set(["UNREACHABLE"]));
  expect(connectionAttempts).toBeLessThan(15);
});

test("close fails all current and later requests", async () => {
  const server = await serve(() => undefined);
  const connection = connectTo({ port: server.port });
  const asked = failureOf(connection.request(get("/x")));
  const watch = connection.lines({ method: "GET", path: "/watch" }, () => undefined);
  await until(() => server.received.length === 2);
  connection.close();
  expect((await asked).code).toBe("CLOSED");
  expect((await watch)?.code).toBe("CLOSED");
  expect((await failureOf(connection.request(get("/x")))).code).toBe("CLOSED");
  await until(() => server.openSessions().length === 0);
});

test("heartbeats wait neither for the rate limit nor for the responses of other requests", async () => {
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
  expect(await connection.request({ ...get("/lease"), method: "PUT", body: {}, priorityLevel: "heartbeat" })).toBe(
    "ok",
  );
  expect(server.received.length).toBe(65);
  abort.abort();
  expect((await Promise.all(others)).every(({ code }) => code === "CANCELLED")).toBe(true);
});

test("a body is made when flow control admits the request, not before", async () => {
  const clock = new FakeClock();
  const server = await serve((request) => reply(request, 200, JSON.parse(request.body)));
  const connection = connectTo({ port: server.port, clock, rates: { main: { qps: 1, burst: 1 } } });
  let latest = 1;
  const send = () => connection.request({ ...get("/pods"), method: "PATCH", body: () => ({ latest }) });
  expect(await send()).toEqual({ latest: 1 });
  const second = send();
  await settlePromises();
  latest = 2;
  await clock.advance(1_000);
  expect(await second).toEqual({ latest: 2 });
});

test("no token, key, header or body appears in an error or in the log", async () => {
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

/**
 * Lets sockets deliver pending data. Only for checks that nothing happens; never instead of waiting for a condition.
 */
function real(ms: number): Promise<void> {
  return Bun.sleep(ms);
}

async function until(condition: () => boolean): Promise<void> {
  await untilWithin(String(condition), 4000, condition);
}
