import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { Server, Socket } from "node:net";
import type { ContainerId } from "../../../proto/ids.ts";
import { pour, serveTcp, type TcpServer } from "../../../test/fakes/tcp-server.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import type { Enquiry } from "../../translate/probe-request.ts";
import { createAsk } from "./probe-executor.ts";

setDefaultTimeout(20_000);

const nobody = { execSync: () => Promise.reject(new Error("nobody asked")) };
const ask = (call: Enquiry, timeoutMs: number): Promise<ProbeOutcome> =>
  createAsk(nobody, "kube-probe/1.36")(call, "c1" as ContainerId, { timeoutMs, signal: new AbortController().signal });

const servers: { close(): void }[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { readonly port: number }).port;
}

async function serve(treat: (socket: Socket) => void): Promise<TcpServer> {
  const server = await serveTcp(treat);
  servers.push(server);
  return server;
}

const onceAsked = (answer: (socket: Socket) => void) => (socket: Socket) =>
  void socket.once("data", () => answer(socket));

const ok = "HTTP/1.1 200 OK\r\n";
const malformed = "net/http: HTTP/1.x transport connection broken: malformed HTTP response";
const tooMany = "net/http: server response headers exceeded 16384 bytes; aborted";

/** What is said behind `Get "http://…/": `. */
const refused: readonly [sentence: string, treat: (socket: Socket) => void, words: string][] = [
  [
    "sends headers without end",
    onceAsked((socket) => {
      socket.write(ok);
      pour(socket, `X-Much: ${"x".repeat(1000)}\r\n`);
    }),
    tooMany,
  ],
  [
    "sends one header without end",
    onceAsked((socket) => {
      socket.write(`${ok}X-Much: `);
      pour(socket, "x".repeat(1000));
    }),
    tooMany,
  ],
  [
    "resets the connection",
    onceAsked((socket) => socket.resetAndDestroy()),
    "read tcp HOST: read: connection reset by peer",
  ],
  ["hangs up without a word", onceAsked((socket) => socket.end()), "EOF"],
  ["hangs up in the midst of its headers", onceAsked((socket) => socket.end(`${ok}X-Much: `)), "EOF"],
  ["speaks something else", (socket) => void socket.end("220 mail.example.org ESMTP\r\n"), malformed],
];
for (const [sentence, treat, words] of refused)
  test(`an HTTP server that ${sentence} has failed, and is hung up on`, async () => {
    const { port, left } = await serve(treat);
    // A busy machine may need more than a second to read what has no end.
    const outcome = await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 10_000);
    const host = `127.0.0.1:${port}`;
    expect(outcome).toEqual({ result: "failure", message: `Get "http://${host}/": ${words.replace("HOST", host)}` });
    await left;
  });

const partOfTen = `${ok}content-length: 10\r\n\r\nabc`;
const unfinished: readonly [sentence: string, treat: (socket: Socket) => void, words: string, limitMs: number][] = [
  [
    "begins a body and never ends it",
    onceAsked((socket) => socket.write(partOfTen)),
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
    1_000,
  ],
  ["hangs up in the midst of a body", onceAsked((socket) => socket.end(partOfTen)), "unexpected EOF", 10_000],
];
for (const [sentence, treat, words, limitMs] of unfinished)
  test(`an HTTP server that ${sentence} says nothing of its container to a probe, has heard a hook, and is hung up on`, async () => {
    for (const takesAnyAnswer of [false, true]) {
      const { port, left } = await serve(treat);
      const url = `http://127.0.0.1:${port}/`;
      const outcome = await ask({ kind: "httpGet", url, headers: [], takesAnyAnswer }, limitMs);
      expect(outcome).toEqual(
        takesAnyAnswer ? { result: "success", message: "" } : { result: "error", verdict: "failure", message: words },
      );
      await left;
    }
  });

test("an HTTP server that answers 100 MB is well by its status, and is hung up on after 10 KiB", async () => {
  const { port, left } = await serve(
    onceAsked((socket) => {
      socket.write(`${ok}content-length: 100000000\r\n\r\n`);
      pour(socket, "x".repeat(50_000));
    }),
  );
  const outcome = await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 5_000);
  expect(outcome).toEqual({ result: "success", message: "x".repeat(10 * 1024) });
  await left;
});

test("of answers without end nothing adds up", async () => {
  const { port } = await serve((socket) => {
    socket.write(`${ok}\r\n`);
    pour(socket, "x".repeat(100_000));
  });
  const flood = () => ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 10_000);
  for (let times = 0; times < 20; times++) await flood();
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  for (let times = 0; times < 100; times++) expect((await flood()).result).toBe("success");
  Bun.gc(true);
  // A hundred answers, of which as much was sent as fits the buffers of two sockets.
  expect(process.memoryUsage.rss() - before).toBeLessThan(50e6);
});

const noGrpc: readonly [sentence: string, treat: (socket: Socket) => void][] = [
  ["never says a word", () => undefined],
  ["speaks HTTP/1", onceAsked((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))],
  ["pours out what is no HTTP/2", (socket) => pour(socket, "x".repeat(10_000))],
  ["hangs up on everybody", (socket) => void socket.end()],
  ["resets everybody", (socket) => void socket.resetAndDestroy()],
];
for (const [sentence, treat] of noGrpc)
  test(`a gRPC server that ${sentence} has failed when the time is over`, async () => {
    const { port, left } = await serve(treat);
    expect(await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 500)).toEqual({
      result: "failure",
      message: `timeout: failed to connect service "127.0.0.1:${port}" within 500ms: context deadline exceeded`,
    });
    await left;
  });

test("one that takes the question and never answers has failed too, and is told apart", async () => {
  const server = createHttp2Server();
  server.on("stream", () => undefined);
  const port = await listen(server);
  expect(await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 500)).toEqual({
    result: "failure",
    message: "timeout: health rpc did not complete within 500ms",
  });
});

test("one that answers with something else than gRPC has failed", async () => {
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.respond({ ":status": 404 });
    stream.end();
  });
  const port = await listen(server);
  const { result, message } = await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 2_000);
  expect(result).toBe("failure");
  expect(message).toMatch(/^error: .*(not implement the grpc health protocol|rpc error: code = )/);
});

test("one that says that the question was cancelled has failed, since nobody here took it back", async () => {
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.respond({ ":status": 200, "grpc-status": "1", "grpc-message": "not%20now" }, { endStream: true });
  });
  const port = await listen(server);
  expect(await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 5_000)).toEqual({
    result: "failure",
    message: "error: health rpc probe failed: rpc error: code = Canceled desc = not now",
  });
});
