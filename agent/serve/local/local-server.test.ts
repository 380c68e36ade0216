import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { ApiError } from "../api/api-error.ts";
import { type LocalServer, serveLocal } from "./local-server.ts";
import type { PodListing } from "./pod-list.ts";

let folder: string;
let path: string;
let server: LocalServer | undefined;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-local-"));
  path = join(folder, "berth.sock");
});
afterEach(async () => {
  await server?.stop();
  server = undefined;
  await rm(folder, { recursive: true });
});

const commandLine = {
  pid: 7,
  startedAt: "2026-01-01T12:00:00Z",
  argv: ["--config", "kubelet.yaml"],
  workingDirectory: "/srv",
};

function serve(ballast?: string) {
  const clock = new FakeClock();
  const listeners = new Set<() => void>();
  let requests = 0;
  let changes = 0;
  server = serveLocal({
    path,
    clock,
    // The number of requests stands for the content.
    pods: () =>
      ({ pods: [], asked: ++requests, ...(ballast === undefined ? {} : { ballast, change: changes }) }) as PodListing,
    status: () => ({ node: { name: "a", version: "v1" }, runtime: { state: "ready" }, pods: {}, refused: ++requests }),
    explain: () => {
      throw new ApiError(404, "no pod");
    },
    commandLine,
    volumes: async () => ({ pods: [{ namespace: "shop", name: "web", uid: "u-1", volumes: [] }] }),
    logs: async ({ namespace, pod, query }) => new Response(`${namespace} ${pod} ${query}`),
    subscribe: (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
  });
  const change = () => {
    changes++;
    for (const changed of listeners) changed();
  };
  return { clock, listeners, change, said: () => requests };
}

const get = (target: string, options: RequestInit = {}) => fetch(`http://berth${target}`, { unix: path, ...options });

/** The lines of a response, one at a time. */
async function* linesOf(answer: Response) {
  const decoder = new TextDecoder();
  for await (const chunk of answer.body ?? []) yield* decoder.decode(chunk).trimEnd().split("\n");
}

/** The lines of a response, read from the socket only on demand, because fetch reads ahead. */
async function* slowLinesOf(target: string) {
  const socket = connect(path);
  socket.pause();
  socket.write(`GET ${target} HTTP/1.1\r\nHost: berth\r\n\r\n`);
  yield "";
  yield* createInterface({ input: socket });
}

test("GET /command-line returns how the agent was started", async () => {
  serve();
  expect(await (await get("/command-line")).json()).toEqual(commandLine);
});

test("GET /pods returns the pods on a socket for root only, and other requests return 404", async () => {
  await writeFile(path, "the socket of an agent that was killed");
  serve();
  expect(await (await get("/pods")).json()).toEqual({ pods: [], asked: 1 });
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  for (const [target, method] of [
    ["/", "GET"],
    ["/pods/web", "GET"],
    ["/pods", "POST"],
    ["/status", "POST"],
    ["/command-line", "POST"],
    ["/status/a", "GET"],
  ] as const)
    expect((await get(target, { method })).status).toBe(404);
});

test("GET /status returns the current status as JSON", async () => {
  serve();
  for (const refused of [1, 2])
    expect(await (await get("/status")).json()).toEqual({
      node: { name: "a", version: "v1" },
      runtime: { state: "ready" },
      pods: {},
      refused,
    });
});

test("GET /volumes returns the volumes of all pods as JSON", async () => {
  serve();
  const volumes = await (await get("/volumes")).json();
  expect(volumes).toEqual({ pods: [{ namespace: "shop", name: "web", uid: "u-1", volumes: [] }] });
});

test("GET /logs/NAMESPACE/POD returns the log of a container", async () => {
  serve();
  expect(await (await get("/logs/shop/web%20x?container=c&follow=true")).text()).toBe(
    "shop web x container=c&follow=true",
  );
  for (const target of ["/logs/shop", "/logs/shop/", "/logs/shop/web/c"]) expect((await get(target)).status).toBe(404);
});

test("a watch gets the pods at once, and once more after a burst of changes", async () => {
  const { clock, listeners, change } = serve();
  const lines = linesOf(await get("/pods?watch"));
  expect((await lines.next()).value).toBe('{"pods":[],"asked":1}');
  for (let time = 0; time < 5; time++) {
    change();
    await clock.advance(9);
  }
  await clock.advance(5);
  change();
  await clock.advance(50);
  expect((await lines.next()).value).toBe('{"pods":[],"asked":2}');
  expect((await lines.next()).value).toBe('{"pods":[],"asked":3}');
  expect(listeners.size).toBe(1);
});

test("a slow reader gets no backlog, but the latest pods when it reads again", async () => {
  const { clock, change, said } = serve("x".repeat(200_000));
  const lines = slowLinesOf("/pods?watch");
  await lines.next();
  for (let time = 0; time < 200; time++) {
    change();
    await clock.advance(50);
  }
  // As many as the socket's buffers hold, not one per change.
  expect(said()).toBeLessThan(50);
  const last = `"change":200}`;
  for (let line = await lines.next(); !line.value?.endsWith(last); line = await lines.next())
    expect(line.done).toBe(false);
});

test("a closed watch is unsubscribed", async () => {
  const { listeners } = serve();
  const leaving = new AbortController();
  const answer = await get("/pods?watch", { signal: leaving.signal });
  await linesOf(answer).next();
  const left = new Promise<void>((resolve) => {
    const drop = listeners.delete.bind(listeners);
    listeners.delete = (listener) => {
      resolve();
      return drop(listener);
    };
  });
  leaving.abort();
  await left;
  expect(listeners.size).toBe(0);
});

test("a socket that cannot be removed is reported for what it is, not as an address in use", async () => {
  await mkdir(path);
  const umask = process.umask();
  expect(() => serve()).toThrow(expect.objectContaining({ name: "FilesError", code: "EISDIR", path }));
  expect(process.umask()).toBe(umask);
});

test("creating the socket restores the umask", () => {
  const umask = process.umask();
  serve();
  expect(process.umask()).toBe(umask);
});

test("a watch is application/x-ndjson, the list application/json", async () => {
  serve();
  const leaving = new AbortController();
  const types = [await get("/pods"), await get("/pods?watch", { signal: leaving.signal })].map(({ headers }) =>
    headers.get("content-type")?.split(";").at(0),
  );
  leaving.abort();
  expect(types).toEqual(["application/json", "application/x-ndjson"]);
});

test("a pod that does not exist is answered with what is wrong", async () => {
  serve();
  const response = await get("/explain?namespace=default&name=web");
  expect([response.status, await response.text()]).toEqual([404, "no pod"]);
});
