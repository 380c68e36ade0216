import { describe, expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { FollowListener } from "../../../kube/watch/reflector.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { followApiPods } from "./api-pods.ts";

/** A node `n`, and what it hears of its pods: `what should run` on the left, `who tells of it` in brackets. */
async function createScene({ isFollowing = true } = {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock });
  const heard: string[] = [];
  const told: Pod[] = [];
  const end = new AbortController();
  const nameOf = ({ metadata }: Pod) =>
    `${metadata.name}${metadata.deletionTimestamp === undefined ? "" : " (deleted)"}`;
  const settings = {
    kube,
    nodeName: "n",
    log,
    async hear(news: Parameters<Parameters<typeof followApiPods>[0]["hear"]>[0]) {
      if (news.kind === "complete")
        heard.push(`all: ${[...news.pods.map(nameOf), ...(news.unreadable ?? []).map((uid) => `${uid}?`)].join(" ")}`);
      else if (news.kind === "changed") heard.push(`changed: ${nameOf(news.pod)}`);
      else heard.push("gone");
    },
    listener: {
      seen(pod: Pod) {
        told.push(pod);
        heard.push(`[${nameOf(pod)}]`);
      },
      gone: (pod: Pod) => heard.push(`[${nameOf(pod)} is gone]`),
      unreadable: (pod: Pod, problem: string) => heard.push(`[${nameOf(pod)}: ${problem}]`),
      complete: () => heard.push("[all]"),
      away: () => heard.push("[away]"),
      back: () => heard.push("[back]"),
    },
  };
  const follow = () => followApiPods(settings, end.signal);
  if (isFollowing) void follow();
  await rest();
  const make = async (name: string, metadata: Partial<Pod["metadata"]> = {}, nodeName = "n") => {
    const spec = { containers: [{ name: "a", image: "busybox:1" }], nodeName };
    await kube.user.create(pods("shop"), { metadata: { name, namespace: "shop", ...metadata }, spec });
    await rest();
  };
  return { clock, log, kube, told, make, follow, stop: () => end.abort(), heard: () => heard.splice(0) };
}
const mirror = { annotations: { "kubernetes.io/config.mirror": "0a" } };

test("everything is heard first, then every change; who tells of a pod sees it before", async () => {
  const scene = await createScene({ isFollowing: false });
  await scene.make("web");
  void scene.follow();
  await rest();
  expect(scene.heard()).toEqual(["[web]", "[all]", "all: web"]);
  await scene.make("db");
  await scene.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 9 });
  await rest();
  expect(scene.heard()).toEqual(["[db]", "changed: db", "[db (deleted)]", "changed: db (deleted)"]);
  await scene.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 0 });
  await rest();
  expect(scene.heard().slice(-2)).toEqual(["[db (deleted) is gone]", "gone"]);
});

test("a pod that is bound to this node has come; those of other nodes are not heard of", async () => {
  const scene = await createScene();
  scene.heard();
  await scene.make("web", {}, "other");
  expect(scene.heard()).toEqual([]);
});

test("a mirror pod is not what should run, and only told of", async () => {
  const scene = await createScene();
  scene.heard();
  await scene.make("static", mirror);
  await scene.kube.user.delete(pods("shop"), "static", { gracePeriodSeconds: 0 });
  await rest();
  expect(scene.heard()).toEqual(["[static]", "[static (deleted)]", "[static (deleted) is gone]"]);
});

test("while the API server is away nothing changes, which is for the connection to say; what was missed is heard when it is back", async () => {
  const scene = await createScene();
  await scene.make("web");
  scene.heard();
  scene.kube.goDown();
  await scene.clock.advance(60_000);
  expect(scene.heard()).toEqual(["[away]"]);
  scene.kube.comeBack();
  await scene.clock.advance(60_000);
  expect(scene.heard()).toContain("[back]");
  expect(scene.log.told()).toEqual([]);
});

test("a server that refuses to tell of pods is told of once, and so is the end of that, also where it was away before", async () => {
  const scene = await createScene();
  const forbidden = Array.from({ length: 5 }, () => new KubeError("FORBIDDEN", "pods is forbidden", { status: 403 }));
  scene.kube.goDown();
  await scene.clock.advance(5_000);
  scene.kube.failures = { watch: forbidden };
  scene.kube.comeBack();
  await scene.clock.advance(120_000);
  expect(scene.log.told()).toEqual([
    "error: pods cannot be heard of from the API server: pods is forbidden; those known stay as they are",
    "info: pods are heard of from the API server again",
  ]);
});

test("a pod that went while the past was forgotten is gone", async () => {
  const scene = await createScene();
  await scene.make("web");
  await scene.make("db");
  scene.heard();
  scene.kube.goDown();
  await rest();
  await scene.kube.user.delete(pods("shop"), "db", { gracePeriodSeconds: 0 });
  scene.kube.compact();
  scene.kube.comeBack();
  await scene.clock.advance(60_000);
  const heard = scene.heard();
  expect(heard).toContain("[db is gone]");
  expect(heard).toContain("all: web");
});

test("what is no pod is left aside, and one that was known before stays as it was", async () => {
  const scene = await createScene({ isFollowing: false });
  const good = (name: string): Pod => ({
    metadata: { uid: `${name}-1`, name, namespace: "shop" },
    spec: { containers: [] },
  });
  const bad = (name: string) => ({ metadata: { uid: `${name}-1`, name, namespace: "shop" } }) as unknown as Pod;
  scene.kube.follow = async (_resource, _selector, listener) => {
    const { replaced, changed } = listener as unknown as FollowListener<Pod>;
    replaced([good("web"), bad("db")], "1", false);
    changed("modified", bad("web"));
    replaced([bad("web")], "2", false);
  };
  await scene.follow();
  expect(scene.heard()).toEqual([
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
  const left = "what the API server says of a pod cannot be read, and is left aside: spec.containers: Required value";
  expect(scene.log.told()).toEqual([`warn: ${left}`, `warn: ${left}`]);
});

describe("of what is no pod it is said where and why, and the others are heard of", () => {
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
      const scene = await createScene({ isFollowing: false });
      const podOf = (name: string, of: object) =>
        ({ metadata: { uid: name, name, namespace: "shop" }, spec: of }) as Pod;
      scene.kube.follow = async (_resource, _selector, listener) => {
        const { replaced, changed } = listener as unknown as FollowListener<Pod>;
        replaced([podOf("odd", spec), podOf("web", { containers: [container] })], "1", false);
        changed("modified", podOf("odd", spec));
        changed("deleted", podOf("odd", spec));
      };
      await scene.follow();
      expect(scene.heard()).toEqual([`[odd: ${problem}]`, "[web]", "[all]", "all: web odd?", "[odd is gone]", "gone"]);
    });
});

test("a field that is null is not given", async () => {
  const scene = await createScene({ isFollowing: false });
  const metadata = { uid: "web", name: "web", namespace: "shop", deletionTimestamp: null };
  const spec = { containers: [{ name: "a", ports: null }], initContainers: null, volumes: null };
  scene.kube.follow = async (_resource, _selector, listener) =>
    (listener as unknown as FollowListener<Pod>).replaced([{ metadata, spec } as unknown as Pod], "1", false);
  await scene.follow();
  expect(scene.heard()).toEqual(["[web]", "[all]", "all: web"]);
  expect(scene.told.map((pod) => pod.spec as unknown)).toEqual([{ containers: [{ name: "a" }] }]);
});

test("who manages which field is not kept", async () => {
  const scene = await createScene();
  await scene.make("web", { managedFields: [{ manager: "kubectl", operation: "Update" }] });
  expect(scene.told.map(({ metadata }) => metadata.managedFields)).toEqual([undefined]);
});

test("it ends when it is told to", async () => {
  const scene = await createScene({ isFollowing: false });
  const done = scene.follow();
  await rest();
  scene.stop();
  await done;
  expect(scene.kube.watches).toBe(0);
});

test("a server that cannot be listed from is no reason to end", async () => {
  const scene = await createScene({ isFollowing: false });
  const error = () => new KubeError("FORBIDDEN", "no", { status: 403 });
  scene.kube.failures = { watch: [error()], list: [error()] };
  void scene.follow();
  await scene.clock.advance(60_000);
  expect(scene.heard()).toContain("all: ");
});
