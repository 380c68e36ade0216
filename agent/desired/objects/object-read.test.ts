// The strategies `Cache` and `Get`: when an object is read, and for which pods it counts as too old.
import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { configMaps } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ChangeDetectionStrategy } from "../../../proto/kubelet/config.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createReferencedObjectCache } from "./secrets-and-configmaps.ts";

const uid = (name: string) => name as PodUid;
const KEY = "configmap shop/site";

/** A pod that uses the ConfigMap `site`, in a volume or in its environment. */
function podOf(use: "volume" | "environment"): Pod {
  const envFrom = use === "environment" ? [{ configMapRef: { name: "site" } }] : [];
  const volumes = use === "volume" ? [{ name: "v", configMap: { name: "site" } }] : [];
  return { metadata: { name: "web", namespace: "shop" }, spec: { containers: [{ name: "a", envFrom }], volumes } };
}

function createFixture(strategy: ChangeDetectionStrategy, ttlMs = 60_000) {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const reported: string[] = [];
  const reads: string[] = [];
  const get: FakeKube["get"] = (resource, name, options) => {
    reads.push(`${Math.round(clock.monotonicMs() / 1000)}s${options?.isFromCache === true ? " from the cache" : ""}`);
    return kube.get(resource, name, options);
  };
  const { listAndWatch, subscribeToRecovery } = kube;
  const references = createReferencedObjectCache({
    kube: { get, listAndWatch, subscribeToRecovery },
    clock,
    log,
    changeDetection: { strategy, ttlMs: () => ttlMs, syncFrequencyMs: 60_000, random: () => 0 },
    onChange: (pod, key) => void reported.push(`${pod}: ${key}`),
    onUnchanged: (pod) => void reported.push(`${pod}: unchanged`),
  });
  const end = new AbortController();
  const ended = references.run(end.signal);
  const put = async (colour: string) => {
    const site = { metadata: { name: "site", namespace: "shop" }, data: { colour } };
    const { items } = await kube.user.list(configMaps("shop"), {});
    await (items.length === 0
      ? kube.user.create(configMaps("shop"), site)
      : kube.user.replace(configMaps("shop"), site));
  };
  const take = async (texts: string[]) => {
    await settlePromises();
    return texts.splice(0);
  };
  return {
    ...{ clock, kube, log, references, put },
    reads: () => take(reads),
    reported: () => take(reported),
    isSettled: () => references.settledKeys().has(KEY),
    shown() {
      const found = references.latest().get(KEY);
      return found === undefined || found === "absent" ? found : found.data["colour"];
    },
    async stop() {
      end.abort();
      await ended;
    },
  };
}

for (const strategy of ["Cache", "Get"] as const) {
  test(`${strategy}: an object is read for each new pod, and never watched`, async () => {
    const { kube, clock, references, put, reads, reported, shown } = createFixture(strategy);
    await put("blue");
    references.retain(uid("a"), podOf("environment"));
    expect([await reads(), await reported(), shown()]).toEqual([["0s"], [`a: ${KEY}`], "blue"]);
    await clock.advance(1_000);
    await put("red");
    references.retain(uid("b"), podOf("environment"));
    expect(references.settledKeys().has(KEY)).toBe(false);
    expect(await reported()).toEqual([`a: ${KEY}`, `b: ${KEY}`]);
    expect([(await reads()).length, shown(), kube.openWatches]).toEqual([1, "red", 0]);
  });

  test(`${strategy}: while pods run, and none of them has it in a volume, nothing is read`, async () => {
    const { clock, references, put, reads } = createFixture(strategy);
    await put("blue");
    references.retain(uid("a"), podOf("environment"));
    expect(await reads()).toEqual(["0s"]);
    await clock.advance(3_600_000);
    expect(await reads()).toEqual([]);
  });

  test(`${strategy}: the content of a volume is read each minute until its pod ends, and only a change is reported`, async () => {
    const { clock, references, put, reads, reported, shown } = createFixture(strategy);
    await put("blue");
    references.retain(uid("a"), podOf("volume"));
    expect(await reported()).toEqual([`a: ${KEY}`]);
    await clock.advance(119_000);
    expect([(await reads()).length, await reported()]).toEqual([2, []]);
    await put("red");
    await clock.advance(1_000);
    expect([await reported(), shown()]).toEqual([[`a: ${KEY}`], "red"]);
    await reads();
    references.release(uid("a"));
    await clock.advance(600_000);
    expect(await reads()).toEqual([]);
  });

  test(`${strategy}: a missing object is asked for when its pod tries to start again`, async () => {
    const { clock, references, put, reads, reported, isSettled, shown } = createFixture(strategy);
    references.retain(uid("a"), podOf("environment"));
    expect([await reported(), isSettled(), shown()]).toEqual([[`a: ${KEY}`], true, "absent"]);
    await put("blue");
    await clock.advance(2_000);
    expect(isSettled()).toBe(false);
    await reads();
    references.onPodSynced(uid("a"));
    expect([await reads(), await reported(), isSettled(), shown()]).toEqual([["2s"], [`a: ${KEY}`], true, "blue"]);
  });

  test(`${strategy}: without an answer pods wait a second, and the object is read when the server returns`, async () => {
    const { clock, kube, references, put, reported, isSettled, shown } = createFixture(strategy);
    await put("blue");
    kube.before.get = () => new Promise(() => {});
    references.retain(uid("a"), podOf("environment"));
    await clock.advance(999);
    expect([await reported(), isSettled()]).toEqual([[], false]);
    await clock.advance(1);
    expect([await reported(), isSettled(), shown()]).toEqual([[`a: ${KEY}`], true, undefined]);
    kube.before = {};
    kube.goDown();
    await clock.advance(20_000);
    kube.comeBack();
    await reported();
    references.onPodSynced(uid("a"));
    await clock.advance(2_000);
    expect([await reported(), shown()]).toEqual([[`a: ${KEY}`], "blue"]);
  });

  test(`${strategy}: during an outage what was read last serves containers that start`, async () => {
    const { clock, kube, log, references, put, reported, isSettled, shown } = createFixture(strategy);
    await put("blue");
    references.retain(uid("a"), podOf("environment"));
    await clock.advance(600_000);
    kube.goDown();
    await reported();
    expect(isSettled()).toBe(false);
    references.onPodSynced(uid("a"));
    await clock.advance(1_000);
    expect([await reported(), isSettled(), shown()]).toEqual([["a: unchanged"], true, "blue"]);
    expect(log.lines).toEqual([]);
  });

  test(`${strategy}: a node that may not read the object yet asks again, and reports a lasting refusal once`, async () => {
    const { clock, kube, log, references, put, reported, shown } = createFixture(strategy);
    await put("blue");
    const refuse = () =>
      new KubeError("FORBIDDEN", "it is forbidden", { status: 403, serverMessage: "no relationship found" });
    kube.failures.get = [refuse(), refuse()];
    references.retain(uid("a"), podOf("environment"));
    await clock.advance(200);
    expect([await reported(), shown(), log.lines]).toEqual([[`a: ${KEY}`], "blue", []]);
    kube.failures.get = Array.from({ length: 100 }, refuse);
    references.release(uid("a"));
    references.retain(uid("b"), podOf("environment"));
    await clock.advance(5_000);
    references.onPodSynced(uid("b"));
    await clock.advance(5_000);
    expect(log.lines.map(({ message }) => message)).toEqual([
      "the configmap shop/site cannot be read from the API server: it is forbidden",
    ]);
    expect((await reported()).length).toBe(2);
    expect(references.failures()).toEqual(new Map([[KEY, "no relationship found"]]));
    kube.failures.get = [];
    references.onPodSynced(uid("b"));
    await clock.advance(1_000);
    expect([references.failures(), shown()]).toEqual([new Map(), "blue"]);
  });

  test(`${strategy}: nothing is reported after the end`, async () => {
    const { clock, kube, references, reported, reads, stop } = createFixture(strategy);
    kube.before.get = () => new Promise(() => {});
    references.retain(uid("a"), podOf("volume"));
    await reads();
    await stop();
    await clock.advance(600_000);
    expect([await reported(), await reads()]).toEqual([[], []]);
  });
}

test("Cache: an object serves containers until its time is over, and is then read from the API server's cache", async () => {
  const { clock, references, put, reads, reported, isSettled } = createFixture("Cache", 30_000);
  await put("blue");
  references.retain(uid("a"), podOf("environment"));
  expect([await reads(), await reported()]).toEqual([["0s"], [`a: ${KEY}`]]);
  await clock.advance(29_999);
  references.onPodSynced(uid("a"));
  expect([isSettled(), await reads()]).toEqual([true, []]);
  await clock.advance(1);
  expect(isSettled()).toBe(false);
  references.onPodSynced(uid("a"));
  references.onPodSynced(uid("a"));
  expect([await reads(), await reported(), isSettled()]).toEqual([["30s from the cache"], ["a: unchanged"], true]);
});

test("Cache: a volume's object is not read again before its time is over", async () => {
  const { clock, references, put, reads } = createFixture("Cache", 150_000);
  await put("blue");
  references.retain(uid("a"), podOf("volume"));
  await clock.advance(400_000);
  expect(await reads()).toEqual(["0s", "180s from the cache", "360s from the cache"]);
});

test("Get: each start of a container reads the object, all steps of one start together", async () => {
  const { clock, references, put, reads, isSettled } = createFixture("Get");
  await put("blue");
  references.retain(uid("a"), podOf("environment"));
  expect(await reads()).toEqual(["0s"]);
  await clock.advance(1_900);
  references.onPodSynced(uid("a"));
  expect([isSettled(), await reads()]).toEqual([true, []]);
  await clock.advance(100);
  expect(isSettled()).toBe(false);
  references.onPodSynced(uid("a"));
  expect([await reads(), isSettled()]).toEqual([["2s"], true]);
});
