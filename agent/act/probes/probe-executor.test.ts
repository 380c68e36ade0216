import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { getEventListeners } from "node:events";
import { createServer, type Server } from "node:http";
import { createServer as createTcpServer, type Server as TcpServer } from "node:net";
import { Server as GrpcServer, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import { CriError } from "../../../cri/error.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import type { ProbeOutcome } from "../../decide/container/probe.ts";
import type { ProbeRequest } from "../../translate/probe-request.ts";
import { createProbeExecutor } from "./probe-executor.ts";

setDefaultTimeout(10_000);

const id = "c1" as ContainerId;
const never = new AbortController().signal;
const noRuntime = { execSync: () => Promise.reject(new Error("unexpected ExecSync")) };
const ask = (call: ProbeRequest, timeoutMs = 8_000): Promise<ProbeOutcome> =>
  createProbeExecutor(noRuntime, "kube-probe/1.36")(call, id, { timeoutMs, signal: never });
const get = (path: string) =>
  ({ kind: "httpGet", url: `http://127.0.0.1:${port}${path}`, headers: [["X-Asked", "yes"]] }) as const;

let server: Server;
let silent: TcpServer;
let grpc: GrpcServer;
let [port, silentPort, grpcPort] = [0, 0, 0];
/** Nothing listens on port 1. A port that a server has just closed may be another test's server the next moment. */
const closedPort = 1;
const seen: string[] = [];
/** The headers of the last requests in order, without those that every request has. */
const headersSeen: string[] = [];
/** Only of the paths of one test: an aborted request of an earlier test may still arrive. */
const hostsSeen: string[] = [];

const portOf = (listening: TcpServer | Server) => (listening.address() as { readonly port: number }).port;
const listen = (listening: TcpServer | Server) =>
  new Promise<void>((resolve) => listening.listen(0, "127.0.0.1", resolve));

beforeAll(async () => {
  server = createServer((request, answer) => {
    const { url = "" } = request;
    seen.push(`${request.method} ${url} ${request.headers["x-asked"]} ${request.headers.connection}`);
    const { rawHeaders: raw } = request;
    if (/^\/(here|there|ok)$/.test(url)) hostsSeen.push(request.headers.host ?? "");
    const pairs = raw.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${raw[i + 1]}`] : []));
    headersSeen.push(...pairs.filter((line) => !/^(host|connection):/i.test(line)));
    if (url === "/here") answer.writeHead(302, { location: "/ok" }).end();
    else if (url === "/away") answer.writeHead(302, { location: "http://elsewhere.invalid/" }).end("gone there");
    else if (url === "/to-tls") answer.writeHead(302, { location: `https://127.0.0.1:${port}/to-tls` }).end();
    else if (url === "/there") answer.writeHead(302, { location: `http://127.0.0.1:${port}/ok` }).end();
    else if (url.startsWith("/chain-")) {
      const left = Number(url.slice("/chain-".length));
      answer.writeHead(left === 0 ? 200 : 302, { location: `/chain-${left - 1}` }).end();
    } else if (url === "/round") answer.writeHead(302, { location: "/round" }).end();
    else if (url === "/flood") for (let i = 0; i < 200; i++) answer.write("x".repeat(50_000));
    else if (url !== "/never") answer.writeHead(Number(url.slice(1)) || 200).end("words");
  });
  silent = createTcpServer(() => undefined);
  for (const each of [server, silent]) await listen(each);
  [port, silentPort] = [portOf(server), portOf(silent)];
  grpc = new GrpcServer();
  const bytes = { serialize: (value: Buffer) => value, deserialize: (value: Buffer) => value };
  const check = {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: bytes.serialize,
    requestDeserialize: bytes.deserialize,
    responseSerialize: bytes.serialize,
    responseDeserialize: bytes.deserialize,
  } as const;
  grpc.addService(
    { check },
    {
      // SERVING for the server as a whole, NOT_SERVING for any service of it.
      check: (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
        done(null, Buffer.from([8, call.request.length === 0 ? 1 : 2])),
    },
  );
  grpcPort = await new Promise((resolve, reject) =>
    grpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
});

afterAll(async () => {
  grpc.forceShutdown();
  server.closeAllConnections();
  silent.close();
  await new Promise((resolve) => server.close(resolve));
});

const http: readonly [sentence: string, path: string, outcome: object][] = [
  ["status 200 is a success", "/200", { result: "success", message: "words" }],
  ["status 299 is a success", "/299", { result: "success", message: "words" }],
  [
    "status 300 is a success with a warning",
    "/300",
    { result: "warning", message: "Probe terminated redirects, Response body: words" },
  ],
  ["status 399 is a success with a warning", "/399", { result: "warning" }],
  ["a redirect without a Location is a success with a warning", "/302", { result: "warning" }],
  ["status 199 is a failure", "/199", { result: "failure" }],
  ["status 400 is a failure", "/400", { result: "failure", message: "HTTP probe failed with statuscode: 400" }],
  ["status 500 is a failure", "/500", { result: "failure", message: "HTTP probe failed with statuscode: 500" }],
  ["a redirect on the same host is followed", "/here", { result: "success", message: "words" }],
  [
    "a redirect to another host is a success with a warning",
    "/away",
    { result: "warning", message: "Probe terminated redirects, Response body: gone there" },
  ],
];
for (const [sentence, path, outcome] of http)
  test(`HTTP: ${sentence}`, async () => {
    expect(await ask(get(path))).toMatchObject(outcome);
  });

test("HTTP: a hook over HTTPS whose server speaks plain HTTP is repeated without TLS and without its Authorization header", async () => {
  headersSeen.splice(0);
  const url = `https://127.0.0.1:${port}/500`;
  const headers = [
    ["Authorization", "Bearer secret"],
    ["X-Asked", "yes"],
  ] as const;
  expect(await ask({ kind: "httpGet", url, headers, acceptsAnyResponse: true })).toEqual({
    result: "success",
    message: "words",
    plainHttpHost: `127.0.0.1:${port}`,
  });
  expect(headersSeen.splice(0)).toEqual(["X-Asked: yes"]);
});

test("HTTP: neither a probe whose server speaks plain HTTP nor a hook without a server is repeated without TLS", async () => {
  const url = `https://127.0.0.1:${port}/200`;
  const message = `Get "${url}": http: server gave HTTP response to HTTPS client`;
  expect(await ask({ kind: "httpGet", url, headers: [] })).toEqual({ result: "failure", message });
  const away = `https://127.0.0.1:${closedPort}/`;
  const refused = `Get "${away}": dial tcp 127.0.0.1:${closedPort}: connect: connection refused`;
  expect(await ask({ kind: "httpGet", url: away, headers: [], acceptsAnyResponse: true })).toEqual({
    result: "failure",
    message: refused,
  });
});

test("HTTP: a hook that plain HTTP redirects back to HTTPS is not repeated a second time", async () => {
  const url = `https://127.0.0.1:${port}/to-tls`;
  expect(await ask({ kind: "httpGet", url, headers: [], acceptsAnyResponse: true })).toEqual({
    result: "failure",
    message: `Get "${url}": http: server gave HTTP response to HTTPS client`,
  });
});

for (const [count, result] of [
  [9, "success"],
  [10, "failure"],
] as const)
  test(`HTTP: ${count} redirects in a row end in ${result}`, async () => {
    expect(await ask(get(`/chain-${count}`))).toMatchObject({ result });
  });

test("HTTP: a relative redirect keeps the spec's Host header, an absolute one drops it", async () => {
  hostsSeen.length = 0;
  const headers = [["Host", "shop.example"]] as const;
  await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/here`, headers });
  await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/there`, headers });
  expect(hostsSeen).toEqual(["shop.example", "shop.example", "shop.example", `127.0.0.1:${port}`]);
});

test("HTTP: a redirect loop fails after ten redirects", async () => {
  expect(await ask(get("/round"))).toEqual({
    result: "failure",
    message: `Get "http://127.0.0.1:${port}/round": stopped after 10 redirects`,
  });
});

test("HTTP: a probe sends the headers of the spec and keeps no connection alive", async () => {
  seen.length = 0;
  await ask(get("/200"));
  expect(seen).toEqual(["GET /200 yes close"]);
});

test("HTTP: a header may have any name, and may occur twice in different case", async () => {
  const headers = [
    ["constructor", "of the spec"],
    ["__proto__", "too"],
    ["X-Twice", "1"],
    ["x-twice", "2"],
  ] as const;
  headersSeen.length = 0;
  await ask({ kind: "httpGet", url: `http://127.0.0.1:${port}/200`, headers });
  expect(headersSeen).toEqual(["constructor: of the spec", "__proto__: too", "X-Twice: 1", "X-Twice: 2"]);
});

test("HTTP: a probe reads only 10 KiB of an endless response", async () => {
  const { result, message } = await ask(get("/flood"), 8_000);
  expect([result, message.length]).toEqual(["success", 10 * 1024]);
});

test("HTTP: a probe fails after its timeout if the server never responds", async () => {
  expect(await ask(get("/never"), 200)).toEqual({
    result: "failure",
    message: `Get "http://127.0.0.1:${port}/never": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`,
  });
});

test("HTTP: a header value with a line break is not sent, and the message names the header", async () => {
  const call = { kind: "httpGet", url: "http://127.0.0.1:9/", headers: [["X-Own", "secret\r\nHost: other"]] } as const;
  expect(await ask(call)).toEqual({
    result: "failure",
    message: 'Get "http://127.0.0.1:9/": net/http: invalid header field value for "X-Own"',
  });
});

for (const url of ["http://a b:80/", "http://%00:80/", "http://[[::1]]:80/"])
  test(`HTTP: a probe of the invalid URL ${url} ends with an error`, async () => {
    expect(await ask({ kind: "httpGet", url, headers: [] })).toEqual({
      result: "error",
      message: `"${url}" is not a URL: its host must be a name or an address`,
    });
  });

test("HTTP, TCP and gRPC: the API's longest timeout does not overflow the timer", async () => {
  const longestMs = (2 ** 31 - 1) * 1000;
  expect((await ask(get("/ok"), longestMs)).result).toBe("success");
  expect((await ask({ kind: "tcpSocket", host: "127.0.0.1", port: silentPort }, longestMs)).result).toBe("success");
  const serving = { kind: "grpc", host: "127.0.0.1", port: grpcPort, service: "" } as const;
  expect((await ask(serving, longestMs)).result).toBe("success");
});

test("HTTP and TCP: a probe of a closed port fails with connection refused", async () => {
  const refused = "connect: connection refused";
  expect(await ask({ kind: "tcpSocket", host: "127.0.0.1", port: closedPort })).toEqual({
    result: "failure",
    message: `dial tcp 127.0.0.1:${closedPort}: ${refused}`,
  });
  expect(await ask({ kind: "httpGet", url: `http://127.0.0.1:${closedPort}/a`, headers: [] })).toEqual({
    result: "failure",
    message: `Get "http://127.0.0.1:${closedPort}/a": dial tcp 127.0.0.1:${closedPort}: ${refused}`,
  });
});

test("TCP: a probe succeeds once the server accepts, without sending anything", async () => {
  expect(await ask({ kind: "tcpSocket", host: "127.0.0.1", port: silentPort })).toEqual({
    result: "success",
    message: "",
  });
});

test("gRPC: SERVING is a success; NOT_SERVING and a closed port are failures", async () => {
  const check = (service: string, at: number, timeoutMs: number) =>
    ask({ kind: "grpc", host: "127.0.0.1", port: at, service }, timeoutMs);
  expect(await check("", grpcPort, 5_000)).toEqual({ result: "success", message: "" });
  expect(await check("shop", grpcPort, 5_000)).toEqual({
    result: "failure",
    message: 'service unhealthy (responded with "NOT_SERVING")',
  });
  expect(await check("", closedPort, 500)).toEqual({
    result: "failure",
    message: `timeout: failed to connect service "127.0.0.1:${closedPort}" within 500ms: context deadline exceeded`,
  });
});

test("gRPC: a probe leaves no abort listener behind, and an aborted signal ends it with an error", async () => {
  const abort = new AbortController();
  const check = () =>
    createProbeExecutor(noRuntime, "me")({ kind: "grpc", host: "127.0.0.1", port: grpcPort, service: "" }, id, {
      timeoutMs: 2_000,
      signal: abort.signal,
    });
  expect((await check()).result).toBe("success");
  expect(getEventListeners(abort.signal, "abort")).toEqual([]);
  abort.abort();
  expect((await check()).result).toBe("error");
});

const bytes = (text: string) => new TextEncoder().encode(text);
const commands: readonly [
  sentence: string,
  run: () => Promise<{ stdout: Uint8Array; stderr: Uint8Array; exitCode: number }>,
  outcome: ProbeOutcome,
][] = [
  [
    "exit code 0 is a success",
    async () => ({ stdout: bytes("fine"), stderr: bytes(""), exitCode: 0 }),
    { result: "success", message: "fine" },
  ],
  [
    "another exit code is a failure with the command's output",
    async () => ({ stdout: bytes("out "), stderr: bytes("err"), exitCode: 2 }),
    { result: "failure", message: "out err", exitCode: 2, stderr: "err" },
  ],
  [
    "10 KiB of the command's output are kept",
    async () => ({ stdout: bytes("o".repeat(10_000)), stderr: bytes("e".repeat(1_000_000)), exitCode: 0 }),
    { result: "success", message: "o".repeat(10_000) + "e".repeat(240) },
  ],
  [
    "a command that exceeds the timeout fails",
    () => Promise.reject(new CriError("DEADLINE_EXCEEDED", "ExecSync", "timeout")),
    { result: "failure", message: 'command timed out: "sh -c x" timed out after 1m30s' },
  ],
  [
    "an unreachable runtime is an error",
    () => Promise.reject(new CriError("UNAVAILABLE", "ExecSync", "away")),
    { result: "error", message: "rpc error: code = Unavailable desc = away" },
  ],
];
for (const [sentence, execSync, outcome] of commands)
  test(`exec: ${sentence}`, async () => {
    const asked = createProbeExecutor({ execSync }, "me")(
      { kind: "exec", argv: ["sh", "-c", "secret"], specCommand: ["sh", "-c", "x"] },
      id,
      {
        timeoutMs: 90_000,
        signal: never,
      },
    );
    expect(await asked).toEqual(outcome);
  });

test("an aborted probe ends with an error", async () => {
  const abort = new AbortController();
  const asked = createProbeExecutor(noRuntime, "me")(
    { kind: "httpGet", url: `http://127.0.0.1:${port}/never`, headers: [] },
    id,
    {
      timeoutMs: 5_000,
      signal: abort.signal,
    },
  );
  abort.abort();
  expect((await asked).result).toBe("error");
});
