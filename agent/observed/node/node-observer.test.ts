import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { Image } from "../../../proto/cri/gen/api.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createSignalSource, observedMachine } from "../../../test/fakes/observed-node.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import type { SignalObservations } from "../../decide/node/observed-node.ts";
import { createNodeObserver } from "./node-observer.ts";

function createFixture({
  needsImages = true,
  signals = ["memory.available", "nodefs.available", "imagefs.inodesFree"],
}: {
  readonly needsImages?: boolean;
  readonly signals?: readonly string[];
} = {}) {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  const stop = new AbortController();
  const reported: string[] = [];
  const measured: SignalObservations[] = [];
  const { left, ...supplies } = createSignalSource();
  const observer = createNodeObserver({
    runtime,
    readCgroupDriver: async () => undefined,
    ...supplies,
    signals: new Set(signals),
    machine: observedMachine,
    addresses: () => ["192.0.2.1"],
    clock,
    log: new FakeLog(),
    needsImages,
    refreshEveryMs: 10_000,
    onMeasured: (found) => void measured.push(found),
    onChange() {
      const { runtime: seen, images } = observer.now();
      const conditions = seen.conditions?.filter(({ status }) => status).map(({ type }) => type) ?? ["unknown"];
      const names = images?.flatMap(({ tags }) => tags) ?? ["unknown"];
      reported.push(`${clock.elapsedMs} ms ${seen.isReady ? "ready" : "not ready"}: ${conditions}; images ${names}`);
    },
  });
  const takeCalls = () => {
    const calls = runtime.calls.splice(0).map((call) => call.trim());
    return Object.fromEntries(
      Map.groupBy(calls, (call) => call)
        .entries()
        .map(([call, all]) => [call, all.length]),
    );
  };
  const silent = () => new CriError("UNAVAILABLE", "status", "the runtime is down");
  return { clock, runtime, stop, reported, measured, left, observer, takeCalls, silent };
}

test("a healthy runtime is read every ten seconds, and an unchanged status is not reported", async () => {
  const { clock, runtime, stop, reported, observer, takeCalls } = createFixture();
  runtime.addImage("a:1");
  const ended = observer.run(stop.signal);
  await clock.advance(65_000);
  expect(reported).toEqual([
    "0 ms ready: RuntimeReady,NetworkReady; images unknown",
    "0 ms ready: RuntimeReady,NetworkReady; images a:1",
  ]);
  expect(takeCalls()).toEqual({ status: 7, version: 1, listImages: 1, imageFsInfo: 1 });
  expect(observer.now().runtime).toMatchObject({ name: "fake", version: "1.0.0", readyAt: FakeClock.start + 60_000 });
  stop.abort();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});

test("a runtime that is not ready is read again with growing delays", async () => {
  const { clock, runtime, stop, reported, observer, takeCalls } = createFixture();
  runtime.conditions = { RuntimeReady: true, NetworkReady: false };
  const ended = observer.run(stop.signal);
  await clock.advance(1_600);
  // After 0.1, 0.3, 0.7 and 1.5 s.
  expect(takeCalls()).toMatchObject({ status: 5 });
  await clock.advance(60_000);
  expect(takeCalls()["status"]).toBeWithin(12, 15);
  runtime.conditions = { RuntimeReady: true, NetworkReady: true };
  await clock.advance(5_000);
  expect(reported.map((line) => line.replace(/^\d+ ms /, "").replace(/; .*/, ""))).toEqual([
    "ready: RuntimeReady",
    "ready: RuntimeReady",
    "ready: RuntimeReady,NetworkReady",
  ]);
  stop.abort();
  await ended;
});

test("a runtime that does not respond keeps its last status except for its readiness, and its version is read again afterwards", async () => {
  const { clock, runtime, stop, reported, observer, takeCalls, silent } = createFixture();
  const ended = observer.run(stop.signal);
  await settlePromises();
  takeCalls();
  runtime.failures = { status: [silent(), silent()] };
  observer.runtimeStatus.markDisconnected();
  await settlePromises();
  expect(observer.now().runtime).toMatchObject({
    isReady: false,
    noResponse: "status: the runtime is down",
    name: "fake",
    readyAt: FakeClock.start,
    conditions: [{ type: "RuntimeReady", status: true }, { type: "NetworkReady" }],
  });
  await clock.advance(400);
  expect(takeCalls()).toEqual({ status: 3, version: 3 });
  expect(observer.now().runtime.noResponse).toBeUndefined();
  expect(reported.map((line) => line.replace(/:.*/, "")).slice(-2)).toEqual(["0 ms not ready", "300 ms ready"]);
  stop.abort();
  await ended;
});

test("images are listed on demand, at most twice a minute", async () => {
  const { clock, runtime, stop, reported, observer, takeCalls } = createFixture();
  const ended = observer.run(stop.signal);
  await settlePromises();
  reported.length = 0;
  runtime.addImage("a:1");
  for (let count = 0; count < 100; count += 1) observer.invalidateImages();
  await clock.advance(29_000);
  expect(reported).toEqual([]);
  await clock.advance(1_000);
  expect(reported).toEqual(["30000 ms ready: RuntimeReady,NetworkReady; images a:1"]);
  await clock.advance(300_000);
  expect(takeCalls()["listImages"]).toBe(2);
  runtime.failures = { listImages: [new CriError("UNAVAILABLE", "listImages", "away")] };
  runtime.addImage("b:1");
  observer.invalidateImages();
  await clock.advance(30_000);
  expect(reported.at(-1)).toEndWith("images a:1,b:1");
  stop.abort();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});

test("names of an image in another order are not a change", async () => {
  const { clock, runtime, stop, reported, observer } = createFixture();
  const listed = (...repoTags: readonly string[]) =>
    runtime.images.set("a", Image.fromPartial({ id: "sha256:a", repoTags: [...repoTags], size: 1n }));
  listed("a:1", "b:1");
  const ended = observer.run(stop.signal);
  await settlePromises();
  reported.length = 0;
  listed("b:1", "a:1");
  observer.invalidateImages();
  await clock.advance(31_000);
  expect(reported).toEqual([]);
  stop.abort();
  await ended;
});

test("observe resolves even if the runtime does not respond", async () => {
  const { runtime, observer, reported, silent } = createFixture();
  runtime.failures = { status: [silent()] };
  await observer.observe();
  expect([observer.now().runtime.isReady, observer.now().runtime.conditions]).toEqual([false, undefined]);
  expect(reported).toEqual(["0 ms not ready: unknown; images unknown"]);
  await observer.observe();
  expect(observer.now().runtime.isReady).toBe(true);
});

test("the signals with a threshold are measured every ten seconds, and failing ones are left out", async () => {
  const { clock, runtime, stop, measured, left, observer, takeCalls, silent } = createFixture();
  runtime.failures = { imageFsInfo: [silent()], status: Array.from({ length: 9 }, silent) };
  await observer.observe();
  const memory = { capacity: 8 * 2 ** 30, available: 6 * 2 ** 30 };
  const bytes = { capacity: 100e9, available: 50e9 };
  const inodes = { capacity: 1e6, available: 5e5 };
  const nodefs = { "nodefs.available": bytes, "nodefs.inodesFree": inodes };
  const imagefs = { "imagefs.available": bytes, "imagefs.inodesFree": inodes };
  expect(measured).toEqual([{ "memory.available": memory, ...nodefs }]);
  const ended = observer.run(stop.signal);
  await clock.advance(31_000);
  expect(measured.slice(1)).toEqual(Array(2).fill({ "memory.available": memory, ...nodefs, ...imagefs }));
  left.fileSystems.clear();
  observer.runtimeStatus.markDisconnected();
  await clock.advance(20_000);
  expect(measured.at(-1)).toEqual({ "memory.available": memory });
  // Another runtime may use another file system for its images.
  expect(takeCalls()).toMatchObject({ imageFsInfo: 3 });
  stop.abort();
  await ended;
});

/** The signals that were measured. */
const namesOf = (found: SignalObservations) => Object.keys(found).filter((name) => found[name] !== undefined);

test("a file system that hangs blocks neither the runtime nor other signals, and is not called again", async () => {
  const { clock, stop, measured, left, observer, takeCalls } = createFixture();
  const hanging = Promise.withResolvers<void>();
  let times = 0;
  left.before = async (path) => {
    if (path !== "/var/lib/kubelet") return;
    times += 1;
    await hanging.promise;
  };
  const looked = observer.observe(1_000);
  await clock.advance(1_000);
  await looked;
  const answering = ["memory.available", "imagefs.available", "imagefs.inodesFree"];
  expect(measured.map(namesOf)).toEqual([answering]);
  takeCalls();
  const ended = observer.run(stop.signal);
  await clock.advance(9_000);
  takeCalls();
  await clock.advance(50_000);
  expect([takeCalls(), times]).toEqual([{ status: 5 }, 1]);
  expect(measured.slice(1).map(namesOf)).toEqual(Array(measured.length - 1).fill(answering));
  expect(measured.length).toBeGreaterThan(5);
  hanging.resolve();
  await clock.advance(11_000);
  expect(Object.keys(measured.at(-1) ?? {})).toContain("nodefs.available");
  stop.abort();
  await ended;
});

test("a slow file system is measured, too", async () => {
  const { clock, stop, measured, left, observer } = createFixture();
  left.before = () => new Promise((resolve) => void clock.wakeAt(clock.now() + 3_000, resolve));
  const ended = observer.run(stop.signal);
  await clock.advance(1_000);
  expect(measured.map(namesOf)).toEqual([["memory.available"]]);
  await clock.advance(60_000);
  const isWhole = (found: SignalObservations) => "nodefs.available" in found && "imagefs.available" in found;
  expect(measured.slice(1).every(isWhole)).toBe(true);
  stop.abort();
  await ended;
});

test("the images are not listed where nothing reads them; signals and runtime are read every ten seconds", async () => {
  const { clock, stop, measured, observer, takeCalls } = createFixture({ needsImages: false });
  await observer.observe(1_000);
  const ended = observer.run(stop.signal);
  await clock.advance(35_000);
  expect(measured.map(namesOf)).toEqual(
    Array(4).fill([
      "memory.available",
      "nodefs.available",
      "nodefs.inodesFree",
      "imagefs.available",
      "imagefs.inodesFree",
    ]),
  );
  expect(takeCalls()).toEqual({ imageFsInfo: 1, status: 5, version: 1 });
  stop.abort();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});

test("without a threshold nothing is measured", async () => {
  const { clock, stop, measured, observer, takeCalls } = createFixture({ needsImages: false, signals: [] });
  const ended = observer.run(stop.signal);
  await clock.advance(25_000);
  expect([measured, takeCalls()]).toEqual([[], { status: 3, version: 1 }]);
  stop.abort();
  await ended;
  expect(clock.pendingTimers).toBe(0);
});
