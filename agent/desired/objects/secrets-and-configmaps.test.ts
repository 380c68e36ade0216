import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { configMaps, secrets } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createReferencedObjectCache } from "./secrets-and-configmaps.ts";

const uid = (name: string) => name as PodUid;

/** A pod whose environment refers to these Secrets and ConfigMaps: `s/login`, `c/site`. */
function podOf(...names: readonly string[]): Pod {
  const envFrom = names.map((each) => {
    const [kind, name = ""] = each.split("/");
    return kind === "s" ? { secretRef: { name } } : { configMapRef: { name } };
  });
  const spec: PodSpec = { containers: [{ name: "a", envFrom }] };
  return { metadata: { name: "web", namespace: "shop" }, spec };
}

function createFixture() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const reported: string[] = [];
  const references = createReferencedObjectCache({
    kube,
    clock,
    log,
    changeDetection: { strategy: "Watch", ttlMs: () => 0, syncFrequencyMs: 60_000, random: () => 0 },
    onChange: (pod, key) => reported.push(`${pod}: ${key}`),
    onUnchanged: (pod) => reported.push(`${pod}: unchanged`),
  });
  const end = new AbortController();
  const followed = references.run(end.signal);
  const stop = async () => {
    end.abort();
    await followed;
  };
  const make = async (name: string, more: object = {}) => {
    const metadata = { name, namespace: "shop" };
    await kube.user.create(secrets("shop"), { metadata, data: { k: "dg==" }, ...more });
    await settlePromises();
  };
  const update = async () => {
    await settlePromises();
    return reported.splice(0);
  };
  const known = () =>
    [...references.latest()].map(
      ([key, object]) => `${key}: ${object === "absent" ? object : JSON.stringify(object.data)}`,
    );
  return { clock, kube, log, references, make, update, known, stop };
}

test("each object is watched from its first pod on, and every change is reported", async () => {
  const { kube, references, make, update, known } = createFixture();
  await make("login");
  await make("others");
  references.retain(uid("a"), podOf("s/login", "c/site"));
  expect(await update()).toEqual(["a: secret shop/login", "a: configmap shop/site"]);
  expect(known()).toEqual(['secret shop/login: {"k":"dg=="}', "configmap shop/site: absent"]);
  expect(kube.calls).toEqual(["watch secrets/shop", "watch configmaps/shop"]);
  await kube.user.create(configMaps("shop"), {
    metadata: { name: "site", namespace: "shop" },
    data: { colour: "blue" },
  });
  expect(await update()).toEqual(["a: configmap shop/site"]);
  await kube.user.delete(secrets("shop"), "login");
  expect(await update()).toEqual(["a: secret shop/login"]);
  expect(known()).toEqual(["secret shop/login: absent", 'configmap shop/site: {"colour":"blue"}']);
});

test("pods share a watch, which ends with the last of them, and the object is dropped", async () => {
  const { kube, references, make, update, known } = createFixture();
  await make("login");
  for (const pod of ["a", "b"]) references.retain(uid(pod), podOf("s/login"));
  expect(await update()).toEqual(["a: secret shop/login", "b: secret shop/login"]);
  references.retain(uid("b"), podOf("s/login"));
  references.release(uid("a"));
  references.release(uid("a"));
  await settlePromises();
  expect([kube.calls, kube.openWatches, known().length]).toEqual([["watch secrets/shop"], 1, 1]);
  references.release(uid("b"));
  await settlePromises();
  expect([kube.openWatches, known(), references.settledKeys().size]).toEqual([0, [], 0]);
  references.retain(uid("c"), podOf("s/login"));
  expect(await update()).toEqual(["c: secret shop/login"]);
});

test("each object's version is known, also that it is absent, and a ConfigMap's binary values", async () => {
  const { clock, kube, references, make, update } = createFixture();
  await make("login");
  references.retain(uid("a"), podOf("s/login", "s/gone", "c/site"));
  const metadata = { name: "site", namespace: "shop" };
  const site = await kube.user.create(configMaps("shop"), { metadata, data: { k: "v" }, binaryData: { b: "/w==" } });
  await update();
  const { resourceVersion } = (await kube.user.get(secrets("shop"), "login")).metadata;
  expect([...references.versions()]).toEqual([
    ["secret shop/login", resourceVersion!],
    ["secret shop/gone", "absent"],
    ["configmap shop/site", site.metadata.resourceVersion!],
  ]);
  expect(references.latest().get("configmap shop/site")).toMatchObject({ data: { k: "v" }, binaryData: { b: "/w==" } });
  expect(references.latest().get("secret shop/login")).not.toHaveProperty("binaryData");
  kube.goDown();
  references.retain(uid("b"), podOf("s/late"));
  await clock.advance(2_000);
  expect([references.settledKeys().has("secret shop/late"), references.versions().has("secret shop/late")]).toEqual([
    true,
    false,
  ]);
  references.release(uid("a"));
  expect(references.versions().size).toBe(0);
});

test("a changed pod holds only the objects that it refers to now", async () => {
  const { kube, references, make, update, known } = createFixture();
  await make("old");
  await make("new");
  references.retain(uid("a"), podOf("s/old"));
  await update();
  references.retain(uid("a"), podOf("s/new"));
  expect(await update()).toEqual(["a: secret shop/new"]);
  expect([kube.openWatches, known().length]).toEqual([1, 1]);
});

test("an immutable object is read once and not watched", async () => {
  const { kube, references, make, update, known } = createFixture();
  await make("login", { immutable: true });
  references.retain(uid("a"), podOf("s/login"));
  expect(await update()).toEqual(["a: secret shop/login"]);
  expect([kube.openWatches, known().length]).toEqual([0, 1]);
});

test("the watch of an object that becomes immutable ends, and what it showed last stays", async () => {
  const { kube, references, make, update, known } = createFixture();
  await make("login");
  references.retain(uid("a"), podOf("s/login"));
  expect([await update(), kube.openWatches]).toEqual([["a: secret shop/login"], 1]);
  const metadata = { name: "login", namespace: "shop" };
  await kube.user.replace(secrets("shop"), { metadata, data: { k: "bGFzdA==" }, immutable: true });
  expect([await update(), kube.openWatches]).toEqual([["a: secret shop/login"], 0]);
  await kube.user.delete(secrets("shop"), "login");
  references.retain(uid("b"), podOf("s/login"));
  expect([await update(), kube.openWatches, known()]).toEqual([[], 0, ['secret shop/login: {"k":"bGFzdA=="}']]);
});

test("objects stay known during an outage, and an unchanged object is not reported after it", async () => {
  const { clock, kube, references, make, update, known, log } = createFixture();
  await make("login");
  references.retain(uid("a"), podOf("s/login"));
  await update();
  kube.goDown();
  await clock.advance(60_000);
  expect(known()).toEqual(['secret shop/login: {"k":"dg=="}']);
  kube.comeBack();
  await clock.advance(60_000);
  expect([await update(), log.lines]).toEqual([[], []]);
});

test("pods wait a second for an object that cannot be read, and it is reported when it is read", async () => {
  const { clock, kube, references, make, update } = createFixture();
  await make("login");
  kube.goDown();
  references.retain(uid("a"), podOf("s/login"));
  await clock.advance(999);
  expect([await update(), references.settledKeys().size]).toEqual([[], 0]);
  await clock.advance(1);
  expect([await update(), references.settledKeys().size, references.latest().size]).toEqual([
    ["a: secret shop/login"],
    1,
    0,
  ]);
  kube.comeBack();
  await clock.advance(2_000);
  expect([await update(), references.latest().size]).toEqual([["a: secret shop/login"], 1]);
});

test("a forbidden object is logged once, without its content", async () => {
  const { clock, kube, references, make, log } = createFixture();
  await make("login");
  const heal = kube.failAll(() => new KubeError("FORBIDDEN", "secrets are forbidden", { status: 403 }));
  references.retain(uid("a"), podOf("s/login"));
  await clock.advance(120_000);
  heal();
  await clock.advance(60_000);
  expect(log.lines.map(({ message }) => message)).toEqual([
    "the secret shop/login cannot be read from the API server: secrets are forbidden",
    "the secret shop/login is read from the API server",
  ]);
});

test("no request is sent before run, or after its end", async () => {
  const { kube, references, stop, update } = createFixture();
  references.retain(uid("a"), podOf("s/login"));
  await update();
  await stop();
  expect(kube.openWatches).toBe(0);
  references.retain(uid("b"), podOf("s/other"));
  await settlePromises();
  expect(kube.calls).toEqual(["watch secrets/shop"]);
});
