import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { ObjectMeta, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { unconstrainedAdmission } from "../../../test/fakes/admission.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { SourceKind } from "../../decide/pod/desired.ts";
import { createPodCheckpoints } from "../pod-checkpoints.ts";
import { createDesiredPods } from "../pods.ts";

/** A node with pods from the API server; `restart` is a new agent on the same disk. */
function createApiNode(disk = new FakeDisk(() => 0), sourceKinds: readonly SourceKind[] = ["api"]) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const calls: string[] = [];
  const desired = createDesiredPods({
    checkpoints: createPodCheckpoints(disk.at("/root"), log),
    clock,
    log,
    sourceKinds,
    hasNoSource: false,
    admission: unconstrainedAdmission,
    onManifestErrors: () => {},
    wake: (uid) => calls.push(`wake ${uid}`),
    cancelOutdated: (uid) => calls.push(`cancel outdated ${uid}`),
    onAllSourcesReady: () => calls.push("complete"),
  });
  return {
    clock,
    log,
    disk,
    desired,
    takeCalls: () => calls.splice(0),
    complete: (...pods: readonly Pod[]) => desired.applyApiUpdate({ kind: "complete", pods }),
    changed: (pod: Pod) => desired.applyApiUpdate({ kind: "changed", pod }),
    gone: (uid: PodUid) => desired.applyApiUpdate({ kind: "gone", uid }),
    records: () => disk.paths().filter((path) => path.endsWith(".json")),
    restart: () => createApiNode(disk, sourceKinds),
    getPod: (uid: PodUid) => {
      const pod = desired.get(uid);
      if (pod === undefined || pod === "unknown") throw new Error(`it is not desired: ${pod}`);
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

test("until the first complete list a pod that is not listed is unknown", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.changed(podOf("web"));
  expect(node.desired.get("db" as PodUid)).toBe("unknown");
  await node.complete(podOf("web"));
  expect(node.desired.get("db" as PodUid)).toBeUndefined();
  expect(node.takeCalls()).toEqual(["wake web", "complete"]);
});

test("a pod of an earlier agent is unconfirmed until the API server's first list, and continues then, whatever other sources do", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  expect(first.getPod(web).isUnconfirmed).toBeUndefined();
  const next = createApiNode(first.disk, ["api", "http"]);
  await next.desired.restore();
  expect(next.getPod(web).isUnconfirmed).toBe(true);
  expect(next.takeCalls()).toEqual([]);
  await next.complete(podOf("web"));
  expect(next.getPod(web).isUnconfirmed).toBeUndefined();
  expect(next.takeCalls()).toEqual(["wake web"]);
});

test("a hundred pods that arrive one by one start at once and do not wait for each other's checkpoints", async () => {
  const node = createApiNode();
  await node.desired.restore();
  const written = Promise.withResolvers<void>();
  node.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const pods = Array.from({ length: 100 }, (_, i) => podOf(`p${i}`));
  const recorded = Promise.all(pods.map(node.changed));
  await settlePromises();
  expect(node.takeCalls()).toEqual(pods.map(({ metadata }) => `wake ${metadata.uid}`));
  written.resolve();
  await recorded;
  expect(node.records()).toHaveLength(100);
});

test("a termination is saved before the loop is notified", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.complete(podOf("web"));
  node.takeCalls();
  const written = Promise.withResolvers<void>();
  node.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const ended = node.changed(deletedPod);
  await settlePromises();
  expect(node.takeCalls()).toEqual([]);
  written.resolve();
  await ended;
  expect(node.takeCalls()).toEqual(["cancel outdated web"]);
  const next = node.restart();
  await next.desired.restore();
  expect(next.getPod(web).termination?.gracePeriodSeconds).toBe(20);
});

test("a new label on a terminating pod wakes it without an interruption; a shorter grace period interrupts it", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.complete(podOf("web"));
  await node.changed(deletedPod);
  node.takeCalls();
  await node.changed({ ...deletedPod, metadata: { ...deletedPod.metadata, labels: { tier: "front" } } });
  expect(node.takeCalls()).toEqual(["wake web"]);
  await node.changed(podOf("web", { ...deletedPod.metadata, deletionGracePeriodSeconds: 2 }));
  expect(node.takeCalls()).toEqual(["cancel outdated web"]);
});

test("an update that contains only our own status writes nothing and wakes no pod", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.complete(podOf("web"));
  node.takeCalls();
  node.disk.before = (verb) => {
    if (verb === "write") throw new Error("nothing is to be written");
  };
  await node.changed({ ...podOf("web", { resourceVersion: "2" }), status: { phase: "Running" } });
  expect(node.takeCalls()).toEqual([]);
  expect(node.getPod(web).pod.status?.phase).toBe("Running");
  expect(node.log.takeLines()).toEqual([]);
});

test("a finished pod stays known while the API server has it", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.complete(podOf("web"));
  await node.changed(deletedPod);
  node.takeCalls();
  await node.desired.onPodFinished(web);
  await node.changed({ ...deletedPod, status: { phase: "Failed" } });
  await node.changed(podOf("web", { ...deletedPod.metadata, deletionGracePeriodSeconds: 0 }));
  expect(node.getPod(web).termination).toBeDefined();
  expect(node.desired.all()).toEqual([]);
  await node.gone(web);
  // The loop does not sync it any more.
  expect(node.takeCalls()).toEqual([]);
  expect(node.desired.get(web)).toBeUndefined();
  expect(node.records()).toEqual([]);
});

test("a finished pod stays known until the API server's first list to a new agent", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  await first.changed(deletedPod);
  const next = first.restart();
  await next.desired.restore();
  await next.desired.onPodFinished(web);
  expect(next.getPod(web).termination).toBeDefined();
  await next.complete();
  expect(next.takeCalls()).toEqual(["complete"]);
  expect(next.records()).toEqual([]);
});

test("a node that starts without its API server restores its pods and terminates none", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = first.restart();
  await next.desired.restore();
  expect(next.getPod(web).termination).toBeUndefined();
  expect(next.takeCalls()).toEqual([]);
  await next.complete();
  expect(next.getPod(web).termination?.why).toBe("the API server does not have it any more");
});

test("a pod of the last agent whose API object cannot be decoded keeps running", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = first.restart();
  await next.desired.restore();
  await next.desired.applyApiUpdate({ kind: "complete", pods: [], unreadable: [web] });
  expect(next.getPod(web).termination).toBeUndefined();
});

test("a pod whose admission throws stays pending, and the others start", async () => {
  const node = createApiNode();
  await node.desired.restore();
  const tripping = podOf("web");
  Object.defineProperty(tripping.spec, "nodeSelector", {
    get() {
      throw new Error("a mistake");
    },
  });
  await node.complete(tripping, podOf("db"));
  node.desired.admitPending();
  await settlePromises();
  expect(node.getPod(web).admission).toEqual({ kind: "awaited" });
  expect(node.getPod("db" as PodUid).admission).toBeUndefined();
  const line = "error: pod admission failed; the pod stays pending";
  expect(node.log.takeLines()).toEqual([line, line]);
});

test("a node that has left its cluster terminates the cluster's pods", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  const next = createApiNode(first.disk, []);
  await next.desired.restore();
  expect(next.takeCalls()).toEqual(["cancel outdated web", "complete"]);
});

test("a pod does not wait for a force-deleted pod of the same name", async () => {
  const node = createApiNode();
  await node.desired.restore();
  await node.complete(podOf("web"));
  await node.gone(web);
  await node.changed(podOf("web-2", { name: "web" }));
  expect(node.getPod("web-2" as PodUid).predecessorUid).toBeUndefined();
});

test("a saved final status is restored by the next agent, and is never replaced", async () => {
  const first = createApiNode();
  await first.desired.restore();
  await first.complete(podOf("web"));
  await first.changed(deletedPod);
  await first.desired.saveFinalStatus(web, { phase: "Succeeded" });
  await first.desired.saveFinalStatus(web, { phase: "Failed" });
  const next = first.restart();
  await next.desired.restore();
  expect(next.getPod(web).lastStatus).toEqual({ phase: "Succeeded" });
});
