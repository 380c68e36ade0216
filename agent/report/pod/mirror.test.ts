import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { createMirrorPods } from "./mirror.ts";

const wanted = (name: string, uid: string): DesiredPod => ({
  uid: uid as PodUid,
  pod: {
    metadata: { uid, name, namespace: "shop", annotations: { "kubernetes.io/config.hash": uid } },
    spec: { containers: [{ name: "a", image: "busybox:1" }], nodeName: "n" },
  },
  source: { kind: "file", path: "/m" },
  acceptedAt: 1,
  revision: 0,
});

/** A node `n` with static pods, whose pods in the API are followed. */
async function createScene() {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock });
  const desired = new Map<string, DesiredPod>();
  const made: (string | undefined)[] = [];
  const mirrors = createMirrorPods({
    kube,
    nodeName: "n",
    clock,
    log,
    desired: () => desired.values(),
    isComplete: () => true,
    made: ({ metadata }) => made.push(metadata.name),
  });
  const end = new AbortController();
  const listener = {
    replaced(all: readonly Pod[], resourceVersion: string, hasGoneBack: boolean) {
      for (const pod of all) mirrors.seen(pod, { resourceVersion, hasGoneBack });
      mirrors.complete();
    },
    changed: (kind: string, pod: Pod) => (kind === "deleted" ? mirrors.gone(pod) : mirrors.seen(pod)),
    away: () => {},
    back: mirrors.back,
  };
  const start = async () => {
    void kube.follow(pods(), { fieldSelector: "spec.nodeName=n" }, listener, end.signal);
    await rest();
  };
  const want = async (...all: readonly DesiredPod[]) => {
    desired.clear();
    for (const each of all) desired.set(each.uid, each);
    mirrors.look();
    await rest();
  };
  const shown = async () =>
    (await kube.user.list(pods(), {})).items.map(
      ({ metadata }) => `${metadata.name}#${metadata.annotations?.["kubernetes.io/config.mirror"]}`,
    );
  const told = () => kube.calls.splice(0).filter((call) => !call.startsWith("watch") && !call.startsWith("list"));
  return { clock, log, kube, mirrors, made, start, want, shown, told, end: () => end.abort() };
}

test("a mirror is made when the node is there and what the API has was seen, and once", async () => {
  const { mirrors, made, start, want, shown, told } = await createScene();
  await want(wanted("web", "1"));
  mirrors.node("node-uid");
  await rest();
  expect(await shown()).toEqual([]);
  await start();
  expect([await shown(), made]).toEqual([["web#1"], ["web"]]);
  mirrors.look();
  await rest();
  expect(told()).toEqual(["create pods/shop"]);
});

test("deleting a mirror brings it back, after a moment for whoever waits until it is gone", async () => {
  const { clock, kube, mirrors, start, want, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  told();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await rest();
  expect(await shown()).toEqual(["web#1"]);
  const { timers } = clock;
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await clock.advance(900);
  expect(await shown()).toEqual([]);
  await clock.advance(200);
  expect([await shown(), clock.timers]).toEqual([["web#1"], timers]);
  expect(told()).toEqual(["create pods/shop", "delete pods/shop/web", "create pods/shop"]);
});

test("a manifest that changes has another mirror, and one that is gone has none", async () => {
  const { mirrors, start, want, shown } = await createScene();
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  await want(wanted("web", "2"));
  expect(await shown()).toEqual(["web#2"]);
  await want();
  expect(await shown()).toEqual([]);
});

test("a mirror that was on its way out before the server was restored from a backup is seen to be there", async () => {
  const { clock, kube, mirrors, start, want, shown, end } = await createScene();
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  const finalizers = ["example.com/hold"];
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { finalizers } } });
  const restore = kube.backup();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await rest();
  restore();
  for (let minute = 0; minute < 10; minute += 1) await clock.advance(60_000);
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { finalizers: null } } });
  await want(wanted("web", "2"));
  expect(await shown()).toEqual(["web#2"]);
  mirrors.stop();
  end();
});

test("a mirror that an API server which lags behind does not find is removed all the same, once it does", async () => {
  const { clock, kube, log, mirrors, start, want, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  told();
  kube.failures = { delete: [new KubeError("NOT_FOUND", 'pods "web" not found', { status: 404 })] };
  await want(wanted("web", "2"));
  expect(told().slice(0, 2)).toEqual(["delete pods/shop/web", "get pods/shop/web"]);
  await clock.advance(10_000);
  expect([await shown(), log.told()]).toEqual([["web#2"], []]);
});

test("a mirror whose making is answered by what is no pod is known when its watch shows it", async () => {
  const { clock, kube, mirrors, made, start, want, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  const { create } = kube;
  kube.create = async (resource, object, options) => {
    const answer = await create(resource, object, options);
    return answer.metadata.name === "odd" ? { ...answer, spec: { containers: 7 } } : answer;
  };
  await want(wanted("odd", "1"), wanted("web", "2"));
  expect([await shown(), made]).toEqual([["odd#1", "web#2"], ["web"]]);
  told();
  await clock.advance(60_000);
  await want();
  expect([await shown(), told()]).toEqual([[], ["delete pods/shop/odd", "delete pods/shop/web"]]);
});

test("in an outage it is tried again, and at once when it is over", async () => {
  const { clock, kube, log, mirrors, start, want, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  kube.failures = { create: Array.from({ length: 20 }, () => new KubeError("UNREACHABLE", "refused")) };
  await want(wanted("web", "1"));
  await clock.advance(10_000);
  expect(told().length).toBeLessThan(12);
  kube.failures = {};
  mirrors.back();
  await rest();
  expect([await shown(), log.told()]).toEqual([["web#1"], []]);
});

test("a mirror that is refused is asked for less and less often, said once, and holds up no other", async () => {
  const { clock, kube, log, mirrors, start, want, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  let isRefused = true;
  kube.before.create = () => {
    if (isRefused) throw new KubeError("FORBIDDEN", "no", { status: 403 });
  };
  await want(wanted("web", "1"));
  told();
  await clock.advance(900);
  mirrors.look();
  await rest();
  expect(told()).toHaveLength(0);
  await clock.advance(299_100);
  expect(told()).toHaveLength(9);
  isRefused = false;
  await want(wanted("web", "1"), wanted("db", "2"));
  expect(await shown()).toEqual(["db#2"]);
  await clock.advance(60_000);
  expect((await shown()).toSorted()).toEqual(["db#2", "web#1"]);
  expect(log.told()).toHaveLength(1);
});

test("a mirror that an API server refuses right after its start is there a second later", async () => {
  const { clock, kube, mirrors, start, want, shown } = await createScene();
  mirrors.node("node-uid");
  await start();
  kube.failures = { create: [new KubeError("FORBIDDEN", "not yet", { status: 403 })] };
  await want(wanted("web", "1"));
  await clock.advance(1_000);
  expect(await shown()).toEqual(["web#1"]);
});

test("a name that another pod has is left to it until it is free", async () => {
  const { kube, mirrors, start, want, shown, told } = await createScene();
  const spec = { containers: [{ name: "a", image: "i" }], nodeName: "n" };
  await kube.user.create(pods("shop"), { metadata: { name: "web", namespace: "shop" }, spec });
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  expect([await shown(), told()]).toEqual([["web#undefined"], ["create pods/shop"]]);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await rest();
  expect(await shown()).toEqual(["web#1"]);
});

test("a name that a pod elsewhere has, of which no watch tells, is asked for again and told of once", async () => {
  const { clock, kube, log, mirrors, start, want, shown, told } = await createScene();
  const spec = { containers: [{ name: "a", image: "i" }] };
  await kube.user.create(pods("shop"), { metadata: { name: "web", namespace: "shop" }, spec });
  mirrors.node("node-uid");
  await start();
  await want(wanted("web", "1"));
  await clock.advance(300_000);
  expect([told().length, log.told()]).toEqual([10, ["warn: a static pod cannot be shown in the API"]]);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await clock.advance(60_000);
  expect(await shown()).toEqual(["web#1"]);
});

test("a name that turns out to be our own mirror's is no trouble", async () => {
  const { clock, kube, log, mirrors, want, start, shown, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  const { timers } = clock;
  kube.after.create = () => {
    throw new KubeError("ALREADY_EXISTS", "pods web already exists", { status: 409 });
  };
  await want(wanted("web", "1"));
  expect([await shown(), log.told(), told(), clock.timers]).toEqual([["web#1"], [], ["create pods/shop"], timers]);
});

test("what was refused is forgotten with its manifest", async () => {
  const { clock, kube, log, mirrors, start, want, told } = await createScene();
  mirrors.node("node-uid");
  await start();
  const { timers } = clock;
  kube.before.create = () => {
    throw new KubeError("FORBIDDEN", "no", { status: 403 });
  };
  await want(wanted("web", "1"));
  await clock.advance(60_000);
  await want();
  expect([clock.timers, log.told().length]).toEqual([timers, 1]);
  told();
  await want(wanted("web", "1"));
  await clock.advance(1_000);
  expect([told().length, log.told().length]).toEqual([2, 1]);
});

test("who has stopped leaves no timer", async () => {
  const { clock, kube, mirrors, start, want, end } = await createScene();
  mirrors.node("node-uid");
  await start();
  kube.failures = { create: [new KubeError("UNREACHABLE", "refused")] };
  await want(wanted("web", "1"));
  mirrors.stop();
  end();
  await mirrors.settled();
  await rest();
  expect(clock.timers).toBe(0);
});
