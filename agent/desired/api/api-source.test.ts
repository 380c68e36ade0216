import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { ObjectMeta, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { roomForAll } from "../../../test/fakes/admission.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { SourceKind } from "../../decide/pod/desired.ts";
import { createPodRecords } from "../pod-checkpoints.ts";
import { createDesiredPods } from "../pods.ts";

/** A node that is told of its pods by the API server; `restart` is a new agent on the same disk. */
function createScene(disk = new FakeDisk(() => 0), kinds: readonly SourceKind[] = ["api"]) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const heard: string[] = [];
  const desired = createDesiredPods({
    records: createPodRecords(disk.at("/root"), log),
    clock,
    log,
    kinds,
    hasSilentSource: false,
    admission: roomForAll,
    refused: () => {},
    wake: (uid) => heard.push(`wake ${uid}`),
    interrupt: (uid) => heard.push(`interrupt ${uid}`),
    complete: () => heard.push("complete"),
  });
  return {
    clock,
    log,
    disk,
    desired,
    told: () => heard.splice(0),
    complete: (...pods: readonly Pod[]) => desired.hear({ kind: "complete", pods }),
    changed: (pod: Pod) => desired.hear({ kind: "changed", pod }),
    gone: (uid: PodUid) => desired.hear({ kind: "gone", uid }),
    records: () => disk.paths().filter((path) => path.endsWith(".json")),
    restart: () => createScene(disk, kinds),
    wanted: (uid: PodUid) => {
      const pod = desired.get(uid);
      if (pod === undefined || pod === "unknown") throw new Error(`nobody wants it: ${pod}`);
      return pod;
    },
  };
}

const web = "web" as PodUid;
const podOf = (uid: string, metadata: Partial<ObjectMeta> = {}): Pod => ({
  metadata: { uid, name: uid, namespace: "shop", resourceVersion: "1", ...metadata },
  spec: { containers: [{ name: "a", image: "busybox:1" }], terminationGracePeriodSeconds: 20 },
});
const deletedPod = podOf("web", { deletionTimestamp: "2026-01-01T00:00:20Z", deletionGracePeriodSeconds: 20 });

test("until the API server has said all that there is, what is not known is unknown", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.changed(podOf("web"));
  expect(scene.desired.get("db" as PodUid)).toBe("unknown");
  await scene.complete(podOf("web"));
  expect(scene.desired.get("db" as PodUid)).toBeUndefined();
  expect(scene.told()).toEqual(["wake web", "complete"]);
});

test("a pod of an earlier agent is unheard until the API server has spoken, and goes on then, whatever other sources do", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  expect(first.wanted(web).isUnheard).toBeUndefined();
  const next = createScene(first.disk, ["api", "http"]);
  await next.desired.restore();
  expect(next.wanted(web).isUnheard).toBe(true);
  expect(next.told()).toEqual([]);
  await next.complete(podOf("web"));
  expect(next.wanted(web).isUnheard).toBeUndefined();
  expect(next.told()).toEqual(["wake web"]);
});

test("a hundred pods that come one by one begin at once, and do not wait for each other's records", async () => {
  const scene = createScene();
  await scene.desired.restore();
  const written = Promise.withResolvers<void>();
  scene.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const pods = Array.from({ length: 100 }, (_, i) => podOf(`p${i}`));
  const recorded = Promise.all(pods.map(scene.changed));
  await rest();
  expect(scene.told()).toEqual(pods.map(({ metadata }) => `wake ${metadata.uid}`));
  written.resolve();
  await recorded;
  expect(scene.records()).toHaveLength(100);
});

test("an end is recorded before anybody hears of it", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.complete(podOf("web"));
  scene.told();
  const written = Promise.withResolvers<void>();
  scene.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const ended = scene.changed(deletedPod);
  await rest();
  expect(scene.told()).toEqual([]);
  written.resolve();
  await ended;
  expect(scene.told()).toEqual(["interrupt web"]);
  const next = scene.restart();
  await next.desired.restore();
  expect(next.wanted(web).termination?.gracePeriodSeconds).toBe(20);
});

test("a label set on a pod that ends is heard of, and gives up nothing that is under way; a shorter grace does", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.complete(podOf("web"));
  await scene.changed(deletedPod);
  scene.told();
  await scene.changed({ ...deletedPod, metadata: { ...deletedPod.metadata, labels: { tier: "front" } } });
  expect(scene.told()).toEqual(["wake web"]);
  await scene.changed(podOf("web", { ...deletedPod.metadata, deletionGracePeriodSeconds: 2 }));
  expect(scene.told()).toEqual(["interrupt web"]);
});

test("the status that we told comes back, and nothing is written or woken by it", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.complete(podOf("web"));
  scene.told();
  scene.disk.before = (verb) => {
    if (verb === "write") throw new Error("nothing is to be written");
  };
  await scene.changed({ ...podOf("web", { resourceVersion: "2" }), status: { phase: "Running" } });
  expect(scene.told()).toEqual([]);
  expect(scene.wanted(web).pod.status?.phase).toBe("Running");
  expect(scene.log.told()).toEqual([]);
});

test("a pod that is gone from the node stays known as long as the API server has it", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.complete(podOf("web"));
  await scene.changed(deletedPod);
  scene.told();
  await scene.desired.finished(web);
  await scene.changed({ ...deletedPod, status: { phase: "Failed" } });
  await scene.changed(podOf("web", { ...deletedPod.metadata, deletionGracePeriodSeconds: 0 }));
  expect(scene.wanted(web).termination).toBeDefined();
  expect(scene.desired.all()).toEqual([]);
  await scene.gone(web);
  // Nobody looks at it any more: there is nothing to be seen.
  expect(scene.told()).toEqual([]);
  expect(scene.desired.get(web)).toBeUndefined();
  expect(scene.records()).toEqual([]);
});

test("so it does while the API server has not spoken to a new agent yet", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  await first.changed(deletedPod);
  const next = first.restart();
  await next.desired.restore();
  await next.desired.finished(web);
  expect(next.wanted(web).termination).toBeDefined();
  await next.complete();
  expect(next.told()).toEqual(["complete"]);
  expect(next.records()).toEqual([]);
});

test("a node that starts without its API server knows its pods, and ends none", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = first.restart();
  await next.desired.restore();
  expect(next.wanted(web).termination).toBeUndefined();
  expect(next.told()).toEqual([]);
  await next.complete();
  expect(next.wanted(web).termination?.why).toBe("the API server does not have it any more");
});

test("a pod of the last agent that the API server has, in words that cannot be read, runs on", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = first.restart();
  await next.desired.restore();
  await next.desired.hear({ kind: "complete", pods: [], unreadable: [web] });
  expect(next.wanted(web).termination).toBeUndefined();
});

test("a pod that nobody can judge, by a mistake of ours, waits, and the others begin", async () => {
  const scene = createScene();
  await scene.desired.restore();
  const tripping = podOf("web");
  Object.defineProperty(tripping.spec, "nodeSelector", {
    get() {
      throw new Error("a mistake");
    },
  });
  await scene.complete(tripping, podOf("db"));
  scene.desired.judge();
  await rest();
  expect(scene.wanted(web).admission).toEqual({ kind: "awaited" });
  expect(scene.wanted("db" as PodUid).admission).toBeUndefined();
  const line = "error: the pod cannot be judged, and waits";
  expect(scene.log.told()).toEqual([line, line]);
});

test("a node that has left its cluster ends the pods of it", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = createScene(first.disk, []);
  await next.desired.restore();
  expect(next.told()).toEqual(["interrupt web", "complete"]);
});

test("a pod of the API does not wait for the one of its name that was deleted by force", async () => {
  const scene = createScene();
  await scene.desired.restore();
  await scene.complete(podOf("web"));
  await scene.gone(web);
  await scene.changed(podOf("web-2", { name: "web" }));
  expect(scene.wanted("web-2" as PodUid).waitsFor).toBeUndefined();
});

test("a last word that is kept is there for the next agent, and the first one that is kept stays", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.complete(podOf("web"));
  await first.changed(deletedPod);
  await first.desired.keepLast(web, { phase: "Succeeded" });
  await first.desired.keepLast(web, { phase: "Failed" });
  const next = first.restart();
  await next.desired.restore();
  expect(next.wanted(web).lastStatus).toEqual({ phase: "Succeeded" });
});
