import { describe, expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { ReflectorListener } from "../../../kube/watch/reflector.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { watchApiPods } from "./api-pods.ts";

/** Watches the pods of node `n`. Returns the updates of desired pods, and the listener's calls in brackets. */
async function createFixture({ isFollowing = true } = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock });
  const calls: string[] = [];
  const reported: Pod[] = [];
  const end = new AbortController();
  const nameOf = ({ metadata }: Pod) =>
    `${metadata.name}${metadata.deletionTimestamp === undefined ? "" : " (deleted)"}`;
  const options = {
    kube,
    nodeName: "n",
    log,
    async applyUpdate(update: Parameters<Parameters<typeof watchApiPods>[0]["applyUpdate"]>[0]) {
      if (update.kind === "complete")
        calls.push(
          `all: ${[...update.pods.map(nameOf), ...(update.unreadable ?? []).map((uid) => `${uid}?`)].join(" ")}`,
        );
      else if (update.kind === "changed") calls.push(`changed: ${nameOf(update.pod)}`);
      else calls.push("gone");
    },
    listener: {
      onObserved(pod: Pod) {
        reported.push(pod);
        calls.push(`[${nameOf(pod)}]`);
      },
      onDeleted: (pod: Pod) => calls.push(`[${nameOf(pod)} is gone]`),
      onUnreadable: (pod: Pod, problem: string) => calls.push(`[${nameOf(pod)}: ${problem}]`),
      onListed: () => calls.push("[all]"),
      onRecovered: () => calls.push("[back]"),
    },
  };
  const follow = () => watchApiPods(options, end.signal);
  if (isFollowing) void follow();
  await settlePromises();
  const make = async (name: string, metadata: Partial<Pod["metadata"]> = {}, nodeName = "n") => {
    const spec = { containers: [{ name: "a", image: "busybox:1" }], nodeName };
    await kube.user.create(pods("shop"), { metadata: { name, namespace: "shop", ...metadata }, spec });
    await settlePromises();
  };
  return { clock, log, kube, reported, make, follow, stop: () => end.abort(), received: () => calls.splice(0) };
}
const mirror = { annotations: { "kubernetes.io/config.mirror": "0a" } };

test("the first update is the complete list, then come changes; the listener receives each pod before the update", async () => {
  const fixture = await createFixture({ isFollowing: false });
  await fixture.make("web");
  void fixture.follow();
  await settlePromises();
  expect(fixture.received()).toEqual(["[web]", "[all]", "all: web"]);
  await fixture.make("db");
  await fixture.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 9 });
  await settlePromises();
  expect(fixture.received()).toEqual(["[db]", "changed: db", "[db (deleted)]", "changed: db (deleted)"]);
  await fixture.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 0 });
  await settlePromises();
  expect(fixture.received().slice(-2)).toEqual(["[db (deleted) is gone]", "gone"]);
});

test("a pod that is bound to this node is added, and pods of other nodes are not received", async () => {
  const fixture = await createFixture();
  fixture.received();
  await fixture.make("web", {}, "other");
  expect(fixture.received()).toEqual([]);
});

test("a mirror pod reaches the listener, but is not desired", async () => {
  const fixture = await createFixture();
  fixture.received();
  await fixture.make("static", mirror);
  await fixture.kube.user.delete(pods("shop"), "static", { gracePeriodSeconds: 0 });
  await settlePromises();
  expect(fixture.received()).toEqual(["[static]", "[static (deleted)]", "[static (deleted) is gone]"]);
});

test("an outage changes nothing and is logged by the connection only; missed changes arrive after it", async () => {
  const fixture = await createFixture();
  await fixture.make("web");
  fixture.received();
  fixture.kube.goDown();
  await fixture.clock.advance(60_000);
  expect(fixture.received()).toEqual([]);
  fixture.kube.comeBack();
  await fixture.clock.advance(60_000);
  expect(fixture.received()).toContain("[back]");
  expect(fixture.log.takeLines()).toEqual([]);
});

test("a server that forbids the watch of pods is logged once, and so is its recovery, also after an outage", async () => {
  const fixture = await createFixture();
  const forbidden = Array.from({ length: 5 }, () => new KubeError("FORBIDDEN", "pods is forbidden", { status: 403 }));
  fixture.kube.goDown();
  await fixture.clock.advance(5_000);
  fixture.kube.failures = { watch: forbidden };
  fixture.kube.comeBack();
  await fixture.clock.advance(120_000);
  expect(fixture.log.takeLines()).toEqual([
    "error: cannot receive pods from the API server: pods is forbidden; the known pods stay as they are",
    "info: pods are received from the API server again",
  ]);
});

test("a pod that was deleted before a new list is removed", async () => {
  const fixture = await createFixture();
  await fixture.make("web");
  await fixture.make("db");
  fixture.received();
  fixture.kube.goDown();
  await settlePromises();
  await fixture.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 0 });
  fixture.kube.compact();
  fixture.kube.comeBack();
  await fixture.clock.advance(60_000);
  const calls = fixture.received();
  expect(calls).toContain("[db is gone]");
  expect(calls).toContain("all: web");
});

test("a pod that cannot be decoded is ignored, and its last valid version stays", async () => {
  const fixture = await createFixture({ isFollowing: false });
  const good = (name: string): Pod => ({
    metadata: { uid: `${name}-1`, name, namespace: "shop" },
    spec: { containers: [] },
  });
  const bad = (name: string) => ({ metadata: { uid: `${name}-1`, name, namespace: "shop" } }) as unknown as Pod;
  fixture.kube.listAndWatch = async (_resource, _selector, listener) => {
    const { onReplaced, onChanged } = listener as unknown as ReflectorListener<Pod>;
    onReplaced([good("web"), bad("db")], "1", false);
    onChanged("modified", bad("web"));
    onReplaced([bad("web")], "2", false);
  };
  await fixture.follow();
  expect(fixture.received()).toEqual([
    "[db: spec.containers: Required value]",
    "[web]",
    "[all]",
    "all: web db-1?",
    "[web: spec.containers: Required value]",
    "[web]",
    "changed: web",
    "[web]",
    "[all]",
    "all: web",
  ]);
  const left = "a pod from the API server cannot be decoded and does not run: spec.containers: Required value";
  expect(fixture.log.takeLines()).toEqual([`warn: ${left}`, `warn: ${left}`]);
});

test("a pod that cannot be decoded is forgotten when a list does not contain it", async () => {
  const fixture = await createFixture({ isFollowing: false });
  const bad = { metadata: { uid: "db-1", name: "db", namespace: "shop" } } as unknown as Pod;
  fixture.kube.listAndWatch = async (_resource, _selector, listener) => {
    const { onReplaced } = listener as unknown as ReflectorListener<Pod>;
    onReplaced([bad], "1", false);
    onReplaced([bad], "2", false);
    onReplaced([], "3", false);
    onReplaced([bad], "4", false);
  };
  await fixture.follow();
  const unreadable = "[db: spec.containers: Required value]";
  expect(fixture.received().filter((call) => call.startsWith("[db"))).toEqual([unreadable, unreadable]);
});

describe("a pod that cannot be decoded is reported with field and reason, and the others are received", () => {
  const container = { name: "a" };
  const rows: readonly (readonly [odd: object, problem: string])[] = [
    [{ containers: [null] }, "spec.containers[0]: Invalid type: got null, expected object"],
    [{ containers: ["a"] }, "spec.containers[0]: Invalid type: got string, expected object"],
    [{ containers: [{}] }, "spec.containers[0].name: Required value"],
    [{ containers: [container], initContainers: {} }, "spec.initContainers: Invalid type: got object, expected array"],
    [
      { containers: [{ ...container, ports: [null] }] },
      "spec.containers[0].ports[0]: Invalid type: got null, expected object",
    ],
    [
      { containers: [container], readinessGates: [null] },
      "spec.readinessGates[0]: Invalid type: got null, expected object",
    ],
    [
      { containers: [container], nodeSelector: { disk: 1 } },
      "spec.nodeSelector[disk]: Invalid type: got 1, expected string",
    ],
  ];
  for (const [spec, problem] of rows)
    test(problem, async () => {
      const fixture = await createFixture({ isFollowing: false });
      const podOf = (name: string, of: object) =>
        ({ metadata: { uid: name, name, namespace: "shop" }, spec: of }) as Pod;
      fixture.kube.listAndWatch = async (_resource, _selector, listener) => {
        const { onReplaced, onChanged } = listener as unknown as ReflectorListener<Pod>;
        onReplaced([podOf("odd", spec), podOf("web", { containers: [container] })], "1", false);
        onChanged("modified", podOf("odd", spec));
        onChanged("deleted", podOf("odd", spec));
      };
      await fixture.follow();
      expect(fixture.received()).toEqual([
        `[odd: ${problem}]`,
        "[web]",
        "[all]",
        "all: web odd?",
        "[odd is gone]",
        "gone",
      ]);
    });
});

test("a field that is null is left out", async () => {
  const fixture = await createFixture({ isFollowing: false });
  const metadata = { uid: "web", name: "web", namespace: "shop", deletionTimestamp: null };
  const spec = { containers: [{ name: "a", ports: null }], initContainers: null, volumes: null };
  fixture.kube.listAndWatch = async (_resource, _selector, listener) =>
    (listener as unknown as ReflectorListener<Pod>).onReplaced([{ metadata, spec } as unknown as Pod], "1", false);
  await fixture.follow();
  expect(fixture.received()).toEqual(["[web]", "[all]", "all: web"]);
  expect(fixture.reported.map((pod) => pod.spec as unknown)).toEqual([{ containers: [{ name: "a" }] }]);
});

test("managedFields are dropped", async () => {
  const fixture = await createFixture();
  await fixture.make("web", { managedFields: [{ manager: "kubectl", operation: "Update" }] });
  expect(fixture.reported.map(({ metadata }) => metadata.managedFields)).toEqual([undefined]);
});

test("the watch ends when the signal aborts", async () => {
  const fixture = await createFixture({ isFollowing: false });
  const done = fixture.follow();
  await settlePromises();
  fixture.stop();
  await done;
  expect(fixture.kube.openWatches).toBe(0);
});

test("the watch continues when the list fails", async () => {
  const fixture = await createFixture({ isFollowing: false });
  const error = () => new KubeError("FORBIDDEN", "no", { status: 403 });
  fixture.kube.failures = { watch: [error()], list: [error()] };
  void fixture.follow();
  await fixture.clock.advance(60_000);
  expect(fixture.received()).toContain("all: ");
});
