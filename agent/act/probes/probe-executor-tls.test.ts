import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer, type Server, type Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { ContainerId } from "../../../proto/ids.ts";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { startTcpServer, writeForever } from "../../../test/fakes/tcp-server.ts";
import { createTlsServer, type ReceivedRequest, reply } from "../../../test/fakes/tls-server.ts";
import { createCertificateAuthority } from "../../../test/upstream/pki.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import { createProbeExecutor } from "./probe-executor.ts";

setDefaultTimeout(20_000);

// The certificate of an unknown authority: like the kubelet, HTTPS probes do not verify it.
const serverCert = createCertificateAuthority("unknown").issue({ commonName: "other.example" });
const noRuntime = { execSync: () => Promise.reject(new Error("unexpected ExecSync")) };
type Headers = readonly (readonly [name: string, value: string])[];
const get = (
  url: string,
  { timeoutMs = 10_000, headers = [] as Headers, isHook = false } = {},
): Promise<ProbeOutcome> =>
  createProbeExecutor(noRuntime, "kube-probe/1.36")(
    { kind: "httpGet", url, headers, acceptsAnyResponse: isHook },
    "c" as ContainerId,
    {
      timeoutMs,
      signal: new AbortController().signal,
    },
  );

const closers: (() => unknown)[] = [];
afterAll(() => {
  for (const close of closers) close();
});

async function listen(server: Server): Promise<number> {
  closers.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { readonly port: number }).port;
}

/** A server that accepts only HTTP/2. */
async function serveHttp2(answer: (request: ReceivedRequest) => void) {
  const server = await createTlsServer(serverCert, answer);
  closers.push(server.close);
  return { ...server, url: `https://127.0.0.1:${server.port}/` };
}
const left = (server: { openSessions(): readonly unknown[] }) =>
  pollUntil("the connection to be closed", 5_000, async () => server.openSessions().length === 0);

test("an HTTP/2-only server receives the spec's host and headers, without those of connections and bodies", async () => {
  const server = await serveHttp2((request) => reply(request, 200, "well"));
  const headers = [
    ["Host", "shop.example"],
    ["X-Asked", "yes"],
    ["x-asked", "twice"],
    ["Authorization", "Bearer a"],
    ["Authorization", "Bearer b"],
    ["User-Agent", "first"],
    ["User-Agent", "second"],
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
    // Node's server shows only the first of two.
    authorization: "Bearer a",
    "user-agent": "first",
    te: "trailers",
  });
  await left(server);
});

test("HTTP/2: an invalid header is not sent and is named in the message, as over HTTP/1.1", async () => {
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

test("HTTP/2: without a Host header in the spec, :authority is the address and port", async () => {
  const server = await serveHttp2((request) => reply(request, 200, "well"));
  await get(server.url);
  expect(server.received[0]?.headers[":authority"]).toBe(`127.0.0.1:${server.port}`);
});

test("an HTTP/1.1-only server receives the request over HTTP/1.1 on one connection", async () => {
  let [connections, seen] = [0, ""];
  const server = createHttpsServer(
    { key: serverCert.key, cert: serverCert.cert },
    ({ httpVersion, headers }, answer) => {
      seen = `${httpVersion} ${headers.host} ${headers["x-asked"]} ${headers.connection}`;
      answer.writeHead(503).end("ill");
    },
  );
  server.on("connection", () => connections++);
  const port = await listen(server);
  const message = "HTTP probe failed with statuscode: 503";
  expect(await get(`https://127.0.0.1:${port}/`, { headers: [["X-Asked", "yes"]] })).toEqual({
    result: "failure",
    message,
  });
  expect({ connections, seen }).toEqual({ connections: 1, seen: `1.1 127.0.0.1:${port} yes close` });
});

const both = { ...serverCert, ALPNProtocols: ["h2", "http/1.1"] };
const page = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nwell";

test("a probe falls back to HTTP/1.1 if the server's HTTP/2 response is invalid and the server offers both", async () => {
  const server = createServer(both, (socket) => {
    socket.on("error", () => undefined);
    if (socket.alpnProtocol !== "h2") return void socket.once("data", () => socket.end(page));
    // The header `connection: close`, which HTTP/2 forbids.
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

test("a request with an Upgrade header uses HTTP/1.1, because HTTP/2 has no upgrade", async () => {
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
  test(`over ${scheme}, the bytes after a 101 Switching Protocols are the body of the response`, async () => {
    const gone: Promise<void>[] = [];
    let ends = true;
    const serveSocket = (socket: Socket) => {
      socket.on("error", () => undefined);
      gone.push(new Promise((resolve) => socket.once("close", () => resolve())));
      socket.once("data", () => {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\r\nwords");
        if (ends) socket.end();
      });
    };
    const server = scheme === "http" ? createTcpServer(serveSocket) : createServer(serverCert, serveSocket);
    const url = `${scheme}://127.0.0.1:${await listen(server)}/`;
    const message = "HTTP probe failed with statuscode: 101";
    expect(await get(url)).toEqual({ result: "failure", message });
    expect(await get(url, { isHook: true })).toEqual({ result: "success", message: "words" });
    ends = false;
    const late = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
    expect(await get(url, { timeoutMs: 300 })).toEqual({ result: "error", eventResult: "failure", message: late });
    await Promise.all(gone);
    expect(gone).toHaveLength(3);
  });

const ok = "HTTP/1.1 200 OK\r\n";
/** Go's client accepts each of them. */
const lenientLines: readonly [sentence: string, response: string][] = [
  ["ends its header lines with LF alone, as a CGI program behind httpd of busybox does", `${ok}a: b\n\nwell`],
  ["ends every line with LF alone", "HTTP/1.1 200 OK\ncontent-length: 4\n\nwell"],
  ["continues a header on the next line", `${ok}a: b\r\n c\r\n\r\nwell`],
];
for (const [sentence, response] of lenientLines)
  for (const scheme of ["http", "https"])
    test(`over ${scheme}, a probe succeeds if the server ${sentence}`, async () => {
      const serveSocket = (socket: Socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.end(response));
      };
      const server = scheme === "http" ? createTcpServer(serveSocket) : createServer(serverCert, serveSocket);
      const url = `${scheme}://127.0.0.1:${await listen(server)}/`;
      expect(await get(url)).toEqual({ result: "success", message: "well" });
    });

const statuses: readonly [status: number, outcome: ProbeOutcome][] = [
  [204, { result: "success", message: "" }],
  [404, { result: "failure", message: "HTTP probe failed with statuscode: 404" }],
];
for (const [status, outcome] of statuses)
  test(`HTTP/2: a response with status ${status} is a ${outcome.result}`, async () => {
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

const TIMEOUT_MESSAGE = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

function frame(type: number, flags: number, stream: number, payload = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.set([type, flags], 3);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}
const number = (value: number) => Buffer.from([0, 0, 0, value]);
const settings = frame(4, 0, 0);
/** `:status: 200` by its index in HPACK's static table, and the first three bytes of a body. */
const partialResponse = Buffer.concat([frame(1, 4, 1, Buffer.from([0x88])), frame(0, 0, 1, Buffer.from("abc"))]);
const reset = (code: number) => frame(3, 0, 1, number(code));
const goAway = (code: number) => frame(7, 0, 0, Buffer.concat([number(0), number(code)]));

/** A CONTINUATION frame with a header `x` of a thousand bytes. */
const continuationFrame = frame(
  9,
  0,
  1,
  Buffer.concat([Buffer.from([0, 1, 0x78, 0x7f, 0xe9, 0x06]), Buffer.alloc(1000, "y")]),
);

/** A PUSH_PROMISE for `GET https:///`. */
const pushPromise = frame(5, 4, 1, Buffer.from([0, 0, 0, 2, 0x82, 0x87, 0x84]));

/** An HTTP/2 server that calls `serveSocket` with the raw socket once a request has arrived. */
async function serveFrames(serveSocket: (socket: TLSSocket) => void) {
  const open = new Set<TLSSocket>();
  const server = createServer({ ...serverCert, ALPNProtocols: ["h2"] }, (socket) => {
    open.add(socket);
    socket.on("error", () => undefined);
    socket.once("close", () => open.delete(socket));
    socket.write(settings);
    // The preface and SETTINGS precede the request, which is the only HEADERS frame.
    let received = Buffer.alloc(0);
    const onData = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      for (let at = 24; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3))
        if (received[at + 3] === 1) {
          socket.off("data", onData).resume();
          serveSocket(socket);
          return;
        }
    };
    socket.on("data", onData);
  });
  const url = `https://127.0.0.1:${await listen(server)}/`;
  return { url, openSessions: () => [...open] };
}

/** `words`: the message behind `Get "https://…/": `. */
const failing: readonly [sentence: string, treat: (socket: TLSSocket) => void, words: string, timeoutMs?: number][] = [
  ["accepts the request and never responds", () => undefined, TIMEOUT_MESSAGE, 300],
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
  ["closes the connection", (socket) => void socket.end(), "EOF"],
  [
    "sends headers without end",
    (socket) => {
      socket.write(frame(1, 0, 1, Buffer.from([0x88])));
      writeForever(socket, continuationFrame);
    },
    "connection error: PROTOCOL_ERROR",
  ],
  [
    "pushes responses that were not requested",
    (socket) => writeForever(socket, pushPromise),
    "connection error: PROTOCOL_ERROR",
  ],
  [
    "pings without end",
    (socket) => writeForever(socket, frame(6, 0, 0, Buffer.alloc(8))),
    "Flooding was detected in this HTTP/2 session, and it must be closed",
  ],
  [
    "negotiates HTTP/2 and speaks another protocol",
    (socket) => void socket.write("HTTP/1.1 200 OK\r\n\r\n"),
    "connection error: PROTOCOL_ERROR",
  ],
];
for (const [sentence, serveSocket, expected, timeoutMs] of failing)
  test(`HTTP/2: a probe fails and closes its connection if the server ${sentence}`, async () => {
    const server = await serveFrames(serveSocket);
    const message = `Get "${server.url}": ${expected}`;
    expect(await get(server.url, timeoutMs === undefined ? {} : { timeoutMs })).toEqual({ result: "failure", message });
    await left(server);
  });

const unfinished: typeof failing = [
  [
    "never completes its body",
    (socket) => void socket.write(partialResponse),
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
    500,
  ],
  ["closes the connection within its body", (socket) => void socket.end(partialResponse), "unexpected EOF"],
  [
    "resets the stream within its body",
    (socket) => void socket.write(Buffer.concat([partialResponse, reset(2)])),
    "stream error: stream ID 1; INTERNAL_ERROR; received from peer",
  ],
];
for (const [sentence, serveSocket, expected, timeoutMs] of unfinished)
  test(`HTTP/2: a probe ends with an error, and a hook succeeds, if the server ${sentence}`, async () => {
    for (const isHook of [false, true]) {
      const server = await serveFrames(serveSocket);
      const outcome = await get(server.url, { isHook, ...(timeoutMs !== undefined && { timeoutMs }) });
      expect(outcome).toEqual(
        isHook ? { result: "success", message: "" } : { result: "error", eventResult: "failure", message: expected },
      );
      await left(server);
    }
  });

test("HTTP/2: a probe of a 100 MB response succeeds by its status and closes the connection after 10 KiB", async () => {
  const server = await serveHttp2(({ stream }) => {
    stream.respond({ ":status": 200 });
    stream.end(Buffer.alloc(100_000_000, "x"));
  });
  expect(await get(server.url)).toEqual({ result: "success", message: "x".repeat(10 * 1024) });
  await left(server);
});

const brokenTls: readonly [sentence: string, treat: (socket: Socket) => void, words: string, timeoutMs?: number][] = [
  ["accepts the connection and never sends anything", () => undefined, TIMEOUT_MESSAGE, 300],
  ["closes the connection at the TLS handshake", (socket) => void socket.once("data", () => socket.end()), "EOF"],
  [
    "resets the connection at the TLS handshake",
    (socket) => void socket.once("data", () => socket.resetAndDestroy()),
    "read tcp HOST: read: connection reset by peer",
  ],
];
for (const [sentence, serveSocket, expected, timeoutMs] of brokenTls)
  test(`an HTTPS probe fails and closes its connection if the server ${sentence}`, async () => {
    const server = await startTcpServer(serveSocket);
    closers.push(server.close);
    const host = `127.0.0.1:${server.port}`;
    const outcome = await get(`https://${host}/`, timeoutMs === undefined ? {} : { timeoutMs });
    expect(outcome).toEqual({
      result: "failure",
      message: `Get "https://${host}/": ${expected.replace("HOST", host)}`,
    });
    await server.closed;
  });
