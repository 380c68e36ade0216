import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { Server, Socket } from "node:net";
import type { ContainerId } from "../../../proto/ids.ts";
import { startTcpServer, type TcpServer, writeForever } from "../../../test/fakes/tcp-server.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import type { ProbeRequest } from "../../translate/probe-request.ts";
import { createProbeExecutor } from "./probe-executor.ts";

setDefaultTimeout(20_000);

const noRuntime = { execSync: () => Promise.reject(new Error("unexpected ExecSync")) };
const ask = (call: ProbeRequest, timeoutMs: number): Promise<ProbeOutcome> =>
  createProbeExecutor(noRuntime, "kube-probe/1.36")(call, "c1" as ContainerId, {
    timeoutMs,
    signal: new AbortController().signal,
  });

const servers: { close(): void }[] = [];
afterAll(() => {
  for (const server of servers) server.close();
});

async function listen(server: Server): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as { readonly port: number }).port;
}

async function serve(serveSocket: (socket: Socket) => void): Promise<TcpServer> {
  const server = await startTcpServer(serveSocket);
  servers.push(server);
  return server;
}

const onRequest = (answer: (socket: Socket) => void) => (socket: Socket) =>
  void socket.once("data", () => answer(socket));

const ok = "HTTP/1.1 200 OK\r\n";
const malformed = "net/http: HTTP/1.x transport connection broken: malformed HTTP response";
const tooManyHeaders = "net/http: server response headers exceeded 16384 bytes; aborted";

/** `words`: the message behind `Get "http://…/": `. */
const failing: readonly [sentence: string, treat: (socket: Socket) => void, words: string][] = [
  [
    "sends headers without end",
    onRequest((socket) => {
      socket.write(ok);
      writeForever(socket, `X-Much: ${"x".repeat(1000)}\r\n`);
    }),
    tooManyHeaders,
  ],
  [
    "sends one header without end",
    onRequest((socket) => {
      socket.write(`${ok}X-Much: `);
      writeForever(socket, "x".repeat(1000));
    }),
    tooManyHeaders,
  ],
  [
    "resets the connection",
    onRequest((socket) => socket.resetAndDestroy()),
    "read tcp HOST: read: connection reset by peer",
  ],
  ["closes the connection without a response", onRequest((socket) => socket.end()), "EOF"],
  ["closes the connection within its headers", onRequest((socket) => socket.end(`${ok}X-Much: `)), "EOF"],
  ["speaks another protocol", (socket) => void socket.end("220 mail.example.org ESMTP\r\n"), malformed],
  ["sends a control character in a header", onRequest((socket) => socket.end(`${ok}a: b\u0001\r\n\r\n`)), malformed],
];
for (const [sentence, serveSocket, words] of failing)
  test(`an HTTP probe fails and closes its connection if the server ${sentence}`, async () => {
    const { port, closed } = await serve(serveSocket);
    // A busy machine may need more than a second to read an endless response.
    const outcome = await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 10_000);
    const host = `127.0.0.1:${port}`;
    expect(outcome).toEqual({ result: "failure", message: `Get "http://${host}/": ${words.replace("HOST", host)}` });
    await closed;
  });

const partOfTen = `${ok}content-length: 10\r\n\r\nabc`;
const unfinished: readonly [sentence: string, treat: (socket: Socket) => void, words: string, limitMs: number][] = [
  [
    "never completes its body",
    onRequest((socket) => socket.write(partOfTen)),
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
    1_000,
  ],
  ["closes the connection within its body", onRequest((socket) => socket.end(partOfTen)), "unexpected EOF", 10_000],
];
for (const [sentence, serveSocket, words, limitMs] of unfinished)
  test(`an HTTP probe ends with an error, and a hook succeeds, if the server ${sentence}; both close the connection`, async () => {
    for (const acceptsAnyResponse of [false, true]) {
      const { port, closed } = await serve(serveSocket);
      const url = `http://127.0.0.1:${port}/`;
      const outcome = await ask({ kind: "httpGet", url, headers: [], acceptsAnyResponse }, limitMs);
      expect(outcome).toEqual(
        acceptsAnyResponse
          ? { result: "success", message: "" }
          : { result: "error", eventResult: "failure", message: words },
      );
      await closed;
    }
  });

test("an HTTP probe of a 100 MB response succeeds by its status and closes the connection after 10 KiB", async () => {
  const { port, closed } = await serve(
    onRequest((socket) => {
      socket.write(`${ok}content-length: 100000000\r\n\r\n`);
      writeForever(socket, "x".repeat(50_000));
    }),
  );
  const outcome = await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 5_000);
  expect(outcome).toEqual({ result: "success", message: "x".repeat(10 * 1024) });
  await closed;
});

test("endless responses do not accumulate in memory", async () => {
  const { port } = await serve((socket) => {
    socket.write(`${ok}\r\n`);
    writeForever(socket, "x".repeat(100_000));
  });
  const flood = () => ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/`, headers: [] }, 10_000);
  for (let times = 0; times < 20; times++) await flood();
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  for (let times = 0; times < 100; times++) expect((await flood()).result).toBe("success");
  Bun.gc(true);
  // A hundred responses, each as long as the buffers of two sockets.
  expect(process.memoryUsage.rss() - before).toBeLessThan(50e6);
});

const noGrpc: readonly [sentence: string, treat: (socket: Socket) => void][] = [
  ["never sends anything", () => undefined],
  ["speaks HTTP/1", onRequest((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"))],
  ["floods the client with bytes that are not HTTP/2", (socket) => writeForever(socket, "x".repeat(10_000))],
  ["closes every connection", (socket) => void socket.end()],
  ["resets every connection", (socket) => void socket.resetAndDestroy()],
];
for (const [sentence, serveSocket] of noGrpc)
  test(`a gRPC probe fails after its timeout if the server ${sentence}`, async () => {
    const { port, closed } = await serve(serveSocket);
    expect(await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 500)).toEqual({
      result: "failure",
      message: `timeout: failed to connect service "127.0.0.1:${port}" within 500ms: context deadline exceeded`,
    });
    await closed;
  });

test("a gRPC probe fails with a message of its own if the server accepts the request and never responds", async () => {
  const server = createHttp2Server();
  server.on("stream", () => undefined);
  const port = await listen(server);
  expect(await ask({ kind: "grpc", host: "127.0.0.1", port, service: "" }, 500)).toEqual({
    result: "failure",
    message: "timeout: health rpc did not complete within 500ms",
  });
});

test("a gRPC probe fails if the response is not gRPC", async () => {
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

test("a gRPC probe fails if the server responds with CANCELLED although the agent did not cancel", async () => {
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
