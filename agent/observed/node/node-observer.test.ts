import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { Image } from "../../../proto/cri/gen/api.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createSupplies, observedMachine } from "../../../test/fakes/observed-node.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import type { Supplies } from "../../decide/node/observed-node.ts";
import { createNodeObserver } from "./node-observer.ts";

function createScene() {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  const stop = new AbortController();
  const told: string[] = [];
  const measured: Supplies[] = [];
  const { left, ...supplies } = createSupplies();
  const observer = createNodeObserver({
    runtime,
    ...supplies,
    signals: new Set(["memory.available", "nodefs.available", "imagefs.inodesFree"]),
    machine: observedMachine,
    addresses: () => ["192.0.2.1"],
    clock,
    log: new FakeLog(),
    askEveryMs: 10_000,
    measured: (found) => void measured.push(found),
    changed() {
      const { runtime: seen, images } = observer.now();
      const conditions = seen.conditions?.filter(({ status }) => status).map(({ type }) => type) ?? ["unknown"];
      const names = images?.flatMap(({ tags }) => tags) ?? ["unknown"];
      told.push(`${clock.elapsedMs} ms ${seen.isReady ? "ready" : "not ready"}: ${conditions}; images ${names}`);
    },
  });
  const asked = () => {
    const calls = runtime.calls.splice(0).map((call) => call.trim());
    return Object.fromEntries(
      Map.groupBy(calls, (call) => call)
        .entries()
        .map(([call, all]) => [call, all.length]),
    );
  };
  const silent = () => new CriError("UNAVAILABLE", "status", "the runtime is down");
  return { clock, runtime, stop, told, measured, left, observer, asked, silent };
}

test("a runtime that is well is asked every ten seconds, and nothing is told when it says the same", async () => {
  const { clock, runtime, stop, told, observer, asked } = createScene();
  runtime.addImage("a:1");
  const ended = observer.follow(stop.signal);
  await clock.advance(65_000);
  expect(told).toEqual(["0 ms not ready: unknown; images a:1", "0 ms ready: RuntimeReady,NetworkReady; images a:1"]);
  expect(asked()).toEqual({ status: 7, version: 1, listImages: 1, imageFsInfo: 1 });
  expect(observer.now().runtime).toMatchObject({ name: "fake", version: "1.0.0", readyAt: FakeClock.start + 60_000 });
  stop.abort();
  await ended;
  expect(clock.timers).toBe(0);
});

test("a runtime that is not ready is asked often, then less and less", async () => {
  const { clock, runtime, stop, told, observer, asked } = createScene();
  runtime.conditions = { RuntimeReady: true, NetworkReady: false };
  const ended = observer.follow(stop.signal);
  await clock.advance(1_600);
  // After 0.1, 0.3, 0.7 and 1.5 s.
  expect(asked()).toMatchObject({ status: 5 });
  await clock.advance(60_000);
  expect(asked()["status"]).toBeWithin(12, 15);
  runtime.conditions = { RuntimeReady: true, NetworkReady: true };
  await clock.advance(5_000);
  expect(told.map((line) => line.replace(/^\d+ ms /, "").replace(/; .*/, ""))).toEqual([
    "not ready: unknown",
    "ready: RuntimeReady",
    "ready: RuntimeReady,NetworkReady",
  ]);
  stop.abort();
  await ended;
});

test("what a runtime said stands while it is silent, but that it is ready; after that it is asked for its name anew", async () => {
  const { clock, runtime, stop, told, observer, asked, silent } = createScene();
  const ended = observer.follow(stop.signal);
  await rest();
  asked();
  runtime.failures = { status: [silent(), silent()] };
  observer.doubtRuntime();
  await rest();
  expect(observer.now().runtime).toMatchObject({
    isReady: false,
    name: "fake",
    readyAt: FakeClock.start,
    conditions: [{ type: "RuntimeReady", status: true }, { type: "NetworkReady" }],
  });
  await clock.advance(400);
  expect(asked()).toEqual({ status: 3, version: 2 });
  expect(told.map((line) => line.replace(/:.*/, "")).slice(-2)).toEqual(["0 ms not ready", "300 ms ready"]);
  stop.abort();
  await ended;
});

test("images are listed when there is a reason to, and twice a minute at most", async () => {
  const { clock, runtime, stop, told, observer, asked } = createScene();
  const ended = observer.follow(stop.signal);
  await rest();
  told.length = 0;
  runtime.addImage("a:1");
  for (let count = 0; count < 100; count += 1) observer.doubtImages();
  await clock.advance(29_000);
  expect(told).toEqual([]);
  await clock.advance(1_000);
  expect(told).toEqual(["30000 ms ready: RuntimeReady,NetworkReady; images a:1"]);
  await clock.advance(300_000);
  expect(asked()["listImages"]).toBe(2);
  runtime.failures = { listImages: [new CriError("UNAVAILABLE", "listImages", "away")] };
  runtime.addImage("b:1");
  observer.doubtImages();
  await clock.advance(30_000);
  expect(told.at(-1)).toEndWith("images a:1,b:1");
  stop.abort();
  await ended;
  expect(clock.timers).toBe(0);
});

test("names of an image that come in another order are no news", async () => {
  const { clock, runtime, stop, told, observer } = createScene();
  const listed = (...repoTags: readonly string[]) =>
    runtime.images.set("a", Image.fromPartial({ id: "sha256:a", repoTags: [...repoTags], size: 1n }));
  listed("a:1", "b:1");
  const ended = observer.follow(stop.signal);
  await rest();
  told.length = 0;
  listed("b:1", "a:1");
  observer.doubtImages();
  await clock.advance(31_000);
  expect(told).toEqual([]);
  stop.abort();
  await ended;
});

test("asking once answers also where the runtime does not", async () => {
  const { runtime, observer, told, silent } = createScene();
  runtime.failures = { status: [silent()] };
  await observer.look();
  expect([observer.now().runtime.isReady, observer.now().runtime.conditions, told]).toEqual([false, undefined, []]);
  await observer.look();
  expect(observer.now().runtime.isReady).toBe(true);
});

test("what the node has left is measured every ten seconds, as far as it can be, and as far as anybody wants to know", async () => {
  const { clock, runtime, stop, measured, left, observer, asked, silent } = createScene();
  runtime.failures = { imageFsInfo: [silent()], status: Array.from({ length: 9 }, silent) };
  await observer.look();
  const memory = { capacity: 8 * 2 ** 30, available: 6 * 2 ** 30 };
  const bytes = { capacity: 100e9, available: 50e9 };
  const inodes = { capacity: 1e6, available: 5e5 };
  const nodefs = { "nodefs.available": bytes, "nodefs.inodesFree": inodes };
  const imagefs = { "imagefs.available": bytes, "imagefs.inodesFree": inodes };
  expect(measured).toEqual([{ "memory.available": memory, ...nodefs }]);
  const ended = observer.follow(stop.signal);
  await clock.advance(31_000);
  expect(measured.slice(1)).toEqual(Array(2).fill({ "memory.available": memory, ...nodefs, ...imagefs }));
  left.spaces.clear();
  observer.doubtRuntime();
  await clock.advance(20_000);
  expect(measured.at(-1)).toEqual({ "memory.available": memory });
  // Another runtime may keep its images elsewhere.
  expect(asked()).toMatchObject({ imageFsInfo: 3 });
  stop.abort();
  await ended;
});

/** What of it was measured. */
const namesOf = (found: Supplies) => Object.keys(found).filter((name) => found[name] !== undefined);

test("a file system that hangs keeps nobody from asking the runtime, and no other signal from being measured; it is not asked again", async () => {
  const { clock, stop, measured, left, observer, asked } = createScene();
  const hanging = Promise.withResolvers<void>();
  let times = 0;
  left.before = async (path) => {
    if (path !== "/var/lib/kubelet") return;
    times += 1;
    await hanging.promise;
  };
  const looked = observer.look(1_000);
  await clock.advance(1_000);
  await looked;
  const answering = ["memory.available", "imagefs.available", "imagefs.inodesFree"];
  expect(measured.map(namesOf)).toEqual([answering]);
  asked();
  const ended = observer.follow(stop.signal);
  await clock.advance(9_000);
  asked();
  await clock.advance(50_000);
  expect([asked(), times]).toEqual([{ status: 5 }, 1]);
  expect(measured.slice(1).map(namesOf)).toEqual(Array(measured.length - 1).fill(answering));
  expect(measured.length).toBeGreaterThan(5);
  hanging.resolve();
  await clock.advance(11_000);
  expect(Object.keys(measured.at(-1) ?? {})).toContain("nodefs.available");
  stop.abort();
  await ended;
});

test("a file system that is slow is measured all the same", async () => {
  const { clock, stop, measured, left, observer } = createScene();
  left.before = () => new Promise((resolve) => void clock.wakeAt(clock.now() + 3_000, resolve));
  const ended = observer.follow(stop.signal);
  await clock.advance(1_000);
  expect(measured.map(namesOf)).toEqual([["memory.available"]]);
  await clock.advance(60_000);
  const isWhole = (found: Supplies) => "nodefs.available" in found && "imagefs.available" in found;
  expect(measured.slice(1).every(isWhole)).toBe(true);
  stop.abort();
  await ended;
});
