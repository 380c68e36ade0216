import { describe, expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeConnection } from "../../test/fakes/connection.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { KubeError } from "../error.ts";
import { pods } from "../resource.ts";
import type { KubeRequest, LinesRequest } from "../transport/connection.ts";
import { createRecovery } from "./recovery.ts";
import { runReflector } from "./reflector.ts";

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

interface ReflectorFixture {
  readonly connection: FakeConnection;
  readonly clock: FakeClock;
  readonly log: FakeLog;
  /** The listener's calls since the last request for them. */
  readonly calls: () => readonly string[];
  /** Where the watches started, in order: `initial` or a resourceVersion. */
  readonly startVersions: () => readonly string[];
  readonly stop: () => Promise<void>;
}

async function startReflector({
  random = 0,
  pages = [[]] as readonly (readonly unknown[])[],
} = {}): Promise<ReflectorFixture> {
  const [connection, clock, log] = [new FakeConnection(), new FakeClock(), new FakeLog()];
  connection.respond = listing(pages);
  const calls: string[] = [];
  const controller = new AbortController();
  const listener = {
    onReplaced(objects: readonly Pod[], version: string, isRolledBack: boolean) {
      calls.push(`replaced at ${version}${isRolledBack ? " (gone back)" : ""}: ${names(objects)}`);
    },
    onChanged: (kind: string, object: Pod) => void calls.push(`${kind} ${object.metadata.name}`),
    onOutage: (error: KubeError) => void calls.push(`away: ${error.code}`),
    onRecovered: () => void calls.push("back"),
  };
  const selector = { fieldSelector: "spec.nodeName=a" };
  const recovery = createRecovery(clock, () => random);
  const tools = { connection: recovery.track(connection), clock, log, random: () => random, recovery };
  const end = runReflector(tools, pods(), selector, listener, controller.signal);
  await settlePromises();
  return {
    connection,
    clock,
    log,
    calls: () => calls.splice(0),
    startVersions: () => connection.streams.map(({ request }) => request.query?.["resourceVersion"] ?? "initial"),
    async stop() {
      controller.abort();
      await end;
    },
  };
}

/** Answers lists page by page, at resourceVersion 100. */
function listing(pages: readonly (readonly unknown[])[]) {
  return ({ query }: KubeRequest): unknown => {
    const page = Number(query?.["continue"] ?? 0);
    const token = page + 1 < pages.length ? String(page + 1) : undefined;
    return { metadata: { resourceVersion: "100", continue: token }, items: pages[page] };
  };
}

/** A reflector that has received its snapshot, at resourceVersion 10, by initial events. */
async function startSyncedReflector(options: Parameters<typeof startReflector>[0] = {}): Promise<ReflectorFixture> {
  const fixture = await startReflector(options);
  await fixture.connection.lastStream.open();
  await fixture.connection.lastStream.send(event("ADDED", "web", 3), endOfInitialEvents(10));
  fixture.calls();
  return fixture;
}

/** A reflector for a server without initial events that has received its snapshot by a list. */
async function startListingReflector(options: Parameters<typeof startReflector>[0] = {}): Promise<ReflectorFixture> {
  const fixture = await startReflector(options);
  await fixture.connection.lastStream.end(invalid(422));
  await settlePromises();
  return fixture;
}

const queryOf = ({ query = {} }: LinesRequest | KubeRequest) =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));

describe("events that are sent again:", () => {
  test("old events change nothing, and the next watch does not resume from them", async () => {
    const { connection, clock, log, calls, startVersions, stop } = await startSyncedReflector();
    await connection.lastStream.send(event("ADDED", "db", 11), event("DELETED", "web", 12), event("DELETED", "db", 13));
    expect(calls()).toEqual(["added db", "deleted web", "deleted db"]);
    const repeated = [event("ADDED", "web", 3), event("ADDED", "db", 11), event("DELETED", "db", 13), bookmark(12)];
    await connection.lastStream.send(...repeated, ...repeated);
    expect(calls()).toEqual([]);
    expect(log.takeLines()).toEqual([
      "warn: skipping watch events that the API server has sent before; a proxy may repeat them",
    ]);
    await clock.advance(5_000);
    await connection.lastStream.end();
    expect(startVersions()).toEqual(["initial", "13"]);
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "db", 11), event("ADDED", "job", 14));
    expect(calls()).toEqual(["added job"]);
    await stop();
  });

  test("an event with the version of the last bookmark is old, and one after a bookmark is not", async () => {
    const { connection, calls, stop } = await startSyncedReflector();
    await connection.lastStream.send(bookmark(20), event("ADDED", "db", 20), event("ADDED", "job", 21));
    expect(calls()).toEqual(["added job"]);
    await stop();
  });

  test("versions that are no numbers are not compared", async () => {
    const { connection, calls, stop } = await startSyncedReflector();
    const opaque = (name: string) => ({ type: "ADDED", object: pod(name, "v7") });
    await connection.lastStream.send(opaque("db"), opaque("job"));
    expect(calls()).toEqual(["added db", "added job"]);
    await stop();
  });
});

describe("snapshot:", () => {
  test("the reflector gets it from a watch with initial events, and reports it when it is complete", async () => {
    const { connection, calls, stop } = await startReflector();
    expect(connection.lastStream.request).toMatchObject({ method: "GET", path: "/api/v1/pods" });
    expect(queryOf(connection.lastStream.request)).toEqual({
      watch: "true",
      fieldSelector: "spec.nodeName=a",
      allowWatchBookmarks: "true",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
      timeoutSeconds: "300",
    });
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "web", 3), event("ADDED", "db", 7), bookmark(8));
    expect(calls()).toEqual([]);
    await connection.lastStream.send(endOfInitialEvents(10), event("ADDED", "job", 11), event("MODIFIED", "web", 12));
    expect(calls()).toEqual(["replaced at 10: web db", "added job", "modified web"]);
    await connection.lastStream.send(event("DELETED", "job", 13));
    expect(calls()).toEqual(["deleted job"]);
    await stop();
  });

  test("the reported snapshot is the state at the end of the initial events", async () => {
    const { connection, calls, stop } = await startReflector();
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "web", 3), event("ADDED", "db", 7), event("MODIFIED", "db", 8));
    await connection.lastStream.send(event("DELETED", "web", 9), endOfInitialEvents(10));
    expect(calls()).toEqual(["replaced at 10: db"]);
    await stop();
  });

  test("a watch that is cut during the initial events reports nothing", async () => {
    const { connection, clock, calls, startVersions, stop } = await startReflector();
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "web", 3));
    await connection.lastStream.end(unreachable());
    await clock.advance(800);
    expect(calls()).toEqual(["away: UNREACHABLE"]);
    expect(startVersions()).toEqual(["initial", "initial"]);
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "db", 7), endOfInitialEvents(10));
    expect(calls()).toEqual(["back", "replaced at 10: db"]);
    await stop();
  });

  test("a watch that ends normally before the initial events are complete reports nothing", async () => {
    const { connection, clock, calls, startVersions, stop } = await startReflector();
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "web", 3));
    await clock.advance(5_000);
    await connection.lastStream.end();
    expect(calls()).toEqual(["away: CLOSED"]);
    expect(startVersions()).toEqual(["initial"]);
    await stop();
  });

  for (const status of [400, 422])
    test(`the reflector lists in pages when the server rejects initial events with ${status}`, async () => {
      const { connection, calls, startVersions, log, stop } = await startReflector({
        pages: [[pod("web", 3)], [pod("db", 7)]],
      });
      await connection.lastStream.end(invalid(status));
      await settlePromises();
      expect(connection.requests.map(queryOf)).toEqual([
        { fieldSelector: "spec.nodeName=a", limit: "500" },
        { fieldSelector: "spec.nodeName=a", limit: "500", continue: "1" },
      ]);
      expect(calls()).toEqual(["replaced at 100: web db"]);
      expect(startVersions()).toEqual(["initial", "100"]);
      expect(queryOf(connection.lastStream.request)).toEqual({
        watch: "true",
        fieldSelector: "spec.nodeName=a",
        allowWatchBookmarks: "true",
        resourceVersion: "100",
        timeoutSeconds: "300",
      });
      expect(log.takeLines()).toEqual([
        "info: the API server does not support initial events: falling back to list and watch",
      ]);
      await stop();
    });

  test("the reflector lists when the initial events never end", async () => {
    const { connection, clock, calls, startVersions, stop } = await startReflector({ pages: [[pod("web", 3)]] });
    await connection.lastStream.open();
    for (let second = 0; second < 120; second += 40) {
      await connection.lastStream.send(event("ADDED", "web", 3));
      await clock.advance(40_000);
    }
    await settlePromises();
    expect(calls()).toEqual(["replaced at 100: web"]);
    expect(startVersions()).toEqual(["initial", "100"]);
    await stop();
  });

  test("the reflector lists until a list succeeds, and reports one outage", async () => {
    const fixture = await startReflector();
    fixture.connection.respond = () => {
      throw new KubeError("SERVER", "etcd is away", { status: 500 });
    };
    await fixture.connection.lastStream.end(invalid(422));
    await fixture.clock.advance(5_000);
    expect(fixture.connection.requests.length).toBe(3);
    expect(fixture.calls()).toEqual(["away: SERVER"]);
    fixture.connection.respond = listing([[pod("web", 3)]]);
    await fixture.clock.advance(30_000);
    expect(fixture.calls()).toEqual(["back", "replaced at 100: web"]);
    await fixture.stop();
  });
});

describe("watch:", () => {
  for (const [random, seconds] of [
    [0, "300"],
    [0.5, "450"],
    [0.9999, "600"],
  ] as const)
    test(`timeoutSeconds is ${seconds} for the random number ${random}`, async () => {
      const { connection, stop } = await startReflector({ random });
      expect(queryOf(connection.lastStream.request)["timeoutSeconds"]).toBe(seconds);
      await stop();
    });

  test("a watch that ends normally is resumed at once, without a report", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await clock.advance(2_000);
    await connection.lastStream.end();
    expect(startVersions()).toEqual(["initial", "10"]);
    await connection.lastStream.open();
    await connection.lastStream.send(event("MODIFIED", "web", 11));
    expect(calls()).toEqual(["modified web"]);
    await stop();
  });

  test("a watch that ends immediately is resumed after a back-off", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await connection.lastStream.end();
    expect(startVersions()).toEqual(["initial"]);
    await clock.advance(800);
    expect(startVersions()).toEqual(["initial", "10"]);
    await connection.lastStream.open();
    expect(calls()).toEqual(["away: CLOSED", "back"]);
    await stop();
  });

  test("a watch that is cut resumes from the last change", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await connection.lastStream.send(event("MODIFIED", "web", 14));
    await connection.lastStream.end(unreachable());
    await clock.advance(800);
    expect(startVersions()).toEqual(["initial", "14"]);
    expect(calls()).toEqual(["modified web", "away: UNREACHABLE"]);
    await connection.lastStream.open();
    await connection.lastStream.send(event("DELETED", "web", 15));
    expect(calls()).toEqual(["back", "deleted web"]);
    await stop();
  });

  test("a watch that is cut resumes from the last bookmark", async () => {
    const { connection, clock, startVersions, stop } = await startSyncedReflector();
    await connection.lastStream.send(event("MODIFIED", "web", 14), bookmark(90));
    await connection.lastStream.end(unreachable());
    await clock.advance(800);
    expect(startVersions()).toEqual(["initial", "90"]);
    await stop();
  });

  test("a silent watch is replaced by another one, without a report", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await clock.advance(74_000);
    await connection.lastStream.send(bookmark(20));
    await clock.advance(74_000);
    expect(startVersions()).toEqual(["initial"]);
    await clock.advance(1_000);
    expect(startVersions()).toEqual(["initial", "20"]);
    expect(connection.openStreams).toBe(1);
    expect(calls()).toEqual([]);
    await stop();
  });

  test("a second silent watch at the same resourceVersion causes a relist", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await clock.advance(75_000);
    await connection.lastStream.open();
    await clock.advance(75_000);
    expect(startVersions()).toEqual(["initial", "10", "initial"]);
    expect(calls()).toEqual([]);
    await stop();
  });

  for (const [version, line] of [
    [9, "replaced at 9 (gone back): web"],
    [10, "replaced at 10: web"],
    [100, "replaced at 100: web"],
  ] as const)
    test(`a relist at version ${version} after 10 reports whether the server has gone back`, async () => {
      const { connection, clock, calls, stop } = await startSyncedReflector();
      await clock.advance(75_000);
      await connection.lastStream.open();
      await clock.advance(75_000);
      await connection.lastStream.open();
      await connection.lastStream.send(event("ADDED", "web", 3), endOfInitialEvents(version));
      expect(calls()).toEqual([line]);
      await stop();
    });

  test("an unknown type of event is logged once and skipped", async () => {
    const { connection, log, calls, stop } = await startSyncedReflector();
    await connection.lastStream.send(
      event("RENAMED", "web", 14),
      event("RENAMED", "web", 15),
      event("MODIFIED", "web", 16),
    );
    await connection.lastStream.send(event("toString", "web", 17));
    expect(calls()).toEqual(["modified web"]);
    expect(log.lines.map(({ fields }) => fields)).toEqual([
      { resource: "pods", type: "RENAMED" },
      { resource: "pods", type: "toString" },
    ]);
    await stop();
  });

  test("values and fields of a newer API are passed on unchanged", async () => {
    const { connection, clock, log, stop } = await startReflector();
    const seen: unknown[] = [];
    await stop();
    const listener = {
      onReplaced() {},
      onChanged: (_: string, object: Pod) => void seen.push(object),
      onOutage() {},
      onRecovered() {},
    };
    const controller = new AbortController();
    const recovery = createRecovery(clock, () => 0);
    void runReflector({ connection, clock, log, random: () => 0, recovery }, pods(), {}, listener, controller.signal);
    const newer = { ...pod("web", 11), spec: { restartPolicy: "Sometimes", containers: [], flux: { of: 1.21 } } };
    await connection.lastStream.send(endOfInitialEvents(10), { type: "ADDED", object: newer });
    expect(seen).toEqual([newer]);
    controller.abort();
  });
});

describe("an expired resourceVersion:", () => {
  test("after a 410 the reflector lists again at once, and reports no outage", async () => {
    const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
    await clock.advance(2_000);
    await connection.lastStream.end();
    await connection.lastStream.end(gone());
    expect(startVersions()).toEqual(["initial", "10", "initial"]);
    await connection.lastStream.open();
    await connection.lastStream.send(event("ADDED", "db", 70), endOfInitialEvents(80));
    expect(calls()).toEqual(["replaced at 80: db"]);
    await stop();
  });

  test("an ERROR event with 410 causes a relist, and later events of that stream are ignored", async () => {
    const { connection, calls, startVersions, stop } = await startSyncedReflector();
    const stream = connection.lastStream;
    await stream.send(errorEvent(410, "Expired"), event("ADDED", "late", 11));
    expect(startVersions()).toEqual(["initial", "initial"]);
    expect(connection.openStreams).toBe(1);
    expect(calls()).toEqual([]);
    await stop();
  });

  test("after an outage, the outage ends when the relist is complete", async () => {
    const { connection, clock, calls, stop } = await startSyncedReflector();
    await connection.lastStream.end(unreachable());
    await clock.advance(800);
    await connection.lastStream.end(gone());
    await connection.lastStream.open();
    expect(calls()).toEqual(["away: UNREACHABLE"]);
    await connection.lastStream.send(endOfInitialEvents(80));
    expect(calls()).toEqual(["back", "replaced at 80: "]);
    await stop();
  });

  test("a server without initial events is listed again, with a back-off if the list expires at once", async () => {
    const { connection, clock, calls, stop } = await startListingReflector({ pages: [[pod("web", 3)]] });
    expect(connection.requests.length).toBe(1);
    await connection.lastStream.send(errorEvent(410, "Gone"));
    await settlePromises();
    expect(connection.requests.length).toBe(2);
    await connection.lastStream.send(errorEvent(410, "Gone"));
    await settlePromises();
    expect(connection.requests.length).toBe(2);
    await clock.advance(800);
    expect(connection.requests.length).toBe(3);
    expect(calls()).toEqual(Array(3).fill("replaced at 100: web"));
    expect(connection.streams.filter(({ request }) => request.query?.["sendInitialEvents"]).length).toBe(1);
    await stop();
  });
});

describe("a watch that is ended with 410 again and again:", () => {
  const ends: readonly (readonly [string, (stream: FakeConnection["lastStream"]) => Promise<void>])[] = [
    ["an ERROR event", (stream) => stream.send(errorEvent(410, "Expired"))],
    [
      "an ERROR event and the end of the stream",
      async (stream) => {
        await stream.send(errorEvent(410, "Expired"));
        await stream.end();
      },
    ],
    [
      "an ERROR event without a reason",
      (stream) => stream.send({ type: "ERROR", object: { kind: "Status", code: 410 } }),
    ],
    ["a response of a proxy", (stream) => stream.end(new KubeError("SERVER", "gone", { status: 410 }))],
  ];
  for (const [how, endWatch] of ends)
    test(`by ${how} is started again at once, and then within eight seconds`, async () => {
      const { connection, clock, startVersions, stop } = await startSyncedReflector({ random: 0.999 });
      const waits: number[] = [];
      for (let time = 0; time < 12; time++) {
        await endWatch(connection.lastStream);
        const watches = startVersions().length;
        let waitedMs = 0;
        for (; startVersions().length === watches && connection.openStreams === 0; waitedMs += 100)
          await clock.advance(100);
        waits.push(waitedMs);
        await connection.lastStream.open();
        await connection.lastStream.send(endOfInitialEvents(20 + time));
      }
      expect(waits[0]).toBe(0);
      expect(Math.max(...waits)).toBe(8_000);
      expect(new Set(startVersions())).toEqual(new Set(["initial"]));
      await stop();
    });

  test("is started again at once when it had got ahead since", async () => {
    const { connection, clock, startVersions, stop } = await startSyncedReflector();
    for (let time = 0; time < 5; time++) {
      await connection.lastStream.send(errorEvent(410, "Expired"));
      await clock.advance(8_000);
      await connection.lastStream.open();
      await connection.lastStream.send(endOfInitialEvents(20 + time));
    }
    await connection.lastStream.send(bookmark(50), errorEvent(410, "Expired"));
    expect(startVersions()).toHaveLength(7);
    expect(connection.openStreams).toBe(1);
    await connection.lastStream.open();
    await connection.lastStream.send(endOfInitialEvents(60), errorEvent(410, "Expired"));
    await clock.advance(800);
    expect(connection.openStreams).toBe(1);
    await stop();
  });
});

describe("an undecodable event:", () => {
  const bad: readonly (readonly [string, (stream: FakeConnection["lastStream"]) => Promise<void>])[] = [
    ["a truncated line", (stream) => stream.end(new KubeError("NOT_JSON", "only the beginning of a line"))],
    ["a line that is not an object", (stream) => stream.send(42)],
    ["null", (stream) => stream.send(null)],
    ["an event without an object", (stream) => stream.send({ type: "ADDED" })],
    [
      "an object without a name",
      (stream) => stream.send({ type: "ADDED", object: { metadata: { resourceVersion: "9" } } }),
    ],
    [
      "an object without a resourceVersion",
      (stream) => stream.send({ type: "ADDED", object: { metadata: { name: "web" } } }),
    ],
    ["a bookmark without a resourceVersion", (stream) => stream.send({ type: "BOOKMARK", object: { metadata: {} } })],
    ["an overlong line", (stream) => stream.end(new KubeError("TOO_LARGE", "a line of 100 MB"))],
    ["a server error", (stream) => stream.send(errorEvent(500, "InternalError"))],
    ["a resourceVersion that the server rejects", (stream) => stream.end(invalid(400))],
    ["an error without a code", (stream) => stream.send({ type: "ERROR", object: null })],
  ];
  for (const [what, send] of bad)
    test(`${what} ends its watch, which is resumed`, async () => {
      const { connection, clock, calls, startVersions, stop } = await startSyncedReflector();
      await connection.lastStream.send(event("MODIFIED", "web", 14));
      await send(connection.lastStream);
      await clock.advance(800);
      expect(startVersions()).toEqual(["initial", "14"]);
      expect(connection.openStreams).toBe(1);
      await connection.lastStream.open();
      expect(calls()).toEqual([
        "modified web",
        expect.stringMatching(/^away: (NOT_JSON|TOO_LARGE|INVALID|SERVER)$/),
        "back",
      ]);
      await stop();
    });

  test("the second one at the same resourceVersion causes a relist", async () => {
    const { connection, clock, startVersions, stop } = await startSyncedReflector();
    for (let round = 0; round < 2; round += 1) {
      await connection.lastStream.open();
      await connection.lastStream.send(errorEvent(500, "InternalError"));
      await clock.advance(3_200);
    }
    expect(startVersions()).toEqual(["initial", "10", "initial"]);
    await stop();
  });

  test("the second one at a later resourceVersion causes no relist", async () => {
    const { connection, clock, startVersions, stop } = await startSyncedReflector();
    for (const version of [14, 15]) {
      await connection.lastStream.send(event("MODIFIED", "web", version), 42);
      await clock.advance(3_200);
    }
    expect(startVersions()).toEqual(["initial", "14", "15"]);
    await stop();
  });
});

describe("an outage:", () => {
  const tooManyRequests = () => new KubeError("SERVER", "etcd is away", { status: 500 });

  /** The back-off before each attempt of an endless outage, in seconds. */
  async function attempts(random: number, failure: () => KubeError): Promise<readonly number[]> {
    const { connection, clock, stop } = await startSyncedReflector({ random });
    const startVersions = clock.elapsedMs;
    await connection.lastStream.end(failure());
    const at: number[] = [];
    while (at.length < 8) {
      const before = connection.streams.length;
      while (connection.streams.length === before) await clock.advance(50);
      at.push((clock.elapsedMs - startVersions) / 1000);
      await connection.lastStream.end(failure());
    }
    await stop();
    return at.map((time, index) => Number((time - (at[index - 1] ?? 0)).toFixed(2)));
  }

  test("the first retry comes after 0.8 s at the earliest, and the back-off grows", async () => {
    expect(await attempts(0, tooManyRequests)).toEqual([0.8, 1.6, 3.2, 6.4, 12.8, 15, 15, 15]);
  });
  test("the back-off is at most 30 s", async () => {
    expect(await attempts(1, tooManyRequests)).toEqual([1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]);
  });
  test("the back-off for an unreachable server is at most two seconds, so that its return is noticed soon", async () => {
    expect(await attempts(0, unreachable)).toEqual([0.8, 1, 1, 1, 1, 1, 1, 1]);
    expect(await attempts(1, unreachable)).toEqual([1.6, 2, 2, 2, 2, 2, 2, 2]);
  });
  test("after a 403 the first retry comes at once, since the permission may follow a moment later", async () => {
    const forbidden = () => new KubeError("FORBIDDEN", "no relationship found", { status: 403 });
    expect(await attempts(0, forbidden)).toEqual([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4]);
    expect(await attempts(1, forbidden)).toEqual([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8]);
  });
  test("an error of the server starts its own back-off, however long the server was unreachable before", async () => {
    const { connection, clock, stop } = await startSyncedReflector();
    await connection.lastStream.end(unreachable());
    for (let second = 0; second < 60; second += 1) {
      await clock.advance(1_000);
      await connection.lastStream.end(unreachable());
    }
    const before = connection.streams.length;
    await clock.advance(1_000);
    // Right after its start a server may not know our permissions yet.
    await connection.lastStream.end(new KubeError("FORBIDDEN", "not allowed", { status: 403 }));
    await clock.advance(800);
    expect(connection.streams.length).toBe(before + 2);
    await stop();
  });

  test("it is reported once for each reason, and so is its end", async () => {
    const { connection, clock, calls, stop } = await startSyncedReflector();
    await connection.lastStream.end(unreachable());
    for (let round = 0; round < 4; round += 1) {
      await clock.advance(15_000);
      await connection.lastStream.end(new KubeError("UNAUTHORIZED", "who are you?", { status: 401 }));
    }
    expect(calls()).toEqual(["away: UNREACHABLE", "away: UNAUTHORIZED"]);
    await clock.advance(15_000);
    await connection.lastStream.open();
    await connection.lastStream.send(bookmark(20), event("MODIFIED", "web", 21));
    expect(calls()).toEqual(["back", "modified web"]);
    await stop();
  });

  test("it is reported before the first snapshot, too", async () => {
    const { connection, clock, calls, stop } = await startReflector();
    await connection.lastStream.end(unreachable());
    expect(calls()).toEqual(["away: UNREACHABLE"]);
    await clock.advance(800);
    await connection.lastStream.open();
    await connection.lastStream.send(endOfInitialEvents(10));
    expect(calls()).toEqual(["back", "replaced at 10: "]);
    await stop();
  });

  for (const [stoodMs, waitsMs] of [
    [29_000, 1_600],
    [30_000, 800],
  ] as const)
    test(`after a watch of ${stoodMs / 1000} s the retry comes after ${waitsMs} ms`, async () => {
      const { connection, clock, stop } = await startSyncedReflector();
      await connection.lastStream.end(tooManyRequests());
      await clock.advance(800);
      await connection.lastStream.open();
      await clock.advance(60_000);
      await connection.lastStream.send(bookmark(20));
      await clock.advance(stoodMs - 60_000);
      await connection.lastStream.end(tooManyRequests());
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
    test(`with Retry-After ${retryAfterMs} ms the retry comes after ${waitsMs} ms`, async () => {
      const { connection, clock, stop } = await startSyncedReflector();
      await connection.lastStream.end(
        new KubeError("TOO_MANY_REQUESTS", "too many requests", { status: 429, retryAfterMs }),
      );
      await clock.advance(waitsMs - 1);
      expect(connection.streams.length).toBe(1);
      await clock.advance(1);
      expect(connection.streams.length).toBe(2);
      await stop();
    });
});

describe("the signal ends the reflector", () => {
  test("before it starts", async () => {
    const connection = new FakeConnection();
    const listener = { onReplaced() {}, onChanged() {}, onOutage() {}, onRecovered() {} };
    const clock = new FakeClock();
    const recovery = createRecovery(clock, () => 0);
    await runReflector(
      { connection, clock, log: new FakeLog(), random: () => 0, recovery },
      pods(),
      {},
      listener,
      AbortSignal.abort(),
    );
    expect(connection.streams.length).toBe(0);
  });

  test("at the moment of an answer", async () => {
    const { connection, clock, log, stop } = await startReflector();
    await stop();
    const controller = new AbortController();
    const calls: string[] = [];
    const listener = { onReplaced: () => void calls.push("replaced"), onChanged() {}, onOutage() {}, onRecovered() {} };
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
    await runReflector(tools, pods(), {}, listener, controller.signal);
    expect(calls).toEqual([]);
  });

  const moments: readonly (readonly [string, (fixture: ReflectorFixture) => Promise<void> | void])[] = [
    ["before the server answers", () => {}],
    ["during the initial events", ({ connection }) => connection.lastStream.open()],
    ["during a watch", ({ connection }) => connection.lastStream.send(endOfInitialEvents(10))],
    ["during a back-off", ({ connection }) => connection.lastStream.end(unreachable())],
    [
      "during a list",
      async ({ connection }) => {
        connection.respond = () => new Promise(() => {});
        await connection.lastStream.end(invalid(422));
        expect(connection.requests.length).toBe(1);
      },
    ],
  ];
  for (const [when, reach] of moments)
    test(`${when}, and nothing is reported or left running`, async () => {
      const fixture = await startReflector({ pages: [[pod("web", 3)]] });
      await reach(fixture);
      fixture.calls();
      await fixture.stop();
      expect(fixture.clock.pendingTimers).toBe(0);
      await fixture.connection.lastStream.send(endOfInitialEvents(10), event("ADDED", "late", 11));
      await fixture.clock.advance(600_000);
      expect(fixture.calls()).toEqual([]);
      expect(fixture.connection.openStreams).toBe(0);
      expect(fixture.clock.pendingTimers).toBe(0);
    });
});
