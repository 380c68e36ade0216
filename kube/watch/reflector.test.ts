import { describe, expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeConnection } from "../../test/fakes/connection.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { KubeError } from "../error.ts";
import { pods } from "../resource.ts";
import type { KubeRequest, LinesRequest } from "../transport/connection.ts";
import { createRecovery } from "./recovery.ts";
import { follow } from "./reflector.ts";

const unreachable = () => new KubeError("UNREACHABLE", "connection refused");
const invalid = (status: number) => new KubeError("INVALID", "sendInitialEvents is forbidden", { status });
const gone = () => new KubeError("GONE", "too old resource version", { status: 410 });
const pod = (name: string, resourceVersion: string | number) => ({
  metadata: { name, namespace: "shop", resourceVersion: String(resourceVersion) },
});
const event = (type: string, name: string, resourceVersion: number) => ({ type, object: pod(name, resourceVersion) });
const bookmark = (resourceVersion: number) => ({
  type: "BOOKMARK",
  object: { metadata: { resourceVersion: String(resourceVersion) } },
});
const endOfInitialEvents = (resourceVersion: number) => ({
  type: "BOOKMARK",
  object: {
    metadata: { resourceVersion: String(resourceVersion), annotations: { "k8s.io/initial-events-end": "true" } },
  },
});
const errorEvent = (code: number, reason: string) => ({
  type: "ERROR",
  object: { kind: "Status", status: "Failure", code, reason, message: reason },
});
const names = (objects: readonly Pod[]) => objects.map(({ metadata }) => metadata.name).join(" ");

interface Scene {
  readonly connection: FakeConnection;
  readonly clock: FakeClock;
  readonly log: FakeLog;
  /** What the listener was told since it was last asked. */
  readonly told: () => readonly string[];
  /** Where the watches began, in order: `initial` or a resourceVersion. */
  readonly began: () => readonly string[];
  readonly stop: () => Promise<void>;
}

async function aFollow({ random = 0, pages = [[]] as readonly (readonly unknown[])[] } = {}): Promise<Scene> {
  const [connection, clock, log] = [new FakeConnection(), new FakeClock(), new FakeLog()];
  connection.answer = listing(pages);
  const told: string[] = [];
  const controller = new AbortController();
  const listener = {
    replaced(objects: readonly Pod[], version: string, hasGoneBack: boolean) {
      told.push(`replaced at ${version}${hasGoneBack ? " (gone back)" : ""}: ${names(objects)}`);
    },
    changed: (kind: string, object: Pod) => void told.push(`${kind} ${object.metadata.name}`),
    away: (error: KubeError) => void told.push(`away: ${error.code}`),
    back: () => void told.push("back"),
  };
  const selector = { fieldSelector: "spec.nodeName=a" };
  const recovery = createRecovery(clock, () => random);
  const tools = { connection: recovery.listen(connection), clock, log, random: () => random, recovery };
  const end = follow(tools, pods(), selector, listener, controller.signal);
  await rest();
  return {
    connection,
    clock,
    log,
    told: () => told.splice(0),
    began: () => connection.streams.map(({ request }) => request.query?.["resourceVersion"] ?? "initial"),
    async stop() {
      controller.abort();
      await end;
    },
  };
}

/** Answers lists with one page after the other, of state 100. */
function listing(pages: readonly (readonly unknown[])[]) {
  return ({ query }: KubeRequest): unknown => {
    const page = Number(query?.["continue"] ?? 0);
    const token = page + 1 < pages.length ? String(page + 1) : undefined;
    return { metadata: { resourceVersion: "100", continue: token }, items: pages[page] };
  };
}

/** A follow that has been told everything, of state 10, by initial events. */
async function aCompleteFollow(options: Parameters<typeof aFollow>[0] = {}): Promise<Scene> {
  const scene = await aFollow(options);
  await scene.connection.last.open();
  await scene.connection.last.send(event("ADDED", "web", 3), endOfInitialEvents(10));
  scene.told();
  return scene;
}

/** A follow of a server without initial events that has been told everything by a list. */
async function aListingFollow(options: Parameters<typeof aFollow>[0] = {}): Promise<Scene> {
  const scene = await aFollow(options);
  await scene.connection.last.end(invalid(422));
  await rest();
  return scene;
}

const queryOf = ({ query = {} }: LinesRequest | KubeRequest) =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));

describe("what there is", () => {
  test("comes as initial events of a watch, and is told when it is complete", async () => {
    const { connection, told, stop } = await aFollow();
    expect(connection.last.request).toMatchObject({ method: "GET", path: "/api/v1/pods" });
    expect(queryOf(connection.last.request)).toEqual({
      watch: "true",
      fieldSelector: "spec.nodeName=a",
      allowWatchBookmarks: "true",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
      timeoutSeconds: "300",
    });
    await connection.last.open();
    await connection.last.send(event("ADDED", "web", 3), event("ADDED", "db", 7), bookmark(8));
    expect(told()).toEqual([]);
    await connection.last.send(endOfInitialEvents(10), event("ADDED", "job", 11), event("MODIFIED", "web", 12));
    expect(told()).toEqual(["replaced at 10: web db", "added job", "modified web"]);
    await connection.last.send(event("DELETED", "job", 13));
    expect(told()).toEqual(["deleted job"]);
    await stop();
  });

  test("is told as it is at the end of the initial events", async () => {
    const { connection, told, stop } = await aFollow();
    await connection.last.open();
    await connection.last.send(event("ADDED", "web", 3), event("ADDED", "db", 7), event("MODIFIED", "db", 8));
    await connection.last.send(event("DELETED", "web", 9), endOfInitialEvents(10));
    expect(told()).toEqual(["replaced at 10: db"]);
    await stop();
  });

  test("is told in no part when the initial events are cut", async () => {
    const { connection, clock, told, began, stop } = await aFollow();
    await connection.last.open();
    await connection.last.send(event("ADDED", "web", 3));
    await connection.last.end(unreachable());
    await clock.advance(800);
    expect(told()).toEqual(["away: UNREACHABLE"]);
    expect(began()).toEqual(["initial", "initial"]);
    await connection.last.open();
    await connection.last.send(event("ADDED", "db", 7), endOfInitialEvents(10));
    expect(told()).toEqual(["back", "replaced at 10: db"]);
    await stop();
  });

  test("is told in no part when the initial events end in order before they are complete", async () => {
    const { connection, clock, told, began, stop } = await aFollow();
    await connection.last.open();
    await connection.last.send(event("ADDED", "web", 3));
    await clock.advance(5_000);
    await connection.last.end();
    expect(told()).toEqual(["away: CLOSED"]);
    expect(began()).toEqual(["initial"]);
    await stop();
  });

  for (const status of [400, 422])
    test(`is listed in pages where a server refuses initial events with ${status}`, async () => {
      const { connection, told, began, log, stop } = await aFollow({ pages: [[pod("web", 3)], [pod("db", 7)]] });
      await connection.last.end(invalid(status));
      await rest();
      expect(connection.requests.map(queryOf)).toEqual([
        { fieldSelector: "spec.nodeName=a", limit: "500" },
        { fieldSelector: "spec.nodeName=a", limit: "500", continue: "1" },
      ]);
      expect(told()).toEqual(["replaced at 100: web db"]);
      expect(began()).toEqual(["initial", "100"]);
      expect(queryOf(connection.last.request)).toEqual({
        watch: "true",
        fieldSelector: "spec.nodeName=a",
        allowWatchBookmarks: "true",
        resourceVersion: "100",
        timeoutSeconds: "300",
      });
      expect(log.told()).toEqual(["info: the API server has no initial events: reading lists"]);
      await stop();
    });

  test("is listed where the initial events never end", async () => {
    const { connection, clock, told, began, stop } = await aFollow({ pages: [[pod("web", 3)]] });
    await connection.last.open();
    for (let second = 0; second < 120; second += 40) {
      await connection.last.send(event("ADDED", "web", 3));
      await clock.advance(40_000);
    }
    await rest();
    expect(told()).toEqual(["replaced at 100: web"]);
    expect(began()).toEqual(["initial", "100"]);
    await stop();
  });

  test("is listed again and again until a list succeeds; one outage is told", async () => {
    const scene = await aFollow();
    scene.connection.answer = () => {
      throw new KubeError("SERVER", "etcd is away", { status: 500 });
    };
    await scene.connection.last.end(invalid(422));
    await scene.clock.advance(5_000);
    expect(scene.connection.requests.length).toBe(3);
    expect(scene.told()).toEqual(["away: SERVER"]);
    scene.connection.answer = listing([[pod("web", 3)]]);
    await scene.clock.advance(30_000);
    expect(scene.told()).toEqual(["back", "replaced at 100: web"]);
    await scene.stop();
  });
});

describe("a watch", () => {
  for (const [random, seconds] of [
    [0, "300"],
    [0.5, "450"],
    [0.9999, "600"],
  ] as const)
    test(`is asked to last ${seconds} s by chance ${random}`, async () => {
      const { connection, stop } = await aFollow({ random });
      expect(queryOf(connection.last.request)["timeoutSeconds"]).toBe(seconds);
      await stop();
    });

  test("that ends in order is gone on with at once, and nobody is told", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await clock.advance(2_000);
    await connection.last.end();
    expect(began()).toEqual(["initial", "10"]);
    await connection.last.open();
    await connection.last.send(event("MODIFIED", "web", 11));
    expect(told()).toEqual(["modified web"]);
    await stop();
  });

  test("that is ended at once is not asked for again at once", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await connection.last.end();
    expect(began()).toEqual(["initial"]);
    await clock.advance(800);
    expect(began()).toEqual(["initial", "10"]);
    await connection.last.open();
    expect(told()).toEqual(["away: CLOSED", "back"]);
    await stop();
  });

  test("that is cut goes on from the last change", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await connection.last.send(event("MODIFIED", "web", 14));
    await connection.last.end(unreachable());
    await clock.advance(800);
    expect(began()).toEqual(["initial", "14"]);
    expect(told()).toEqual(["modified web", "away: UNREACHABLE"]);
    await connection.last.open();
    await connection.last.send(event("DELETED", "web", 15));
    expect(told()).toEqual(["back", "deleted web"]);
    await stop();
  });

  test("that is cut goes on from the last bookmark", async () => {
    const { connection, clock, began, stop } = await aCompleteFollow();
    await connection.last.send(event("MODIFIED", "web", 14), bookmark(90));
    await connection.last.end(unreachable());
    await clock.advance(800);
    expect(began()).toEqual(["initial", "90"]);
    await stop();
  });

  test("that is silent is gone on with by another one, and nobody is told", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await clock.advance(74_000);
    await connection.last.send(bookmark(20));
    await clock.advance(74_000);
    expect(began()).toEqual(["initial"]);
    await clock.advance(1_000);
    expect(began()).toEqual(["initial", "20"]);
    expect(connection.open).toBe(1);
    expect(told()).toEqual([]);
    await stop();
  });

  test("that is silent once more at the same place is no place to go on from", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await clock.advance(75_000);
    await connection.last.open();
    await clock.advance(75_000);
    expect(began()).toEqual(["initial", "10", "initial"]);
    expect(told()).toEqual([]);
    await stop();
  });

  for (const [version, line] of [
    [9, "replaced at 9 (gone back): web"],
    [10, "replaced at 10: web"],
    [100, "replaced at 100: web"],
  ] as const)
    test(`that is told anew at version ${version} after 10 says whether the server has gone back`, async () => {
      const { connection, clock, told, stop } = await aCompleteFollow();
      await clock.advance(75_000);
      await connection.last.open();
      await clock.advance(75_000);
      await connection.last.open();
      await connection.last.send(event("ADDED", "web", 3), endOfInitialEvents(version));
      expect(told()).toEqual([line]);
      await stop();
    });

  test("tells of an unknown type of event once and goes on", async () => {
    const { connection, log, told, stop } = await aCompleteFollow();
    await connection.last.send(event("RENAMED", "web", 14), event("RENAMED", "web", 15), event("MODIFIED", "web", 16));
    await connection.last.send(event("toString", "web", 17));
    expect(told()).toEqual(["modified web"]);
    expect(log.lines.map(({ fields }) => fields)).toEqual([
      { resource: "pods", type: "RENAMED" },
      { resource: "pods", type: "toString" },
    ]);
    await stop();
  });

  test("hands on values and fields of a newer API as they are", async () => {
    const { connection, clock, log, stop } = await aFollow();
    const seen: unknown[] = [];
    await stop();
    const listener = {
      replaced() {},
      changed: (_: string, object: Pod) => void seen.push(object),
      away() {},
      back() {},
    };
    const controller = new AbortController();
    const recovery = createRecovery(clock, () => 0);
    void follow({ connection, clock, log, random: () => 0, recovery }, pods(), {}, listener, controller.signal);
    const newer = { ...pod("web", 11), spec: { restartPolicy: "Sometimes", containers: [], flux: { of: 1.21 } } };
    await connection.last.send(endOfInitialEvents(10), { type: "ADDED", object: newer });
    expect(seen).toEqual([newer]);
    controller.abort();
  });
});

describe("a place that is too old", () => {
  test("by the status of the answer is given up: everything is told anew, at once, and nobody is away", async () => {
    const { connection, clock, told, began, stop } = await aCompleteFollow();
    await clock.advance(2_000);
    await connection.last.end();
    await connection.last.end(gone());
    expect(began()).toEqual(["initial", "10", "initial"]);
    await connection.last.open();
    await connection.last.send(event("ADDED", "db", 70), endOfInitialEvents(80));
    expect(told()).toEqual(["replaced at 80: db"]);
    await stop();
  });

  test("by an ERROR event is given up; what follows in that stream is not heard", async () => {
    const { connection, told, began, stop } = await aCompleteFollow();
    const stream = connection.last;
    await stream.send(errorEvent(410, "Expired"), event("ADDED", "late", 11));
    expect(began()).toEqual(["initial", "initial"]);
    expect(connection.open).toBe(1);
    expect(told()).toEqual([]);
    await stop();
  });

  test("after an outage: the outage is over when everything was told anew", async () => {
    const { connection, clock, told, stop } = await aCompleteFollow();
    await connection.last.end(unreachable());
    await clock.advance(800);
    await connection.last.end(gone());
    await connection.last.open();
    expect(told()).toEqual(["away: UNREACHABLE"]);
    await connection.last.send(endOfInitialEvents(80));
    expect(told()).toEqual(["back", "replaced at 80: "]);
    await stop();
  });

  test("of a server without initial events is listed again; one that forgets at once is not listed at once", async () => {
    const { connection, clock, told, stop } = await aListingFollow({ pages: [[pod("web", 3)]] });
    expect(connection.requests.length).toBe(1);
    await connection.last.send(errorEvent(410, "Gone"));
    await rest();
    expect(connection.requests.length).toBe(2);
    await connection.last.send(errorEvent(410, "Gone"));
    await rest();
    expect(connection.requests.length).toBe(2);
    await clock.advance(800);
    expect(connection.requests.length).toBe(3);
    expect(told()).toEqual(Array(3).fill("replaced at 100: web"));
    expect(connection.streams.filter(({ request }) => request.query?.["sendInitialEvents"]).length).toBe(1);
    await stop();
  });
});

describe("what cannot be read", () => {
  const bad: readonly (readonly [string, (stream: FakeConnection["last"]) => Promise<void>])[] = [
    ["a truncated line", (stream) => stream.end(new KubeError("NOT_JSON", "only the beginning of a line"))],
    ["a line that is no object", (stream) => stream.send(42)],
    ["null", (stream) => stream.send(null)],
    ["an event without an object", (stream) => stream.send({ type: "ADDED" })],
    [
      "an object without a name",
      (stream) => stream.send({ type: "ADDED", object: { metadata: { resourceVersion: "9" } } }),
    ],
    ["an object without a version", (stream) => stream.send({ type: "ADDED", object: { metadata: { name: "web" } } })],
    ["a bookmark without a version", (stream) => stream.send({ type: "BOOKMARK", object: { metadata: {} } })],
    ["a line longer than any", (stream) => stream.end(new KubeError("TOO_LARGE", "a line of 100 MB"))],
    ["an error of the server", (stream) => stream.send(errorEvent(500, "InternalError"))],
    ["a place that the server refuses", (stream) => stream.end(invalid(400))],
    ["an error without a code", (stream) => stream.send({ type: "ERROR", object: null })],
  ];
  for (const [what, send] of bad)
    test(`${what} ends its stream, which is gone on with`, async () => {
      const { connection, clock, told, began, stop } = await aCompleteFollow();
      await connection.last.send(event("MODIFIED", "web", 14));
      await send(connection.last);
      await clock.advance(800);
      expect(began()).toEqual(["initial", "14"]);
      expect(connection.open).toBe(1);
      await connection.last.open();
      expect(told()).toEqual([
        "modified web",
        expect.stringMatching(/^away: (NOT_JSON|TOO_LARGE|INVALID|SERVER)$/),
        "back",
      ]);
      await stop();
    });

  test("twice at the same place is gone round: everything is told anew", async () => {
    const { connection, clock, began, stop } = await aCompleteFollow();
    for (let round = 0; round < 2; round += 1) {
      await connection.last.open();
      await connection.last.send(errorEvent(500, "InternalError"));
      await clock.advance(3_200);
    }
    expect(began()).toEqual(["initial", "10", "initial"]);
    await stop();
  });

  test("twice, but further on, is no reason to be told anew", async () => {
    const { connection, clock, began, stop } = await aCompleteFollow();
    for (const version of [14, 15]) {
      await connection.last.send(event("MODIFIED", "web", version), 42);
      await clock.advance(3_200);
    }
    expect(began()).toEqual(["initial", "14", "15"]);
    await stop();
  });
});

describe("an outage", () => {
  const busy = () => new KubeError("SERVER", "etcd is away", { status: 500 });

  /** How long each of the attempts of an outage without an end is waited for, in seconds. */
  async function attempts(random: number, failure: () => KubeError): Promise<readonly number[]> {
    const { connection, clock, stop } = await aCompleteFollow({ random });
    const began = clock.elapsedMs;
    await connection.last.end(failure());
    const at: number[] = [];
    while (at.length < 8) {
      const before = connection.streams.length;
      while (connection.streams.length === before) await clock.advance(50);
      at.push((clock.elapsedMs - began) / 1000);
      await connection.last.end(failure());
    }
    await stop();
    return at.map((time, index) => Number((time - (at[index - 1] ?? 0)).toFixed(2)));
  }

  test("is tried after 0.8 s at the earliest, and then less and less often", async () => {
    expect(await attempts(0, busy)).toEqual([0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15]);
  });
  test("is tried after 30 s at the latest", async () => {
    expect(await attempts(1, busy)).toEqual([1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]);
  });
  test("in which nobody answers is tried after two seconds at the latest: its end is found soon", async () => {
    expect(await attempts(0, unreachable)).toEqual([0.8, 1, 1, 1, 1, 1, 1, 1]);
    expect(await attempts(1, unreachable)).toEqual([1.6, 2, 2, 2, 2, 2, 2, 2]);
  });
  test("in which we may not see it yet is tried at once, since the right to it may come a moment later, and then as any other", async () => {
    const forbidden = () => new KubeError("FORBIDDEN", "no relationship found", { status: 403 });
    expect(await attempts(0, forbidden)).toEqual([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]);
    expect(await attempts(1, forbidden)).toEqual([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]);
  });
  test("of the server itself has spared it, however long nobody answered before", async () => {
    const { connection, clock, stop } = await aCompleteFollow();
    await connection.last.end(unreachable());
    for (let second = 0; second < 60; second += 1) {
      await clock.advance(1_000);
      await connection.last.end(unreachable());
    }
    const before = connection.streams.length;
    await clock.advance(1_000);
    // Right after its start a server may not know yet what we may do.
    await connection.last.end(new KubeError("FORBIDDEN", "not allowed", { status: 403 }));
    await clock.advance(800);
    expect(connection.streams.length).toBe(before + 2);
    await stop();
  });

  test("is told once for each reason, and so is its end", async () => {
    const { connection, clock, told, stop } = await aCompleteFollow();
    await connection.last.end(unreachable());
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(15_000);
      await connection.last.end(new KubeError("UNAUTHORIZED", "who are you?", { status: 401 }));
    }
    expect(told()).toEqual(["away: UNREACHABLE", "away: UNAUTHORIZED"]);
    await clock.advance(15_000);
    await connection.last.open();
    await connection.last.send(bookmark(20), event("MODIFIED", "web", 21));
    expect(told()).toEqual(["back", "modified web"]);
    await stop();
  });

  test("before anything was told is told too", async () => {
    const { connection, clock, told, stop } = await aFollow();
    await connection.last.end(unreachable());
    expect(told()).toEqual(["away: UNREACHABLE"]);
    await clock.advance(800);
    await connection.last.open();
    await connection.last.send(endOfInitialEvents(10));
    expect(told()).toEqual(["back", "replaced at 10: "]);
    await stop();
  });

  for (const [stoodMs, waitsMs] of [
    [29_000, 1_600],
    [30_000, 800],
  ] as const)
    test(`after a connection of ${stoodMs / 1000} s is tried after ${waitsMs} ms`, async () => {
      const { connection, clock, stop } = await aCompleteFollow();
      await connection.last.end(busy());
      await clock.advance(800);
      await connection.last.open();
      await clock.advance(60_000);
      await connection.last.send(bookmark(20));
      await clock.advance(stoodMs - 60_000);
      await connection.last.end(busy());
      await clock.advance(waitsMs - 1);
      expect(connection.streams.length).toBe(2);
      await clock.advance(1);
      expect(connection.streams.length).toBe(3);
      await stop();
    });

  for (const [retryAfterMs, waitsMs] of [
    [5_000, 5_000],
    [100, 800],
    [3_600_000, 60_000],
  ] as const)
    test(`with Retry-After ${retryAfterMs} ms is tried after ${waitsMs} ms`, async () => {
      const { connection, clock, stop } = await aCompleteFollow();
      await connection.last.end(new KubeError("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs }));
      await clock.advance(waitsMs - 1);
      expect(connection.streams.length).toBe(1);
      await clock.advance(1);
      expect(connection.streams.length).toBe(2);
      await stop();
    });
});

describe("the signal ends it", () => {
  test("before it began", async () => {
    const connection = new FakeConnection();
    const listener = { replaced() {}, changed() {}, away() {}, back() {} };
    const clock = new FakeClock();
    const recovery = createRecovery(clock, () => 0);
    await follow(
      { connection, clock, log: new FakeLog(), random: () => 0, recovery },
      pods(),
      {},
      listener,
      AbortSignal.abort(),
    );
    expect(connection.streams.length).toBe(0);
  });

  test("in the moment of an answer", async () => {
    const { connection, clock, log, stop } = await aFollow();
    await stop();
    const controller = new AbortController();
    const told: string[] = [];
    const listener = { replaced: () => void told.push("replaced"), changed() {}, away() {}, back() {} };
    const answering = {
      ...connection,
      lines: async () => invalid(422),
      request: async (request: KubeRequest) => {
        controller.abort();
        return listing([[]])(request);
      },
    };
    const recovery = createRecovery(clock, () => 0);
    const tools = { connection: answering, clock, log, random: () => 0, recovery };
    await follow(tools, pods(), {}, listener, controller.signal);
    expect(told).toEqual([]);
  });

  const moments: readonly (readonly [string, (scene: Scene) => Promise<void> | void])[] = [
    ["before the server answers", () => {}],
    ["among the initial events", ({ connection }) => connection.last.open()],
    ["while it watches", ({ connection }) => connection.last.send(endOfInitialEvents(10))],
    ["while it waits to try again", ({ connection }) => connection.last.end(unreachable())],
    [
      "while it lists",
      async ({ connection }) => {
        connection.answer = () => new Promise(() => {});
        await connection.last.end(invalid(422));
        expect(connection.requests.length).toBe(1);
      },
    ],
  ];
  for (const [when, reach] of moments)
    test(`${when}, and nothing is told or left after it`, async () => {
      const scene = await aFollow({ pages: [[pod("web", 3)]] });
      await reach(scene);
      scene.told();
      await scene.stop();
      expect(scene.clock.timers).toBe(0);
      await scene.connection.last.send(endOfInitialEvents(10), event("ADDED", "late", 11));
      await scene.clock.advance(600_000);
      expect(scene.told()).toEqual([]);
      expect(scene.connection.open).toBe(0);
      expect(scene.clock.timers).toBe(0);
    });
});
