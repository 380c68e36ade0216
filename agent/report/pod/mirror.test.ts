import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { createMirrorPods } from "./mirror.ts";

const desiredPod = (name: string, uid: string): DesiredPod => ({
  uid: uid as PodUid,
  pod: {
    metadata: { uid, name, namespace: "shop", annotations: { "kubernetes.io/config.hash": uid } },
    spec: { containers: [{ name: "a", image: "busybox:1" }], nodeName: "n" },
  },
  source: { kind: "file", path: "/m" },
  acceptedAt: 1,
  revision: 0,
});

/** A node `n` with static pods, and a watch of its pods in the API. */
async function createFixture() {
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
    areSourcesReady: () => true,
    onCreated: ({ metadata }) => made.push(metadata.name),
  });
  const end = new AbortController();
  const listener = {
    onReplaced(all: readonly Pod[], resourceVersion: string, isRolledBack: boolean) {
      for (const pod of all) mirrors.onObserved(pod, { resourceVersion, isRolledBack });
      mirrors.onListed();
    },
    onChanged: (kind: string, pod: Pod) => (kind === "deleted" ? mirrors.onDeleted(pod) : mirrors.onObserved(pod)),
    onOutage: () => {},
    onRecovered: mirrors.onRecovered,
  };
  const start = async () => {
    void kube.listAndWatch(pods(), { fieldSelector: "spec.nodeName=n" }, listener, end.signal);
    await settlePromises();
  };
  const setDesired = async (...all: readonly DesiredPod[]) => {
    desired.clear();
    for (const each of all) desired.set(each.uid, each);
    mirrors.reconcile();
    await settlePromises();
  };
  const shown = async () =>
    (await kube.user.list(pods(), {})).items.map(
      ({ metadata }) => `${metadata.name}#${metadata.annotations?.["kubernetes.io/config.mirror"]}`,
    );
  const requests = () => kube.calls.splice(0).filter((call) => !call.startsWith("watch") && !call.startsWith("list"));
  return {
    clock,
    log,
    kube,
    mirrors,
    made,
    start,
    setDesired,
    shown,
    requests,
    end: () => end.abort(),
  };
}

test("a mirror is created once, after the node exists and the pods were listed", async () => {
  const { mirrors, made, start, setDesired, shown, requests } = await createFixture();
  await setDesired(desiredPod("web", "1"));
  mirrors.setNodeUid("node-uid");
  await settlePromises();
  expect(await shown()).toEqual([]);
  await start();
  expect([await shown(), made]).toEqual([["web#1"], ["web"]]);
  mirrors.reconcile();
  await settlePromises();
  expect(requests()).toEqual(["create pods/shop"]);
});

test("a deleted mirror is created again, after a second for clients that wait for its deletion", async () => {
  const { clock, kube, mirrors, start, setDesired, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  requests();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await settlePromises();
  expect(await shown()).toEqual(["web#1"]);
  const { pendingTimers } = clock;
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await clock.advance(900);
  expect(await shown()).toEqual([]);
  await clock.advance(200);
  expect([await shown(), clock.pendingTimers]).toEqual([["web#1"], pendingTimers]);
  expect(requests()).toEqual(["create pods/shop", "delete pods/shop/web", "create pods/shop"]);
});

test("a changed manifest gets a new mirror, and a removed one loses its mirror", async () => {
  const { mirrors, start, setDesired, shown } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  await setDesired(desiredPod("web", "2"));
  expect(await shown()).toEqual(["web#2"]);
  await setDesired();
  expect(await shown()).toEqual([]);
});

test("a mirror that was being deleted before the server was restored from a backup is kept", async () => {
  const { clock, kube, mirrors, start, setDesired, shown, end } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  const finalizers = ["example.com/hold"];
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { finalizers } } });
  const restore = kube.takeSnapshot();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await settlePromises();
  restore();
  for (let minute = 0; minute < 10; minute += 1) await clock.advance(60_000);
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { finalizers: null } } });
  await setDesired(desiredPod("web", "2"));
  expect(await shown()).toEqual(["web#2"]);
  mirrors.stop();
  end();
});

test("a mirror that a lagging API server does not find at first is deleted later", async () => {
  const { clock, kube, log, mirrors, start, setDesired, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  requests();
  kube.failures = { delete: [new KubeError("NOT_FOUND", 'pods "web" not found', { status: 404 })] };
  await setDesired(desiredPod("web", "2"));
  expect(requests().slice(0, 2)).toEqual(["delete pods/shop/web", "get pods/shop/web"]);
  await clock.advance(10_000);
  expect([await shown(), log.takeLines()]).toEqual([["web#2"], []]);
});

test("a mirror whose create response is invalid is known once the watch shows it", async () => {
  const { clock, kube, mirrors, made, start, setDesired, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  const { create } = kube;
  kube.create = async (resource, object, options) => {
    const answer = await create(resource, object, options);
    return answer.metadata.name === "odd" ? { ...answer, spec: { containers: 7 } } : answer;
  };
  await setDesired(desiredPod("odd", "1"), desiredPod("web", "2"));
  expect([await shown(), made]).toEqual([["odd#1", "web#2"], ["web"]]);
  requests();
  await clock.advance(60_000);
  await setDesired();
  expect([await shown(), requests()]).toEqual([[], ["delete pods/shop/odd", "delete pods/shop/web"]]);
});

test("a create that fails in an outage is retried, and at once after the outage", async () => {
  const { clock, kube, log, mirrors, start, setDesired, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  kube.failures = { create: Array.from({ length: 20 }, () => new KubeError("UNREACHABLE", "refused")) };
  await setDesired(desiredPod("web", "1"));
  await clock.advance(10_000);
  expect(requests().length).toBeLessThan(12);
  kube.failures = {};
  mirrors.onRecovered();
  await settlePromises();
  expect([await shown(), log.takeLines()]).toEqual([["web#1"], []]);
});

test("a rejected mirror backs off, is logged once, and blocks no other", async () => {
  const { clock, kube, log, mirrors, start, setDesired, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  let isRefused = true;
  kube.before.create = () => {
    if (isRefused) throw new KubeError("FORBIDDEN", "no", { status: 403 });
  };
  await setDesired(desiredPod("web", "1"));
  requests();
  await clock.advance(900);
  mirrors.reconcile();
  await settlePromises();
  expect(requests()).toHaveLength(0);
  await clock.advance(299_100);
  expect(requests()).toHaveLength(9);
  isRefused = false;
  await setDesired(desiredPod("web", "1"), desiredPod("db", "2"));
  expect(await shown()).toEqual(["db#2"]);
  await clock.advance(60_000);
  expect((await shown()).toSorted()).toEqual(["db#2", "web#1"]);
  expect(log.takeLines()).toHaveLength(1);
});

test("a mirror forbidden by a server that has just started is created a second later", async () => {
  const { clock, kube, mirrors, start, setDesired, shown } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  kube.failures = { create: [new KubeError("FORBIDDEN", "not yet", { status: 403 })] };
  await setDesired(desiredPod("web", "1"));
  await clock.advance(1_000);
  expect(await shown()).toEqual(["web#1"]);
});

test("a mirror waits while another pod of the node has its name", async () => {
  const { kube, mirrors, start, setDesired, shown, requests } = await createFixture();
  const spec = { containers: [{ name: "a", image: "i" }], nodeName: "n" };
  await kube.user.create(pods("shop"), { metadata: { name: "web", namespace: "shop" }, spec });
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  expect([await shown(), requests()]).toEqual([["web#undefined"], ["create pods/shop"]]);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await settlePromises();
  expect(await shown()).toEqual(["web#1"]);
});

test("a create whose name a pod of another node has is retried, and logged once", async () => {
  const { clock, kube, log, mirrors, start, setDesired, shown, requests } = await createFixture();
  const spec = { containers: [{ name: "a", image: "i" }] };
  await kube.user.create(pods("shop"), { metadata: { name: "web", namespace: "shop" }, spec });
  mirrors.setNodeUid("node-uid");
  await start();
  await setDesired(desiredPod("web", "1"));
  await clock.advance(300_000);
  expect([requests().length, log.takeLines()]).toEqual([10, ["warn: cannot create a mirror pod"]]);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await clock.advance(60_000);
  expect(await shown()).toEqual(["web#1"]);
});

test("a create whose name our own mirror has is not logged", async () => {
  const { clock, kube, log, mirrors, setDesired, start, shown, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  const { pendingTimers } = clock;
  kube.after.create = () => {
    throw new KubeError("ALREADY_EXISTS", "pods web already exists", { status: 409 });
  };
  await setDesired(desiredPod("web", "1"));
  expect([await shown(), log.takeLines(), requests(), clock.pendingTimers]).toEqual([
    ["web#1"],
    [],
    ["create pods/shop"],
    pendingTimers,
  ]);
});

test("removing a manifest clears the back-off of its mirror", async () => {
  const { clock, kube, log, mirrors, start, setDesired, requests } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  const { pendingTimers } = clock;
  kube.before.create = () => {
    throw new KubeError("FORBIDDEN", "no", { status: 403 });
  };
  await setDesired(desiredPod("web", "1"));
  await clock.advance(60_000);
  await setDesired();
  expect([clock.pendingTimers, log.takeLines().length]).toEqual([pendingTimers, 1]);
  requests();
  await setDesired(desiredPod("web", "1"));
  await clock.advance(1_000);
  expect([requests().length, log.takeLines().length]).toEqual([2, 1]);
});

test("after stop no timer is left", async () => {
  const { clock, kube, mirrors, start, setDesired, end } = await createFixture();
  mirrors.setNodeUid("node-uid");
  await start();
  kube.failures = { create: [new KubeError("UNREACHABLE", "refused")] };
  await setDesired(desiredPod("web", "1"));
  mirrors.stop();
  end();
  await mirrors.settled();
  await settlePromises();
  expect(clock.pendingTimers).toBe(0);
});
