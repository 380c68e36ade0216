import { afterEach, beforeEach, expect, test } from "bun:test";
import { createClock } from "../../host/clock.ts";
import type { KubeError } from "../../kube/error.ts";
import { type Connection, createConnection } from "../../kube/transport/connection.ts";
import { until } from "../bed/poll-until.ts";
import { fixedCluster } from "../fakes/cluster-endpoint.ts";
import { FakeLog } from "../fakes/log.ts";
import { createTlsServer, reply, type TlsServer } from "../fakes/tls-server.ts";
import { type Gateway, startGateway } from "./http2-gateway.ts";
import { createAuthority } from "./pki.ts";

let server: TlsServer;
let gateway: Gateway;
let connection: Connection;

beforeEach(async () => {
  const authority = createAuthority("berth.test");
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
  gateway = await startGateway({ target, ca: authority.cert, certificate: own, identity: client });
  connection = createConnection({
    cluster: fixedCluster({
      server: new URL(`https://127.0.0.1:${gateway.port}`),
      certificateAuthority: authority.cert,
      tlsServerName: undefined,
      insecureSkipTlsVerify: false,
      credentials: { identity: async () => ({}), refused: () => undefined },
    }),
    userAgent: "test",
    rates: { main: undefined, events: undefined },
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

test("requests pass with what they carry, under the identity of the gateway, and so do the answers", async () => {
  expect(await put("/things/a?x=1")).toEqual({
    method: "PUT",
    path: "/things/a?x=1",
    body: '{"a":1}',
    type: "application/json",
  });
  expect([gateway.requests, seen()]).toEqual([["PUT /things/a?x=1"], ["PUT /things/a?x=1"]]);
});

test("lines of a watch pass as they come, and one that is ended by the client ends at the server", async () => {
  const controller = new AbortController();
  const lines: unknown[] = [];
  const watch = { method: "GET", path: "/watch", signal: controller.signal } as const;
  const end = connection.lines(watch, (line) => lines.push(line));
  await until("a line", 2000, () => lines.length === 1);
  server.received[0]!.stream.write('{"line":2}\n');
  await until("another", 2000, () => lines.length === 2);
  controller.abort();
  expect((await end)?.code).toBe("CANCELLED");
  await until("the end at the server", 2000, () => server.received[0]!.stream.destroyed);
});

test("what is chosen is answered in the place of the server, until that is over", async () => {
  const end = gateway.answer(500, ({ method }) => method === "PUT");
  expect(await codeOf(put("/a"))).toBe("SERVER");
  expect(await codeOf(get("/a"))).toBe("none");
  end();
  expect(await codeOf(put("/b"))).toBe("none");
  expect(seen()).toEqual(["GET /a", "PUT /b"]);
});

test("an answer may carry what a server says besides", async () => {
  gateway.answer(429, undefined, { "retry-after": "60" });
  const error = await get("/a").catch((error: KubeError) => error);
  expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS", retryAfterMs: 60_000 });
});

test("what is held is answered by nobody until it is passed on", async () => {
  const release = gateway.hold(({ path }) => path === "/a");
  const held = codeOf(put("/a"));
  expect(await codeOf(put("/b"))).toBe("none");
  expect(seen()).toEqual(["PUT /b"]);
  release();
  expect(await held).toBe("none");
});

test("what is muted stays open and silent, and what is asked later does not", async () => {
  const lines: unknown[] = [];
  const controller = new AbortController();
  const watch = { method: "GET", path: "/watch", signal: controller.signal } as const;
  const end = connection.lines(watch, (line) => lines.push(line));
  await until("a line", 2000, () => lines.length === 1);
  expect(gateway.mute(({ path }) => path === "/watch")).toBe(1);
  server.received[0]!.stream.write('{"line":2}\n');
  const other = connection.lines(watch, (line) => lines.push({ other: line }));
  await until("a line of another", 2000, () => lines.length > 1);
  expect(await codeOf(get("/a"))).toBe("none");
  expect(lines).toEqual([{ line: 1 }, { other: { line: 1 } }]);
  controller.abort();
  expect([(await end)?.code, (await other)?.code]).toEqual(["CANCELLED", "CANCELLED"]);
});

test("a cut ends what is under way, and nothing else", async () => {
  let isOpen = false;
  const opened = () => {
    isOpen = true;
  };
  const end = connection.lines({ method: "GET", path: "/watch" }, () => undefined, opened);
  await until("the watch", 2000, () => isOpen);
  expect(gateway.cut()).toBe(1);
  expect((await end)?.code).toBe("CLOSED");
  expect(await codeOf(get("/a"))).toBe("none");
});

test("a server that dies breaks what is under way; one that is back is found", async () => {
  const end = connection.lines({ method: "GET", path: "/watch" }, () => undefined);
  await until("the watch", 2000, () => server.received.length === 1);
  for (const { stream } of server.received) stream.destroy(new Error("the server dies"));
  for (const session of server.open()) session.destroy();
  expect((await end)?.code).toBe("CLOSED");
  expect(await codeOf(get("/a"))).toBe("none");
});
