import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer, type Server, type Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { ContainerId } from "../../../proto/ids.ts";
import { until } from "../../../test/bed/poll-until.ts";
import { pour, serveTcp } from "../../../test/fakes/tcp-server.ts";
import { createTlsServer, type Received, reply } from "../../../test/fakes/tls-server.ts";
import { createAuthority } from "../../../test/upstream/pki.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import { createAsk } from "./probe-executor.ts";

setDefaultTimeout(20_000);

// Of somebody whom nobody knows: kubelets do not ask who it is.
const own = createAuthority("nobody").issue({ commonName: "somebody else" });
const nobody = { execSync: () => Promise.reject(new Error("nobody asked")) };
type Headers = readonly (readonly [name: string, value: string])[];
const get = (
  url: string,
  { timeoutMs = 10_000, headers = [] as Headers, isHook = false } = {},
): Promise<ProbeOutcome> =>
  createAsk(nobody, "kube-probe/1.36")({ kind: "httpGet", url, headers, takesAnyAnswer: isHook }, "c" as ContainerId, {
    timeoutMs,
    signal: new AbortController().signal,
  });

const closers: (() => unknown)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

async function listen(server: Server): Promise<number> {
  closers.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { readonly port: number }).port;
}

/** A server that takes HTTP/2 and nothing else. */
async function serveHttp2(answer: (request: Received) => void) {
  const server = await createTlsServer(own, answer);
  closers.push(server.close);
  return { ...server, url: `https://127.0.0.1:${server.port}/` };
}
const left = (server: { open(): readonly unknown[] }) =>
  until("the connection to be hung up", 5_000, async () => server.open().length === 0);

test("a server that speaks HTTP/2 alone is asked so, as whom the spec names, with its headers but those of connections and bodies", async () => {
  const server = await serveHttp2((request) => reply(request, 200, "well"));
  const headers = [
    ["Host", "shop.example"],
    ["X-Asked", "yes"],
    ["x-asked", "twice"],
    ["Authorization", "Bearer a"],
    ["Authorization", "Bearer b"],
    ["User-Agent", "somebody"],
    ["User-Agent", "else"],
    ["Content-Length", "5"],
    ["Connection", "close"],
    ["TE", "trailers"],
  ] as const;
  expect(await get(`${server.url}ready?deep=1`, { headers })).toEqual({ result: "success", message: '"well"' });
  const [{ method, path, headers: seen } = { method: "", path: "", headers: {} }] = server.received;
  expect([method, path, seen[":authority"], seen[":scheme"]]).toEqual([
    "GET",
    "/ready?deep=1",
    "shop.example",
    "https",
  ]);
  expect(Object.fromEntries(Object.entries(seen).filter(([name]) => !name.startsWith(":")))).toEqual({
    "x-asked": "yes, twice",
    // As whoever has two of them is told by this server: the first.
    authorization: "Bearer a",
    "user-agent": "somebody",
    te: "trailers",
  });
  await left(server);
});

test("a header that nobody could send is not sent, and named as over HTTP/1.1", async () => {
  const server = await serveHttp2((request) => reply(request, 200, "well"));
  const plain = `http://127.0.0.1:${server.port}/`;
  for (const header of [["X-Odd", "a\nb"] as const, ["X A", "b"] as const]) {
    const [outcome, overPlain] = [
      await get(server.url, { headers: [header] }),
      await get(plain, { headers: [header] }),
    ];
    expect(outcome).toEqual({ ...overPlain, message: overPlain.message.replace("http:", "https:") });
    expect(outcome.result).not.toBe("success");
  }
  expect(server.received).toEqual([]);
});

test("without a host of the spec it is named by its address and port", async () => {
  const server = await serveHttp2((request) => reply(request, 200, "well"));
  await get(server.url);
  expect(server.received[0]?.headers[":authority"]).toBe(`127.0.0.1:${server.port}`);
});

test("a server that speaks HTTP/1.1 alone is asked so, on one connection", async () => {
  let [connections, seen] = [0, ""];
  const server = createHttpsServer({ key: own.key, cert: own.cert }, ({ httpVersion, headers }, answer) => {
    seen = `${httpVersion} ${headers.host} ${headers["x-asked"]} ${headers.connection}`;
    answer.writeHead(503).end("ill");
  });
  server.on("connection", () => connections++);
  const port = await listen(server);
  const message = "HTTP probe failed with statuscode: 503";
  expect(await get(`https://127.0.0.1:${port}/`, { headers: [["X-Asked", "yes"]] })).toEqual({
    result: "failure",
    message,
  });
  expect({ connections, seen }).toEqual({ connections: 1, seen: `1.1 127.0.0.1:${port} yes close` });
});

const both = { ...own, ALPNProtocols: ["h2", "http/1.1"] };
const page = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwell";

test("a server that HTTP/2 makes nothing of is asked by HTTP/1.1 if it takes that too", async () => {
  const server = createServer(both, (socket) => {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol !== "h2") return void socket.once("data", () => socket.end(page));
    // `connection: close`, of which there is nothing in HTTP/2.
    const header = Buffer.concat([
      Buffer.from([0x88, 0, 10]),
      Buffer.from("connection"),
      Buffer.from([5]),
      Buffer.from("close"),
    ]);
    socket.write(settings);
    socket.once("data", () => socket.write(frame(1, 5, 1, header)));
  });
  const url = `https://127.0.0.1:${await listen(server)}/`;
  expect(await get(url)).toEqual({ result: "success", message: "well" });
});

test("who wants to go over to another protocol asks by HTTP/1.1, of which alone one can", async () => {
  let spoken: unknown;
  const server = createServer(both, (socket) => {
    socket.on("error", () => undefined);
    spoken = socket.alpnProtocol;
    socket.once("data", () => socket.end(page));
  });
  const headers = [
    ["Connection", "Upgrade"],
    ["Upgrade", "websocket"],
  ] as const;
  const url = `https://127.0.0.1:${await listen(server)}/`;
  expect([await get(url, { headers }), spoken]).toEqual([{ result: "success", message: "well" }, "http/1.1"]);
});

for (const scheme of ["http", "https"])
  test(`over ${scheme}, what a server says in another protocol that it goes over to is the body of its answer`, async () => {
    const gone: Promise<void>[] = [];
    let ends = true;
    const treat = (socket: Socket) => {
      socket.on("error", () => undefined);
      gone.push(new Promise((resolve) => socket.once("close", () => resolve())));
      socket.once("data", () => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\nwords");
        if (ends) socket.end();
      });
    };
    const server = scheme === "http" ? createTcpServer(treat) : createServer(own, treat);
    const url = `${scheme}://127.0.0.1:${await listen(server)}/`;
    const message = "HTTP probe failed with statuscode: 101";
    expect(await get(url)).toEqual({ result: "failure", message });
    expect(await get(url, { isHook: true })).toEqual({ result: "success", message: "words" });
    ends = false;
    const late = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    expect(await get(url, { timeoutMs: 300 })).toEqual({ result: "error", verdict: "failure", message: late });
    await Promise.all(gone);
    expect(gone).toHaveLength(3);
  });

const statuses: readonly [status: number, outcome: ProbeOutcome][] = [
  [204, { result: "success", message: "" }],
  [404, { result: "failure", message: "HTTP probe failed with statuscode: 404" }],
];
for (const [status, outcome] of statuses)
  test(`HTTP/2: what is answered with ${status} is a ${outcome.result}`, async () => {
    const server = await serveHttp2(({ stream }) => stream.respond({ ":status": status }, { endStream: true }));
    expect(await get(server.url)).toEqual(outcome);
    await left(server);
  });

test("HTTP/2: a redirect on the same host is followed", async () => {
  const server = await serveHttp2((request) =>
    request.path === "/" ? reply(request, 302, undefined, { location: "/there" }) : reply(request, 200, "there"),
  );
  expect(await get(server.url)).toEqual({ result: "success", message: '"there"' });
});

const LATE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
const number = (value: number) => Buffer.from([0, 0, 0, value]);
const settings = frame(4, 0, 0);
/** `:status: 200`, by its place in the table that every peer has, and the first three bytes of a body. */
const begun = Buffer.concat([frame(1, 4, 1, Buffer.from([0x88])), frame(0, 0, 1, Buffer.from("abc"))]);
const reset = (code: number) => frame(3, 0, 1, number(code));
const goAway = (code: number) => frame(7, 0, 0, Buffer.concat([number(0), number(code)]));

/** A header `x` of a thousand bytes, behind others. */
const headersGoOn = frame(
  9,
  0,
  1,
  Buffer.concat([Buffer.from([0, 1, 0x78, 0x7f, 0xe9, 0x06]), Buffer.alloc(1000, "y")]),
);

/** A promise of what `GET https:///` would be answered with. */
const pushed = frame(5, 4, 1, Buffer.from([0, 0, 0, 2, 0x82, 0x87, 0x84]));

/** A server whose every frame is a test's own: it does this with who has asked by HTTP/2. */
async function serveFrames(treat: (socket: TLSSocket) => void) {
  const open = new Set<TLSSocket>();
  const server = createServer({ ...own, ALPNProtocols: ["h2"] }, (socket) => {
    open.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => open.delete(socket));
    socket.write(settings);
    // The preface and the settings go ahead of the question, which is the one frame of the type HEADERS.
    let heard = Buffer.alloc(0);
    const hear = (chunk: Buffer) => {
      heard = Buffer.concat([heard, chunk]);
      for (let at = 24; at + 9 <= heard.length; at += 9 + heard.readUIntBE(at, 3))
        if (heard[at + 3] === 1) {
          socket.off("data", hear).resume();
          treat(socket);
          return;
        }
    };
    socket.on("data", hear);
  });
  const url = `https://127.0.0.1:${await listen(server)}/`;
  return { url, open: () => [...open] };
}

/** What is said behind `Get "https://…/": `. */
const refused: readonly [sentence: string, treat: (socket: TLSSocket) => void, words: string, timeoutMs?: number][] = [
  ["takes the question and never answers", () => undefined, LATE, 300],
  [
    "resets the stream",
    (socket) => void socket.write(reset(2)),
    "stream error: stream ID 1; INTERNAL_ERROR; received from peer",
  ],
  [
    "goes away",
    (socket) => void socket.end(goAway(11)),
    "http2: server sent GOAWAY and closed the connection; ErrCode=ENHANCE_YOUR_CALM",
  ],
  ["hangs up", (socket) => void socket.end(), "EOF"],
  [
    "sends headers without end",
    (socket) => {
      socket.write(frame(1, 0, 1, Buffer.from([0x88])));
      pour(socket, headersGoOn);
    },
    "connection error: PROTOCOL_ERROR",
  ],
  ["pushes what nobody has asked for", (socket) => pour(socket, pushed), "connection error: PROTOCOL_ERROR"],
  [
    "pings without end",
    (socket) => pour(socket, frame(6, 0, 0, Buffer.alloc(8))),
    "Flooding was detected in this HTTP/2 session, and it must be closed",
  ],
  [
    "agrees upon HTTP/2 and speaks something else",
    (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\n"),
    "connection error: PROTOCOL_ERROR",
  ],
];
for (const [sentence, treat, words, timeoutMs] of refused)
  test(`HTTP/2: a server that ${sentence} has failed, and is hung up on`, async () => {
    const server = await serveFrames(treat);
    const message = `Get "${server.url}": ${words}`;
    expect(await get(server.url, timeoutMs === undefined ? {} : { timeoutMs })).toEqual({ result: "failure", message });
    await left(server);
  });

const unfinished: typeof refused = [
  [
    "begins a body and never ends it",
    (socket) => void socket.write(begun),
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
    500,
  ],
  ["hangs up in the midst of a body", (socket) => void socket.end(begun), "unexpected EOF"],
  [
    "resets the stream in the midst of a body",
    (socket) => void socket.write(Buffer.concat([begun, reset(2)])),
    "stream error: stream ID 1; INTERNAL_ERROR; received from peer",
  ],
];
for (const [sentence, treat, words, timeoutMs] of unfinished)
  test(`HTTP/2: a server that ${sentence} says nothing of its container to a probe, and has heard a hook`, async () => {
    for (const isHook of [false, true]) {
      const server = await serveFrames(treat);
      const outcome = await get(server.url, { isHook, ...(timeoutMs !== undefined && { timeoutMs }) });
      expect(outcome).toEqual(
        isHook ? { result: "success", message: "" } : { result: "error", verdict: "failure", message: words },
      );
      await left(server);
    }
  });

test("HTTP/2: a server that answers 100 MB is well by its status, and is hung up on after 10 KiB", async () => {
  const server = await serveHttp2(({ stream }) => {
    stream.respond({ ":status": 200 });
    stream.end(Buffer.alloc(100_000_000, "x"));
  });
  expect(await get(server.url)).toEqual({ result: "success", message: "x".repeat(10 * 1024) });
  await left(server);
});

const strangers: readonly [sentence: string, treat: (socket: Socket) => void, words: string, timeoutMs?: number][] = [
  ["takes the connection and never says a word", () => undefined, LATE, 300],
  ["hangs up on whoever wants TLS", (socket) => void socket.once("data", () => socket.end()), "EOF"],
  [
    "resets whoever wants TLS",
    (socket) => void socket.once("data", () => socket.resetAndDestroy()),
    "read tcp HOST: read: connection reset by peer",
  ],
];
for (const [sentence, treat, words, timeoutMs] of strangers)
  test(`a server that ${sentence} has failed, and is hung up on`, async () => {
    const server = await serveTcp(treat);
    closers.push(server.close);
    const host = `127.0.0.1:${server.port}`;
    const outcome = await get(`https://${host}/`, timeoutMs === undefined ? {} : { timeoutMs });
    expect(outcome).toEqual({ result: "failure", message: `Get "https://${host}/": ${words.replace("HOST", host)}` });
    await server.left;
  });
