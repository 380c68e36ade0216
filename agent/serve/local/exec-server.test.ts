import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { UpgradeRequest } from "../api/route.ts";
import type { FindPod } from "../streaming/running-pod.ts";
import { type ExecServer, serveExec } from "./exec-server.ts";

let folder: string;
let path: string;
let log: FakeLog;
let server: ExecServer | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "exec-server-"));
  path = join(folder, "exec.sock");
  log = new FakeLog();
});
afterEach(async () => {
  await server?.stop();
  await rm(folder, { recursive: true });
});

async function serve(exec: (request: UpgradeRequest) => Promise<void>): Promise<void> {
  const findPod: FindPod = (namespace, name) =>
    name === "web" ? { metadata: { namespace, name }, spec: { containers: [{ name: "app" }] } } : undefined;
  const whyUnknown = (namespace: string, name: string) => `no pod ${name} in namespace ${namespace}`;
  server = await serveExec({ path, findPod, whyUnknown, exec, log });
}

const upgradeOf = (target: string) =>
  `POST ${target} HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n`;

function open(bytes: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.write(bytes);
      resolve(socket);
    });
    socket.once("error", reject);
  });
}

async function answerOf(bytes: string): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of await open(bytes)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

test.each([
  ["//", "HTTP/1.1 400 Refused", 'the target "//" is not a path'],
  ["/exec/shop/wbe?container=", "HTTP/1.1 404 Refused", "no pod wbe in namespace shop"],
  ["/exec/shop/wbe?container=app", "HTTP/1.1 404 Refused", "no pod wbe in namespace shop"],
])("the target %s is refused", async (target, line, text) => {
  await serve(async () => {});
  const answer = await answerOf(upgradeOf(target));
  expect(answer).toStartWith(line);
  expect(answer).toContain(text);
  expect(log.takeLines()).toEqual([]);
});

test("an error that is not the client's is logged and answered with 500, and the next session starts", async () => {
  let calls = 0;
  await serve(async ({ socket }) => {
    if (++calls === 1) throw new Error("no such socket of the runtime");
    socket.end("a session");
  });
  const failed = await answerOf(upgradeOf("/exec/shop/web?container=app"));
  expect(failed).toStartWith("HTTP/1.1 500 Refused\r\n");
  expect(failed).toEndWith("no such socket of the runtime");
  expect(log.takeLines()).toEqual(["error: a session of berth exec has failed"]);
  expect(await answerOf(upgradeOf("/exec/shop/web?container=app"))).toBe("a session");
});

test("the server stops while a client keeps a connection without a request", async () => {
  await serve(async () => {});
  const socket = await open("");
  const answered = new Promise((resolve) => socket.once("data", resolve));
  socket.write("GET / HTTP/1.1\r\nHost: node\r\n\r\n");
  await answered;
  const closed = new Promise((resolve) => socket.once("close", resolve));
  await server?.stop();
  server = undefined;
  await closed;
});
