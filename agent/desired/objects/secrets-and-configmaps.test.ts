import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { configMaps, secrets } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createReferences } from "./secrets-and-configmaps.ts";

const uid = (name: string) => name as PodUid;

/** A pod whose environment is made of these Secrets and ConfigMaps: `s/login`, `c/site`. */
function podOf(...names: readonly string[]): Pod {
  const envFrom = names.map((each) => {
    const [kind, name = ""] = each.split("/");
    return kind === "s" ? { secretRef: { name } } : { configMapRef: { name } };
  });
  const spec: PodSpec = { containers: [{ name: "a", envFrom }] };
  return { metadata: { name: "web", namespace: "shop" }, spec };
}

function createScene() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const told: string[] = [];
  const references = createReferences({ kube, clock, log, news: (pod, key) => told.push(`${pod}: ${key}`) });
  const end = new AbortController();
  const followed = references.follow(end.signal);
  const stop = async () => {
    end.abort();
    await followed;
  };
  const make = async (name: string, more: object = {}) => {
    const metadata = { name, namespace: "shop" };
    await kube.user.create(secrets("shop"), { metadata, data: { k: "dg==" }, ...more });
    await rest();
  };
  const news = async () => {
    await rest();
    return told.splice(0);
  };
  const known = () =>
    [...references.latest()].map(
      ([key, object]) => `${key}: ${object === "absent" ? object : JSON.stringify(object.data)}`,
    );
  return { clock, kube, log, references, make, news, known, stop };
}

test("what a pod refers to is read with its first pod, each by a watch of its own, and every change is told", async () => {
  const { kube, references, make, news, known } = createScene();
  await make("login");
  await make("others");
  references.wanted(uid("a"), podOf("s/login", "c/site"));
  expect(await news()).toEqual(["a: secret shop/login", "a: configmap shop/site"]);
  expect(known()).toEqual(['secret shop/login: {"k":"dg=="}', "configmap shop/site: absent"]);
  expect(kube.calls).toEqual(["watch secrets/shop", "watch configmaps/shop"]);
  await kube.user.create(configMaps("shop"), {
    metadata: { name: "site", namespace: "shop" },
    data: { colour: "blue" },
  });
  expect(await news()).toEqual(["a: configmap shop/site"]);
  await kube.user.delete(secrets("shop"), "login");
  expect(await news()).toEqual(["a: secret shop/login"]);
  expect(known()).toEqual(["secret shop/login: absent", 'configmap shop/site: {"colour":"blue"}']);
});

test("pods share a watch, which ends with the last of them, and nothing is kept", async () => {
  const { kube, references, make, news, known } = createScene();
  await make("login");
  for (const pod of ["a", "b"]) references.wanted(uid(pod), podOf("s/login"));
  expect(await news()).toEqual(["a: secret shop/login", "b: secret shop/login"]);
  references.wanted(uid("b"), podOf("s/login"));
  references.released(uid("a"));
  references.released(uid("a"));
  await rest();
  expect([kube.calls, kube.watches, known().length]).toEqual([["watch secrets/shop"], 1, 1]);
  references.released(uid("b"));
  await rest();
  expect([kube.watches, known(), references.answered().size]).toEqual([0, [], 0]);
  references.wanted(uid("c"), podOf("s/login"));
  expect(await news()).toEqual(["c: secret shop/login"]);
});

test("a pod that becomes another one refers to what it says now", async () => {
  const { kube, references, make, news, known } = createScene();
  await make("old");
  await make("new");
  references.wanted(uid("a"), podOf("s/old"));
  await news();
  references.wanted(uid("a"), podOf("s/new"));
  expect(await news()).toEqual(["a: secret shop/new"]);
  expect([kube.watches, known().length]).toEqual([1, 1]);
});

test("what is immutable is read once, and is watched no more", async () => {
  const { kube, references, make, news, known } = createScene();
  await make("login", { immutable: true });
  references.wanted(uid("a"), podOf("s/login"));
  expect(await news()).toEqual(["a: secret shop/login"]);
  expect([kube.watches, known().length]).toEqual([0, 1]);
});

test("what was read is known while the API server is away, and is no news when it is back", async () => {
  const { clock, kube, references, make, news, known, log } = createScene();
  await make("login");
  references.wanted(uid("a"), podOf("s/login"));
  await news();
  kube.goDown();
  await clock.advance(60_000);
  expect(known()).toEqual(['secret shop/login: {"k":"dg=="}']);
  kube.comeBack();
  await clock.advance(60_000);
  expect([await news(), log.lines]).toEqual([[], []]);
});

test("what cannot be read is waited for a second, and is told when it is there", async () => {
  const { clock, kube, references, make, news } = createScene();
  await make("login");
  kube.goDown();
  references.wanted(uid("a"), podOf("s/login"));
  await clock.advance(999);
  expect([await news(), references.answered().size]).toEqual([[], 0]);
  await clock.advance(1);
  expect([await news(), references.answered().size, references.latest().size]).toEqual([
    ["a: secret shop/login"],
    1,
    0,
  ]);
  kube.comeBack();
  await clock.advance(2_000);
  expect([await news(), references.latest().size]).toEqual([["a: secret shop/login"], 1]);
});

test("an object that we may not read is told in the log, once, without what is in it", async () => {
  const { clock, kube, references, make, log } = createScene();
  await make("login");
  const heal = kube.refuse(() => new KubeError("FORBIDDEN", "secrets are forbidden", { status: 403 }));
  references.wanted(uid("a"), podOf("s/login"));
  await clock.advance(120_000);
  heal();
  await clock.advance(60_000);
  expect(log.lines.map(({ message }) => message)).toEqual([
    "the secret shop/login cannot be read from the API server: secrets are forbidden",
    "the secret shop/login is read from the API server",
  ]);
});

test("nothing is asked before it is followed, nor after its end", async () => {
  const { kube, references, stop, news } = createScene();
  references.wanted(uid("a"), podOf("s/login"));
  await news();
  await stop();
  expect(kube.watches).toBe(0);
  references.wanted(uid("b"), podOf("s/other"));
  await rest();
  expect(kube.calls).toEqual(["watch secrets/shop"]);
});
