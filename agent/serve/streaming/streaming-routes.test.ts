import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { connect, type TLSSocket } from "node:tls";
import { CriError } from "../../../cri/error.ts";
import { createClock } from "../../../host/clock.ts";
import { Container, ContainerState, ExecSyncResponse, PodSandbox } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { type RouteServer, startRouteServer } from "../../../test/fakes/route-server.ts";
import { createSessionLimit } from "./session-limit.ts";
import { createSynStreamWriter, dataFrames, resetFrame } from "./spdy/frame-writer.ts";
import { createStreamingRoutes, type StreamingDeps } from "./streaming-routes.ts";

setDefaultTimeout(10_000);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

const POD: Pod = {
  metadata: { namespace: "default", name: "web", uid: "uid-web" },
  spec: { containers: [{ name: "main", image: "i", tty: true }] },
};
const SWITCHED = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";
const EXEC = "/exec/default/web/main?command=true&output=1";

/** A streaming server of a runtime that does what a test says. */
async function startBackend(onRequest: (socket: Socket, head: string) => void) {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => undefined);
    let head = "";
    const onData = (bytes: Buffer) => {
      head += bytes.toString("latin1");
      if (!head.includes("\r\n\r\n")) return;
      socket.off("data", onData);
      onRequest(socket, head);
    };
    socket.on("data", onData);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/exec/token`, sockets };
}

interface Fixture {
  readonly server: RouteServer;
  readonly runtimeCalls: unknown[];
}

/** The routes with a runtime that has one running container and a ready sandbox, and answers with this URL or error. */
async function startFixture(answer: string | CriError, overrides: Partial<StreamingDeps> = {}): Promise<Fixture> {
  const runtimeCalls: unknown[] = [];
  const prepare = async (...args: readonly unknown[]) => {
    runtimeCalls.push(args.slice(0, -1));
    if (answer instanceof CriError) throw answer;
    return answer;
  };
  const container = Container.fromPartial({
    id: "c1",
    metadata: { name: "main" },
    state: ContainerState.CONTAINER_RUNNING,
  });
  const routes = createStreamingRoutes({
    runtime: {
      exec: prepare,
      attach: prepare,
      portForward: prepare,
      execSync: async (_id, cmd) => {
        runtimeCalls.push([cmd]);
        const isFailing = cmd[0] === "false";
        const stderr = Buffer.from(isFailing ? "no" : "err");
        return ExecSyncResponse.fromPartial({ exitCode: isFailing ? 1 : 0, stdout: Buffer.from("out"), stderr });
      },
      listContainers: async () => [container, Container.fromPartial({ ...container, id: "c0", state: 2 })],
      listPodSandbox: async () => [PodSandbox.fromPartial({ id: "s1" })],
    },
    findPod: (namespace, name) => (`${namespace}/${name}` === "default/web" ? POD : undefined),
    ...{
      clock: createClock(),
      idleTimeoutMs: 0,
      translatesWebSockets: true,
      sessionLimit: createSessionLimit(100, () => {}),
    },
    ...overrides,
  });
  const server = await startRouteServer(routes);
  closers.push(server.close);
  return { server, runtimeCalls };
}

const WEBSOCKET_HEADERS =
  "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

function dial(fixture: Fixture, target: string, headers = "Upgrade: SPDY/3.1\r\n"): TLSSocket {
  return dialWith(fixture, `${target} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n${headers}\r\n`);
}

function dialWith({ server }: Fixture, bytes: string | Uint8Array): TLSSocket {
  const socket = connect({ host: "127.0.0.1", port: server.port, rejectUnauthorized: false });
  socket.on("error", () => undefined);
  closers.push(() => socket.destroy());
  socket.write(bytes);
  return socket;
}

/** A binary message of a client's WebSocket, shorter than 126 bytes. */
function clientFrame(payload: Buffer): Buffer {
  const mask = [1, 2, 3, 4];
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([0x82, 0x80 | payload.length, ...mask]), masked]);
}

/** The payloads of a server's binary messages, each shorter than 126 bytes, as latin1. */
function payloadsOf(frames: string): string {
  if (frames === "") return "";
  const length = frames.charCodeAt(1);
  return frames.slice(2, 2 + length) + payloadsOf(frames.slice(2 + length));
}

/** Everything that a connection receives until its end. */
function readAll(socket: TLSSocket): Promise<string> {
  let received = "";
  socket.on("data", (bytes: Buffer) => {
    received += bytes.toString("latin1");
  });
  return new Promise((resolve) => socket.on("close", () => resolve(received)));
}

function received(socket: Pick<TLSSocket, "on">): () => string {
  let text = "";
  socket.on("data", (bytes: Buffer) => {
    text += bytes.toString("latin1");
  });
  return () => text;
}

const bodyOf = (answer: string) => [Number(answer.split(" ")[1]), answer.slice(answer.indexOf("\r\n\r\n") + 4)];
const noUrl = "http://127.0.0.1:1/exec/token";

const refusals: readonly (readonly [target: string, status: number, body: string, error?: CriError])[] = [
  ["POST /exec/default/missing/main?output=1", 404, "pod does not exist"],
  ["POST /exec/default/missing/main", 400, "you must specify at least 1 of stdin, stdout, stderr"],
  ["POST /exec/default/web/other?output=1", 500, 'container not found ("other")'],
  ["POST /exec/default/web/other-uid/main?output=1", 500, 'container not found ("main")'],
  ["POST /attach/default/web/other?output=1", 500, "container other not found in pod web_default"],
  ["POST /portForward/default/missing", 404, "pod does not exist"],
  ["POST /portForward/default/web/other-uid", 404, "pod not found"],
  [
    "POST /exec/default/web/main?output=1",
    500,
    "error dialing backend: dial tcp 127.0.0.1:1: connect: connection refused\n",
  ],
  [
    "POST /exec/default/web/main?output=1",
    404,
    "rpc error: code = NotFound desc = gone",
    new CriError("NOT_FOUND", "Exec", "gone"),
  ],
  [
    "POST /attach/default/web/uid-web/main?output=1",
    429,
    "rpc error: code = ResourceExhausted desc = maximum number of in-flight requests exceeded",
    new CriError("RESOURCE_EXHAUSTED", "Attach", "maximum number of in-flight requests exceeded"),
  ],
  [
    "POST /portForward/default/web/uid-web",
    500,
    "rpc error: code = Unavailable desc = down",
    new CriError("UNAVAILABLE", "PortForward", "down"),
  ],
];
for (const [target, status, body, error] of refusals)
  test(`${target} is refused with ${status} ${body.trim()}`, async () => {
    const fixture = await startFixture(error ?? noUrl);
    expect(bodyOf(await readAll(dial(fixture, target)))).toEqual([status, body]);
  });

test("a request that asks for no upgrade is refused, without a call of the runtime", async () => {
  const fixture = await startFixture(noUrl);
  const url = `https://127.0.0.1:${fixture.server.port}`;
  for (const path of [EXEC, "/attach/default/web/main?output=1", "/portForward/default/web"]) {
    const response = await fetch(url + path, { method: "POST", tls: { rejectUnauthorized: false } });
    expect([response.status, await response.text()]).toEqual([500, "Upgrade request required\n"]);
  }
  expect(fixture.runtimeCalls).toEqual([]);
});

test("the runtime gets the command, the streams and the ports", async () => {
  const fixture = await startFixture(noUrl);
  const streams = { stdin: false, stdout: false, stderr: false, tty: false };
  await readAll(dial(fixture, "POST /exec/default/web/main?command=sh&command=-c&command=a%20b&input=1&error=1"));
  // The terminal of the container decides, not the client.
  await readAll(dial(fixture, "POST /attach/default/web/main?output=1"));
  await readAll(dial(fixture, "POST /portForward/default/web?port=1"));
  await readAll(dial(fixture, "GET /portForward/default/web?port=80,443", WEBSOCKET_HEADERS));
  expect(fixture.runtimeCalls).toEqual([
    ["c1", ["sh", "-c", "a b"], { ...streams, stdin: true, stderr: true }],
    ["c1", { ...streams, stdout: true, tty: true }],
    ["s1", []],
    ["s1", [80, 443]],
  ]);
});

test("run answers with the output of a command, or with how it failed", async () => {
  const fixture = await startFixture(noUrl);
  const run = async (cmd: string) => {
    const url = `https://127.0.0.1:${fixture.server.port}/run/default/web/main?cmd=${encodeURIComponent(cmd)}`;
    const response = await fetch(url, { method: "POST", tls: { rejectUnauthorized: false } });
    return [response.status, await response.text()];
  };
  expect(await run("echo a b")).toEqual([200, "outerr"]);
  expect(await run("false x")).toEqual([500, "command 'false x' exited with 1: no"]);
  expect(fixture.runtimeCalls).toEqual([[["echo", "a", "b"]], [["false", "x"]]]);
});

describe("a session", () => {
  test("passes every byte on in both directions, also those right behind the headers", async () => {
    const backend = await startBackend((socket) => {
      socket.write(`${SWITCHED}first `);
      socket.pipe(socket);
    });
    const client = dial(await startFixture(backend.url), `POST ${EXEC}`);
    const text = received(client);
    await pollUntil("the first bytes", 5_000, () => text() === `${SWITCHED}first `);
    client.write("second");
    await pollUntil("the echo", 5_000, () => text() === `${SWITCHED}first second`);
  });

  test("gives the runtime the client's headers without credentials and without those of proxies", async () => {
    const heads: string[] = [];
    const backend = await startBackend((socket, head) => {
      heads.push(head);
      socket.end(SWITCHED);
    });
    const headers = [
      "Upgrade: SPDY/3.1",
      "X-Stream-Protocol-Version: v4.channel.k8s.io",
      "X-Stream-Protocol-Version: v3.channel.k8s.io",
      "Authorization: Bearer secret",
      "Cookie: secret",
      "X-Forwarded-For: 192.0.2.1",
      "X-Remote-User: admin",
      "Proxy-Authorization: secret",
    ];
    await readAll(dial(await startFixture(backend.url), `POST ${EXEC}`, headers.map((line) => `${line}\r\n`).join("")));
    const [requestLine, ...lines] = (heads[0] ?? "").trim().split("\r\n");
    expect(requestLine).toBe("POST /exec/token HTTP/1.1");
    expect(lines.map((line) => line.toLowerCase()).toSorted()).toEqual(
      [
        "connection: upgrade",
        `host: ${new URL(backend.url).host}`,
        "upgrade: spdy/3.1",
        "x-stream-protocol-version: v3.channel.k8s.io",
        "x-stream-protocol-version: v4.channel.k8s.io",
      ].toSorted(),
    );
  });

  test("that the runtime refuses passes the refusal on, and nothing that follows (CVE-2018-1002105)", async () => {
    const smuggled: string[] = [];
    const backend = await startBackend((socket) => {
      socket.write("HTTP/1.1 403 Forbidden\r\nX-Accepted: v4\r\nContent-Length: 6\r\n\r\nno v9\n");
      socket.on("data", (bytes: Buffer) => smuggled.push(bytes.toString()));
    });
    const client = dial(await startFixture(backend.url), `POST ${EXEC}`);
    const text = received(client);
    await pollUntil("the refusal", 5_000, () => text().endsWith("no v9\n"));
    expect(text()).toBe(
      "HTTP/1.1 403 Forbidden\r\nX-Accepted: v4\r\nContent-Length: 6\r\nConnection: close\r\n\r\nno v9\n",
    );
    client.write("POST /exec/other HTTP/1.1\r\n\r\n");
    await pollUntil("the end", 5_000, () => backend.sockets.every(({ destroyed }) => destroyed));
    expect(smuggled).toEqual([]);
  });

  test("follows no redirect (CVE-2020-8559)", async () => {
    const elsewhere = await startBackend((socket) => socket.end(SWITCHED));
    const backend = await startBackend((socket) =>
      socket.write(`HTTP/1.1 302 Found\r\nLocation: ${elsewhere.url}\r\nContent-Length: 0\r\n\r\n`),
    );
    const answer = await readAll(dial(await startFixture(backend.url), `POST ${EXEC}`));
    expect(bodyOf(answer)).toEqual([500, "invalid upgrade response: status code 302\n"]);
    expect(elsewhere.sockets).toEqual([]);
  });

  const broken: readonly (readonly [what: string, bytes: string, body: string])[] = [
    ["that is no HTTP", "220 ready\r\n\r\n", "malformed HTTP response\n"],
    ["that breaks off", "HTTP/1.1 101 Switching", "unexpected EOF\n"],
    [
      "without an end",
      "HTTP/1.1 101 X\r\nA: ".padEnd(70_000, "a"),
      "the answer of the streaming server has no end of headers\n",
    ],
  ];
  for (const [what, bytes, body] of broken)
    test(`with an answer of the runtime ${what} fails`, async () => {
      const backend = await startBackend((socket) => socket.end(bytes));
      expect(bodyOf(await readAll(dial(await startFixture(backend.url), `POST ${EXEC}`)))).toEqual([500, body]);
    });

  test("fails when the runtime does not answer within 30 s", async () => {
    const clock = new FakeClock();
    const backend = await startBackend(() => undefined);
    const answer = readAll(dial(await startFixture(backend.url, { clock }), `POST ${EXEC}`));
    await pollUntil("the connection", 5_000, () => backend.sockets.length > 0);
    await clock.advance(30_000);
    expect(bodyOf(await answer)).toEqual([500, "no answer of the streaming server within 30 s\n"]);
  });

  test("ends when nothing has moved for streamingConnectionIdleTimeout", async () => {
    const clock = new FakeClock();
    const backend = await startBackend((socket) => {
      socket.write(SWITCHED);
      socket.pipe(socket);
    });
    const client = dial(await startFixture(backend.url, { clock, idleTimeoutMs: 4_000 }), `POST ${EXEC}`);
    const text = received(client);
    await pollUntil("the start", 5_000, () => text() === SWITCHED);
    await clock.advance(3_000);
    client.write("a");
    await pollUntil("the echo", 5_000, () => text().endsWith("a"));
    await clock.advance(3_000);
    expect([client.destroyed, clock.pendingTimers]).toEqual([false, 1]);
    await clock.advance(1_000);
    await pollUntil("the end", 5_000, () => client.destroyed && backend.sockets.every(({ destroyed }) => destroyed));
    expect(clock.pendingTimers).toBe(0);
  });

  test("delivers everything to a slow client, also long after the runtime has ended", async () => {
    const clock = new FakeClock();
    const sent = Buffer.alloc(5_000_000, "slow ");
    const backend = await startBackend((socket) => {
      socket.write(SWITCHED);
      socket.end(sent);
    });
    const client = dial(await startFixture(backend.url, { clock }), `POST ${EXEC}`);
    client.pause();
    const text = received(client);
    client.pause();
    await pollUntil("the session", 5_000, () => backend.sockets.length > 0);
    for (let minute = 0; minute < 10; minute++) {
      await Bun.sleep(20);
      await clock.advance(60_000);
    }
    client.resume();
    await pollUntil("all of it", 10_000, () => text().length === SWITCHED.length + sent.length);
    await pollUntil("the end of the runtime's side", 5_000, () => backend.sockets.every(({ destroyed }) => destroyed));
    await pollUntil("the end", 5_000, async () => {
      await clock.advance(5_000);
      return client.destroyed && clock.pendingTimers === 0;
    });
  });

  test("is refused while too many run, before the runtime is asked", async () => {
    const backend = await startBackend((socket) => void socket.write(SWITCHED));
    const fixture = await startFixture(backend.url, { sessionLimit: createSessionLimit(2, () => {}) });
    const open = [`POST ${EXEC}`, "POST /portForward/default/web"].map((target) => dial(fixture, target));
    const texts = open.map(received);
    await pollUntil("both sessions", 5_000, () => texts.every((text) => text() === SWITCHED));
    const refusal =
      "this node runs 2 sessions of exec, attach, run and port-forward, and allows no more at once: end one, or try again later";
    for (const target of [`POST ${EXEC}`, "POST /attach/default/web/main?output=1", "POST /portForward/default/web"])
      expect(bodyOf(await readAll(dial(fixture, target)))).toEqual([429, refusal]);
    const url = `https://127.0.0.1:${fixture.server.port}/run/default/web/main?cmd=true`;
    const answer = await fetch(url, { method: "POST", tls: { rejectUnauthorized: false } });
    expect([answer.status, await answer.text()]).toEqual([429, refusal]);
    expect(fixture.runtimeCalls).toHaveLength(2);
    open[0]?.destroy();
    await pollUntil("a free place", 5_000, async () => {
      const again = dial(fixture, `POST ${EXEC}`);
      const text = received(again);
      await pollUntil("an answer", 5_000, () => text().includes("\r\n\r\n"));
      return text() === SWITCHED;
    });
  });

  test("closes the other side when one vanishes", async () => {
    const backend = await startBackend((socket) => void socket.write(SWITCHED));
    const fixture = await startFixture(backend.url);
    const vanishing = dial(fixture, `POST ${EXEC}`);
    const text = received(vanishing);
    await pollUntil("the start", 5_000, () => text() === SWITCHED);
    vanishing.destroy();
    await pollUntil("the end of the runtime's side", 5_000, () => backend.sockets.every(({ destroyed }) => destroyed));
    const left = dial(fixture, `POST ${EXEC}`);
    const textOfLeft = received(left);
    const all = readAll(left);
    await pollUntil("the second session", 5_000, () => textOfLeft() === SWITCHED);
    backend.sockets[1]?.destroy();
    expect(await all).toBe(SWITCHED);
  });

  test("ends when the server stops", async () => {
    const backend = await startBackend((socket) => void socket.write(SWITCHED));
    const fixture = await startFixture(backend.url);
    const all = readAll(dial(fixture, `POST ${EXEC}`));
    await pollUntil("the start", 5_000, () => backend.sockets.length === 1);
    fixture.server.abortAll();
    await all;
    await pollUntil("the end", 5_000, () => backend.sockets.every(({ destroyed }) => destroyed));
  });

  test("reads from the runtime only as fast as the client does", async () => {
    const part = Buffer.alloc(1_000_000);
    const backend = await startBackend((socket) => {
      socket.write(SWITCHED);
      for (let index = 0; index < 100; index++) socket.write(part);
    });
    const client = dial(await startFixture(backend.url), `POST ${EXEC}`);
    client.pause();
    const waiting = () => backend.sockets[0]?.writableLength ?? 0;
    await pollUntil("the first bytes", 5_000, () => waiting() > 0);
    let before = 0;
    await pollUntil("a standstill", 10_000, async () => {
      before = waiting();
      await Bun.sleep(200);
      return waiting() === before;
    });
    expect(before).toBeGreaterThan(80_000_000);
    client.destroy();
  });
});

describe("a session that is cut", () => {
  const reply = (id: number) => Buffer.from(`800300020000000400000${id.toString(16).padStart(3, "0")}`, "hex");
  const headers = `${WEBSOCKET_HEADERS}Sec-WebSocket-Protocol: v5.channel.k8s.io\r\n`;
  const tunnelHeaders = `${WEBSOCKET_HEADERS}Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n`;
  const spdyHeaders = "Upgrade: SPDY/3.1\r\n";
  const TUNNEL = "GET /portForward/default/web";
  const FORWARDS = SWITCHED.replace(/\r\n$/, "X-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n");
  /** What a runtime sends in a session of exec with stdout. */
  const execOutput = Buffer.concat([
    ...[reply(1), reply(3), dataFrames(3, Buffer.from("out\n"), false), dataFrames(3, Buffer.alloc(0), true)],
    ...[dataFrames(1, Buffer.from(JSON.stringify({ metadata: {}, status: "Success" })), false), resetFrame(1)],
  ]);
  const forwardOutput = Buffer.concat([
    ...[reply(1), reply(3), dataFrames(3, Buffer.from("answer of a pod\n"), true)],
    dataFrames(1, Buffer.alloc(0), true),
  ]);
  const CLOSED_NORMALLY = "\u0088\u0002\u0003\u00e8";

  /** The routes, and what is left of their sessions. */
  async function startCounted(url: string) {
    let sessions = 0;
    const sessionLimit = {
      async run<T>(session: () => Promise<T>) {
        sessions++;
        return await session().finally(() => sessions--);
      },
    };
    const fixture = await startFixture(url, { sessionLimit });
    // The first connection also opens what stays open.
    await readAll(dial(fixture, "POST /exec/default/missing/main?output=1"));
    const descriptors = async () => (await readdir("/proc/self/fd")).length;
    const before = await descriptors();
    return {
      ...fixture,
      async waitUntilNothingIsLeft() {
        await pollUntil("the end of the sessions", 10_000, () => sessions === 0);
        await pollUntil("the end of the clients", 10_000, () => fixture.server.openUpgrades() === 0);
        await pollUntil("no descriptor more", 10_000, async () => (await descriptors()) <= before);
      },
    };
  }

  /** What the client has received when `sent` bytes of the runtime have arrived. */
  type Expectation = (answer: string, sent: number) => void;
  const expectExecEnd: Expectation = (answer, sent) => {
    expect(answer).toContain("Sec-WebSocket-Protocol: v5.channel.k8s.io");
    // The last frame closes with 1000; the one before it is on the error channel.
    expect(answer).toEndWith(CLOSED_NORMALLY);
    expect(answer).toContain(sent < SWITCHED.length ? "unexpected EOF" : '"status":');
  };
  const expectTunnelEnd: Expectation = (answer, sent) => {
    if (sent < FORWARDS.length) return expect(bodyOf(answer)).toEqual([500, "unexpected EOF\n"]);
    expect(answer).toContain("Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io");
    expect(answer).toEndWith(CLOSED_NORMALLY);
    const frames = answer.slice(answer.indexOf("\r\n\r\n") + 4, -CLOSED_NORMALLY.length);
    expect(payloadsOf(frames)).toBe(forwardOutput.toString("latin1", 0, sent - FORWARDS.length));
  };
  const expectSameBytes: Expectation = (answer, sent) => {
    if (sent < SWITCHED.length) return expect(bodyOf(answer)).toEqual([500, "unexpected EOF\n"]);
    expect(answer).toBe(SWITCHED + execOutput.toString("latin1", 0, sent - SWITCHED.length));
  };
  const runtimeCuts: readonly (readonly [
    what: string,
    target: string,
    headers: string,
    fromRuntime: Buffer,
    expectEnd: Expectation,
  ])[] = [
    ["exec by WebSocket", `GET ${EXEC}`, headers, Buffer.concat([Buffer.from(SWITCHED), execOutput]), expectExecEnd],
    ["a tunnel", TUNNEL, tunnelHeaders, Buffer.concat([Buffer.from(FORWARDS), forwardOutput]), expectTunnelEnd],
    ["exec by SPDY", `POST ${EXEC}`, spdyHeaders, Buffer.concat([Buffer.from(SWITCHED), execOutput]), expectSameBytes],
  ];
  for (const [what, target, given, fromRuntime, expectEnd] of runtimeCuts)
    test(`at every tenth byte of the runtime leaves nothing open, and the client gets an end: ${what}`, async () => {
      let cutAt = 0;
      const backend = await startBackend((socket) => socket.end(fromRuntime.subarray(0, cutAt)));
      const fixture = await startCounted(backend.url);
      for (; cutAt < fromRuntime.length; cutAt += 10) expectEnd(await readAll(dial(fixture, target, given)), cutAt);
      await fixture.waitUntilNothingIsLeft();
    });

  const synStream = createSynStreamWriter();
  const forwardInput = [
    synStream(1, { port: "8080", requestid: "0", streamtype: "error" }),
    synStream(3, { port: "8080", requestid: "0", streamtype: "data" }),
    dataFrames(3, Buffer.from("GET / HTTP/1.0\r\n\r\n"), true),
  ];
  const execInput = [Buffer.from("\u0000echo\n"), Buffer.from('\u0004{"Width":80,"Height":24}'), Buffer.from([255, 0])];
  const clientCuts: readonly (readonly [
    what: string,
    target: string,
    headers: string,
    input: readonly Buffer[],
    answer: string,
    replies: readonly number[],
    step: number,
  ])[] = [
    ["exec by WebSocket", `GET ${EXEC}&input=1`, headers, execInput.map(clientFrame), SWITCHED, [1, 3, 5], 1],
    ["a tunnel", TUNNEL, tunnelHeaders, forwardInput.map(clientFrame), FORWARDS, [1, 3], 5],
    ["exec by SPDY", `POST ${EXEC}&input=1`, spdyHeaders, forwardInput, SWITCHED, [1, 3], 5],
  ];
  for (const [what, target, given, input, answer, replies, step] of clientCuts)
    test(`at bytes of the client's request and input leaves nothing open: ${what}`, async () => {
      const accepted = Buffer.concat([Buffer.from(answer), ...replies.map(reply)]);
      const backend = await startBackend((socket) => void socket.write(accepted));
      const fixture = await startCounted(backend.url);
      const request = Buffer.from(`${target} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n${given}\r\n`);
      const all = Buffer.concat([request, ...input]);
      for (let cutAt = 0; cutAt <= all.length; cutAt += cutAt < request.length ? 10 : step) {
        const client = dialWith(fixture, all.subarray(0, cutAt));
        const text = received(client);
        if (cutAt >= request.length) await pollUntil("the handshake", 5_000, () => text().includes("\r\n\r\n"));
        // A client that ends its half, and one that is killed.
        if (cutAt < request.length || cutAt % 2 === 0) client.end();
        else client.destroy();
      }
      await fixture.waitUntilNothingIsLeft();
      await pollUntil("the end", 5_000, () => backend.sockets.every(({ destroyed }) => destroyed));
    });

  test("by a runtime that accepts no streams within 30 s reports that to the client", async () => {
    const clock = new FakeClock();
    const backend = await startBackend((socket) => void socket.write(SWITCHED));
    const client = dial(await startFixture(backend.url, { clock }), `GET ${EXEC}`, headers);
    const all = readAll(client);
    await pollUntil(
      "the session",
      5_000,
      () => clock.pendingTimers === 1 && (backend.sockets[0]?.bytesRead ?? 0) > 200,
    );
    await clock.advance(30_000);
    await clock.advance(5_000);
    expect(await all).toContain("the container runtime has not opened the streams within 30 s");
  });

  const badHandshakes: readonly (readonly [target: string, headers: string, body: string])[] = [
    [`POST ${EXEC}`, headers, "a WebSocket handshake must be a GET request"],
    [`GET ${EXEC}`, headers.replace("13", "8"), "the WebSocket version must be 13 (header Sec-WebSocket-Version)"],
    [`GET ${EXEC}`, headers.replace("dGhl", ""), "the header Sec-WebSocket-Key must be 16 bytes in base64"],
  ];
  for (const [target, given, body] of badHandshakes)
    test(`before it starts, because ${body}`, async () => {
      const fixture = await startFixture(noUrl);
      expect(bodyOf(await readAll(dial(fixture, target, given)))).toEqual([400, body]);
    });
});
