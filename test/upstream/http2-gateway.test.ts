import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../host/clock.ts";
import type { KubeError } from "../../kube/error.ts";
import { createKubeConnection, type KubeConnection } from "../../kube/transport/connection.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { fixedEndpoint } from "../fakes/cluster-endpoint.ts";
import { FakeLog } from "../fakes/log.ts";
import { createTlsServer, reply, type TlsServer } from "../fakes/tls-server.ts";
import { firstSuccessDelayMs, type Http2Gateway, startHttp2Gateway } from "./http2-gateway.ts";
import { createCertificateAuthority } from "./pki.ts";

let server: TlsServer;
let gateway: Http2Gateway;
let connection: KubeConnection;

beforeEach(async () => {
  const authority = createCertificateAuthority("berth.test");
  const [own, client] = [
    authority.issue({ commonName: "server", hosts: ["127.0.0.1"] }),
    authority.issue({ commonName: "client" }),
  ];
  const tls = { ...own, ca: authority.cert, requestCert: true, rejectUnauthorized: true };
  server = await createTlsServer(tls, (request) => {
    const { method, path, body, headers, stream } = request;
    if (path.startsWith("/watch")) {
      stream.respond({ ":status": 200, "content-type": "application/json" });
      stream.write('{"line":1}\n');
    } else reply(request, 200, { method, path, body, type: headers["content-type"] });
  });
  const target = `https://127.0.0.1:${server.port}`;
  gateway = await startHttp2Gateway({ target, ca: authority.cert, certificate: own, identity: client });
  connection = createKubeConnection({
    cluster: fixedEndpoint({
      server: new URL(`https://127.0.0.1:${gateway.port}`),
      certificateAuthority: authority.cert,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({}), markRejected: () => undefined },
    }),
    userAgent: "test",
    rateLimits: { main: undefined, events: undefined },
    clock: createClock(),
    random: () => 0,
    log: new FakeLog(),
  });
});
afterEach(async () => {
  connection.close();
  await gateway.close();
  server.close();
});

const get = (path: string) => connection.request({ method: "GET", path, deadlineMs: 3_000 });
const put = (path: string) => connection.request({ method: "PUT", path, body: { a: 1 }, deadlineMs: 3_000 });
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => "none",
    (error: KubeError) => error.code,
  );
const seen = () => server.received.map(({ method, path }) => `${method} ${path}`);

test("forwards requests with headers and body, under the gateway's identity, and returns the responses", async () => {
  expect(await put("/things/a?x=1")).toEqual({
    method: "PUT",
    path: "/things/a?x=1",
    body: '{"a":1}',
    type: "application/json",
  });
  expect([gateway.requests, seen()]).toEqual([["PUT /things/a?x=1"], ["PUT /things/a?x=1"]]);
});

test("forwards watch lines as they arrive, and ends the watch at the server when the client ends it", async () => {
  const controller = new AbortController();
  const lines: unknown[] = [];
  const watch = { method: "GET", path: "/watch", signal: controller.signal } as const;
  const end = connection.lines(watch, (line) => lines.push(line));
  await pollUntil("a line", 2000, () => lines.length === 1);
  server.received[0]!.stream.write('{"line":2}\n');
  await pollUntil("another", 2000, () => lines.length === 2);
  controller.abort();
  expect((await end)?.code).toBe("CANCELLED");
  await pollUntil("the end at the server", 2000, () => server.received[0]!.stream.destroyed);
});

test("answers matching requests in place of the server until the returned function is called", async () => {
  const end = gateway.respondWith(500, ({ method }) => method === "PUT");
  expect(await codeOf(put("/a"))).toBe("SERVER");
  expect(await codeOf(get("/a"))).toBe("none");
  end();
  expect(await codeOf(put("/b"))).toBe("none");
  expect(seen()).toEqual(["GET /a", "PUT /b"]);
});

test("answers with additional headers", async () => {
  gateway.respondWith(429, undefined, { "retry-after": "60" });
  const error = await get("/a").catch((error: KubeError) => error);
  expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS", retryAfterMs: 60_000 });
});

test("a held request gets no response until it is released", async () => {
  const release = gateway.hold(({ path }) => path === "/a");
  const held = codeOf(put("/a"));
  expect(await codeOf(put("/b"))).toBe("none");
  expect(seen()).toEqual(["PUT /b"]);
  release();
  expect(await held).toBe("none");
});

test("the first success after a time is that of a response, not of a request, and no error counts", async () => {
  const { received } = gateway;
  const began = performance.now();
  const refuse = gateway.respondWith(500, ({ path }) => path === "/a");
  const release = gateway.hold(({ path }) => path === "/held");
  await codeOf(put("/a"));
  const held = codeOf(put("/held"));
  await pollUntil("the held request", 2000, () => gateway.requests.length === 2);
  expect(received.map(({ response }) => response?.status)).toEqual([500, undefined]);
  expect(firstSuccessDelayMs(received, began)).toBe(Number.POSITIVE_INFINITY);
  const released = performance.now();
  expect(received.every(({ at }) => at < released)).toBe(true);
  release();
  refuse();
  await held;
  expect(received[1]?.response?.status).toBe(200);
  expect(firstSuccessDelayMs(received, released)).toBe(0);
  expect(firstSuccessDelayMs(received, began)).toBe(received[1]!.at - began);
  expect(firstSuccessDelayMs(received, performance.now())).toBe(Number.POSITIVE_INFINITY);
});

test("a muted watch stays open without data, and later requests are not affected", async () => {
  const lines: unknown[] = [];
  const controller = new AbortController();
  const watch = { method: "GET", path: "/watch", signal: controller.signal } as const;
  const end = connection.lines(watch, (line) => lines.push(line));
  await pollUntil("a line", 2000, () => lines.length === 1);
  expect(gateway.mute(({ path }) => path === "/watch")).toBe(1);
  server.received[0]!.stream.write('{"line":2}\n');
  const other = connection.lines(watch, (line) => lines.push({ other: line }));
  await pollUntil("a line of another", 2000, () => lines.length > 1);
  expect(await codeOf(get("/a"))).toBe("none");
  expect(lines).toEqual([{ line: 1 }, { other: { line: 1 } }]);
  controller.abort();
  expect([(await end)?.code, (await other)?.code]).toEqual(["CANCELLED", "CANCELLED"]);
});

test("a cut resets the responses under way and does not affect later requests", async () => {
  let isOpen = false;
  const opened = () => {
    isOpen = true;
  };
  const end = connection.lines({ method: "GET", path: "/watch" }, () => undefined, opened);
  await pollUntil("the watch", 2000, () => isOpen);
  expect(gateway.abortResponses()).toBe(1);
  expect((await end)?.code).toBe("CLOSED");
  expect(await codeOf(get("/a"))).toBe("none");
});

test("a server that dies resets its watches, and the next request opens a new session to it", async () => {
  const end = connection.lines({ method: "GET", path: "/watch" }, () => undefined);
  await pollUntil("the watch", 2000, () => server.received.length === 1);
  for (const { stream } of server.received) stream.destroy(new Error("the server dies"));
  for (const session of server.openSessions()) session.destroy();
  expect((await end)?.code).toBe("CLOSED");
  expect(await codeOf(get("/a"))).toBe("none");
});
