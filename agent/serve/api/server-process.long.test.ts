// The server of the node's API in a process of its own: what hostile clients leave in it, and what it does without any.
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from "bun:test";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import type { ClientHttp2Session } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { connect, type TLSSocket } from "node:tls";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { memoryOf, numberOf } from "../../../test/bench/process-usage.ts";
import { createApiClient } from "../../../test/fakes/api-client.ts";
import { oddFrames, oddRequests } from "../../../test/fakes/odd-requests.ts";

setDefaultTimeout(240_000);

interface ServerProcess {
  readonly pid: number;
  readonly port: number;
  /** Collects the garbage of the process, and returns its memory without files in bytes. */
  readonly anonymousBytes: () => Promise<number>;
  readonly openFiles: () => Promise<number>;
  /** How often its thread with the event loop has waited: as often it has woken up. */
  readonly wakeUps: () => Promise<number>;
}

let folder: string;
let child: ChildProcess;
let server: ServerProcess;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-api-logs-"));
  const program = join(import.meta.dirname, "../../../test/fakes/api-server-process.ts");
  const started = spawn(process.execPath, [program, folder], { stdio: ["pipe", "pipe", "inherit"] });
  child = started;
  const lines = createInterface({ input: started.stdout })[Symbol.asyncIterator]();
  const port = Number((await lines.next()).value);
  const pid = started.pid ?? 0;
  server = {
    ...{ pid, port },
    async anonymousBytes() {
      started.stdin.write("collect\n");
      await lines.next();
      return (await memoryOf(pid)).anonymousBytes;
    },
    openFiles: async () => (await readdir(`/proc/${pid}/fd`)).length,
    wakeUps: async () => numberOf(await readFile(`/proc/${pid}/task/${pid}/status`, "utf8"), "voluntary_ctxt_switches"),
  };
});
afterEach(async () => {
  const ended = once(child, "exit");
  child.stdin?.end();
  await ended;
  await rm(folder, { recursive: true });
});

/** Opens a TLS connection, writes, waits for an answer or the end, at most `timeoutMs`, and vanishes. */
function ask(bytes: Uint8Array | string, protocol: "http/1.1" | "h2", timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const options = { host: "127.0.0.1", port: server.port, rejectUnauthorized: false, ALPNProtocols: [protocol] };
    const socket: TLSSocket = connect(options, () => socket.write(bytes));
    const finish = (isAnswered: boolean) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(isAnswered);
    };
    const timer = setTimeout(() => finish(false), timeoutMs);
    // The first bytes of a server of HTTP/2 are its settings: that it has read the rest shows only in its end.
    if (protocol === "http/1.1") socket.once("data", () => finish(true));
    else socket.resume();
    socket.on("error", () => {
      // The server may be the first to end the connection.
    });
    socket.once("close", () => finish(true));
  });
}

const oddPaths = ["/pods", "/pods%", "/../..", "*", "/exec/a/b/c", "/exec/%00/%ff", "pods", `/${"%2f".repeat(1_000)}`];
const oddMethods = ["GET", "POST", "PUT", "DELETE", "BREW"];
const oddHeaders: readonly Readonly<Record<string, string>>[] = [
  {},
  { upgrade: "websocket" },
  { "content-length": "-1" },
  { authorization: "Bearer bad" },
  { cookie: "a".repeat(10_000) },
  { "x-large": "a".repeat(300_000) },
];

/** Sends a request over HTTP/2, and every third time resets its stream at once. Resolves when the stream has closed. */
function askStream(session: ClientHttp2Session, index: number): Promise<void> {
  const path = oddPaths[index % oddPaths.length] ?? "";
  const method = oddMethods[index % oddMethods.length] ?? "";
  return new Promise((resolve) => {
    try {
      const headers = { ":method": method, ":path": path, ...oddHeaders[index % oddHeaders.length] };
      const stream = session.request(headers, { endStream: true });
      stream.on("error", () => {
        // The server may refuse it.
      });
      stream.once("close", resolve);
      stream.resume();
      if (index % 3 === 0) stream.close(8);
    } catch {
      // The client's library sends no such request, or the server has ended the session.
      resolve();
    }
  });
}

const BATCH = 40;
const frames = Object.values(oddFrames);
/** What HTTP/2 allows, such as pings, is answered for as long as the client stays. */
const FRAMES_MS = 100;

/**
 * Sends `count` hostile requests: three fifths over HTTP/1.1, of which a third is cut, and two fifths over HTTP/2, as frames and
 * as streams. Returns those of HTTP/1.1 that were sent whole and got no answer.
 */
async function sendHostile(count: number): Promise<readonly string[]> {
  const silent: string[] = [];
  const client = createApiClient({ port: server.port, ca: undefined });
  for (let first = 0; first < count; first += BATCH) {
    const session = client.openSession();
    const sendOne = async (index: number): Promise<void> => {
      const text = oddRequests[index % oddRequests.length] ?? "";
      if (index % 5 <= 1 && !(await ask(text, "http/1.1", 10_000))) silent.push(text);
      if (index % 5 === 2) await ask(text.slice(0, index % text.length), "http/1.1", 1);
      if (index % 5 === 3) await ask(frames[index % frames.length] ?? "", "h2", FRAMES_MS);
      if (index % 5 === 4) await askStream(session, index);
    };
    await Promise.all(Array.from({ length: BATCH }, (_, index) => sendOne(first + index)));
    session.destroy();
  }
  return silent;
}

const WARM_UP = 2_000;
const REQUESTS = 10_000;
/** 500 bytes a request. The allocators of the engine keep more by chance, but not after each round. */
const MEMORY_LIMIT_BYTES = 5e6;
const MORE_ROUNDS = 4;
const MORE_REQUESTS = 1_000;
/** The engine gives memory back to the kernel for so long after a collection. */
const RETURN_MS = 1_500;

/** The memory of the server without files, once another collection makes it no smaller. */
async function bytesAtRest(): Promise<number> {
  let least = await server.anonymousBytes();
  return await pollUntil("the server to return memory", 30_000, async () => {
    await Bun.sleep(RETURN_MS);
    const [before, now] = [least, await server.anonymousBytes()];
    least = Math.min(before, now);
    return now > 0.99 * before && least;
  });
}

test("10,000 hostile requests over HTTP/1.1 and HTTP/2 leave no descriptor and no memory, and others are served", async () => {
  const files = await server.openFiles();
  expect(await sendHostile(WARM_UP)).toEqual([]);
  const before = await bytesAtRest();
  expect(await sendHostile(REQUESTS)).toEqual([]);
  await pollUntil("the end of all connections", 10_000, async () => (await server.openFiles()) <= files);
  const after = [await bytesAtRest()];
  while (Math.min(...after) - before > MEMORY_LIMIT_BYTES && after.length <= MORE_ROUNDS) {
    await sendHostile(MORE_REQUESTS);
    after.push(await bytesAtRest());
  }
  const texts = [before, ...after].map((bytes) => (bytes / 1e6).toFixed(1));
  console.log(`anonymous memory in MB after ${WARM_UP} requests, and ${REQUESTS} later: ${texts.join(" ")}`);
  expect(Math.min(...after) - before).toBeLessThan(MEMORY_LIMIT_BYTES);
  expect((await createApiClient({ port: server.port, ca: undefined }).get("/pods")).text).toBe("pods");
});

/** Opens a connection that follows the log. Resolves once its first line has arrived. */
async function followLog(): Promise<{ received(text: string): Promise<void>; vanish(): void }> {
  const options = { host: "127.0.0.1", port: server.port, rejectUnauthorized: false };
  const socket = connect(options, () =>
    socket.write("GET /containerLogs/shop/web/c?follow=true HTTP/1.1\r\nHost: node\r\n\r\n"),
  );
  let answer = "";
  let changed = () => {};
  socket.setEncoding("utf8").on("data", (text: string) => {
    answer += text;
    changed();
  });
  const received = (text: string) =>
    new Promise<void>((resolve, reject) => {
      changed = () => answer.includes(text) && resolve();
      socket.once("close", () => reject(new Error(`a follower was cut off after ${answer}`)));
      changed();
    });
  await received("the first line\n");
  return { received, vanish: () => void socket.destroy() };
}

const FOLLOWERS = 1_000;
const logLine = (text: string) => `2026-01-02T03:04:05.123456789Z stdout F ${text}\n`;

/** A thousand clients follow the log, get what is written to it, and vanish. */
async function followAndVanish(text: string): Promise<void> {
  const followers: Awaited<ReturnType<typeof followLog>>[] = [];
  while (followers.length < FOLLOWERS)
    followers.push(...(await Promise.all(Array.from({ length: BATCH }, () => followLog()))));
  await appendFile(join(folder, "1.log"), logLine(text));
  await Promise.all(followers.map(({ received }) => received(`${text}\n`)));
  for (const { vanish } of followers) vanish();
}

test("a thousand followers of a log leave no descriptor and no memory", async () => {
  await writeFile(join(folder, "1.log"), logLine("the first line"));
  // The first watch of a file opens the process's inotify instance, which stays.
  const files = (await server.openFiles()) + 1;
  await followAndVanish("of the warm-up");
  const before = await bytesAtRest();
  const after: number[] = [];
  do {
    await followAndVanish(`of round ${after.length}`);
    await pollUntil("the end of all connections", 10_000, async () => (await server.openFiles()) <= files);
    after.push(await bytesAtRest());
  } while (Math.min(...after) - before > MEMORY_LIMIT_BYTES && after.length <= MORE_ROUNDS);
  const texts = [before, ...after].map((bytes) => (bytes / 1e6).toFixed(1));
  console.log(`anonymous memory in MB after ${FOLLOWERS} followers, and as many later: ${texts.join(" ")}`);
  expect(Math.min(...after) - before).toBeLessThan(MEMORY_LIMIT_BYTES);
});

const WINDOW_MS = 3_000;
/** The engine itself wakes once a second: this test finds what wakes more often. `idle-server.test.ts` counts the server's timers. */
const ENGINE_WAKE_UPS = 4;

test("a server without requests does not wake up, also with open connections", async () => {
  const client = createApiClient({ port: server.port, ca: undefined });
  const session = client.openSession();
  for (let times = 0; times < 20; times++) {
    await client.requestHttp2("GET", "/pods", session);
    await client.get("/pods");
  }
  const counts: number[] = [];
  // The engine works off what the requests have left, such as garbage, for some seconds.
  await pollUntil("a window without work", 60_000, async () => {
    const before = await server.wakeUps();
    await Bun.sleep(WINDOW_MS);
    counts.push((await server.wakeUps()) - before);
    return (counts.at(-1) ?? 0) <= ENGINE_WAKE_UPS;
  }).catch((cause: unknown) => {
    throw new Error(`wake-ups in windows of ${WINDOW_MS} ms: ${counts.join(" ")}`, { cause });
  });
  session.close();
});
