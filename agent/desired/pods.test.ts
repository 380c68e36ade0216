import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { unconstrainedAdmission } from "../../test/fakes/admission.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { RejectedManifest } from "../decide/node/local-node-report.ts";
import type { SourceKind, TerminationRequest } from "../decide/pod/desired.ts";
import type { ManifestPod } from "../decide/sources/merge-static.ts";
import { createPodCheckpoints, type PodCheckpoints } from "./pod-checkpoints.ts";
import { createDesiredPods } from "./pods.ts";

interface Options {
  readonly kinds?: readonly SourceKind[];
  readonly hasNoSource?: boolean;
  readonly disk?: FakeDisk;
  readonly slow?: (records: PodCheckpoints) => PodCheckpoints;
}

/** The desired pods of a node, and the calls that reach the loop. */
function createDesiredNode(options: Options = {}) {
  const {
    kinds: sourceKinds = ["file"],
    hasNoSource = false,
    disk = new FakeDisk(() => 0),
    slow = (same) => same,
  } = options;
  const clock = new FakeClock();
  const log = new FakeLog();
  const calls: string[] = [];
  let errors: readonly RejectedManifest[] = [];
  const desired = createDesiredPods({
    checkpoints: slow(createPodCheckpoints(disk.at("/root"), log)),
    clock,
    log,
    sourceKinds,
    hasNoSource,
    admission: unconstrainedAdmission,
    wake: (uid) => calls.push(`wake ${uid}`),
    cancelOutdated: (uid) => calls.push(`cancel outdated ${uid}`),
    onManifestErrors: (all) => {
      errors = all;
    },
    onAllSourcesReady: () => calls.push("complete"),
  });
  const file = (...pods: readonly ManifestPod[]) => desired.replaceManifests("file", pods);
  const records = () =>
    disk
      .paths()
      .filter((path) => path.endsWith(".json"))
      .map((path) => path.slice("/root/berth/pods/".length));
  const takeCalls = () => calls.splice(0);
  const errorLines = () => errors.map(({ file: path, problem }) => `${path}: ${problem}`);
  return { clock, log, disk, desired, file, records, takeCalls, errorLines };
}

const podOf = (name: string, uid: string, spec: Partial<PodSpec> = {}): Pod => ({
  metadata: { name, namespace: "shop", uid },
  spec: { containers: [], ...spec },
});
const fromFile = (name: string, uid = `${name}-1`, spec?: Partial<PodSpec>): ManifestPod => ({
  pod: podOf(name, uid, spec),
  source: { kind: "file", path: `/m/${name}` },
});
const fromUrl = (name: string): ManifestPod => ({
  pod: podOf(name, `${name}-1`),
  source: { kind: "http", url: "http://me:word@pods.example/list?key=1" },
});
const web = "web-1" as PodUid;
const toDesiredPod = (answer: unknown) => {
  if (typeof answer !== "object" || answer === null) throw new Error(`it is not desired: ${answer}`);
  return answer as Exclude<ReturnType<ReturnType<typeof createDesiredNode>["desired"]["get"]>, string | undefined>;
};

test("a new pod starts while its checkpoint is written; its termination is saved before the loop is notified", async () => {
  const { desired, file, disk, records, takeCalls } = createDesiredNode();
  await desired.restore();
  let written = Promise.withResolvers<void>();
  disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const offered = file(fromFile("web"));
  await settlePromises();
  expect(takeCalls()).toEqual(["wake web-1"]);
  written.resolve();
  await offered;
  expect(records()).toEqual(["web-1.json"]);
  takeCalls();
  written = Promise.withResolvers();
  const ended = file();
  await settlePromises();
  expect(takeCalls()).toEqual([]);
  written.resolve();
  await ended;
  expect(takeCalls()).toEqual(["cancel outdated web-1"]);
});

test("the same manifests again change nothing, wake no pod and write nothing", async () => {
  const { desired, file, disk, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  takeCalls();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("nothing is to be written");
  };
  await file(fromFile("web"));
  expect(takeCalls()).toEqual([]);
});

test("a pod without its manifest is interrupted with its grace period, and removed when it has finished", async () => {
  const { clock, desired, file, records, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web", "web-1", { terminationGracePeriodSeconds: 7 }));
  await clock.advance(5000);
  takeCalls();
  await file();
  expect(takeCalls()).toEqual(["cancel outdated web-1"]);
  expect(toDesiredPod(desired.get(web)).termination).toEqual({
    requestedAt: clock.now(),
    gracePeriodSeconds: 7,
    why: "its manifest is gone",
  });
  expect(records()).toEqual(["web-1.json"]);
  await desired.onPodFinished(web);
  expect(desired.get(web)).toBeUndefined();
  expect(records()).toEqual([]);
});

test("a changed manifest is a new pod, which waits for the earlier one and is woken when that is removed", async () => {
  const { desired, file, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web", "web-1"));
  await file(fromFile("web", "web-2"));
  await file(fromFile("web", "web-3"));
  expect(desired.all().map(({ uid, termination }) => `${uid} ${termination?.why ?? "is wanted"}`)).toEqual([
    "web-1 its manifest has changed",
    "web-2 its manifest has changed",
    "web-3 is wanted",
  ]);
  const waits = () =>
    desired.all().map(({ uid }) => toDesiredPod(desired.get(uid)).predecessorUid as string | undefined);
  expect(waits()).toEqual([undefined, "web-1", "web-2"]);
  takeCalls();
  await desired.onPodFinished(web);
  expect(takeCalls()).toEqual(["wake web-2", "wake web-3"]);
  expect(waits()).toEqual([undefined, "web-2"]);
});

test("a pod is held until its predecessor is removed, and a new agent knows until when", async () => {
  const { clock, desired, file, disk } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web", "web-1"));
  await file(fromFile("web", "web-2"));
  await clock.advance(45_000);
  const finished = desired.onPodFinished(web);
  const gone = FakeClock.start + 45_000;
  expect(desired.all().map(({ heldUntil }) => heldUntil)).toEqual([gone]);
  await finished;
  const second = createDesiredNode({ disk });
  await second.desired.restore();
  expect(second.desired.all()).toEqual(desired.all().map((pod) => ({ ...pod, isRestored: true })));
});

test("a pod is held while any earlier pod of its name exists, in whatever order they finish", async () => {
  const { clock, desired, file } = createDesiredNode();
  await desired.restore();
  for (const uid of ["web-1", "web-2", "web-3"]) await file(fromFile("web", uid));
  const held = () => desired.all().map(({ uid, heldUntil }) => [uid as string, heldUntil]);
  await clock.advance(1000);
  await desired.onPodFinished("web-2" as PodUid);
  expect(held()).toEqual([
    ["web-1", undefined],
    ["web-3", undefined],
  ]);
  await clock.advance(1000);
  await desired.onPodFinished(web);
  expect(held()).toEqual([["web-3", FakeClock.start + 2000]]);
});

test("a termination that a new agent repeats does not hold a pod that has started since", async () => {
  const first = createDesiredNode();
  await first.desired.restore();
  await first.file(fromFile("web", "web-1"));
  await first.file(fromFile("web", "web-2"));
  first.disk.before = (verb) => {
    if (verb === "remove") throw new Error("read-only");
  };
  await first.desired.onPodFinished(web);
  first.disk.before = () => {};
  const second = createDesiredNode({ disk: first.disk });
  await second.desired.restore();
  await second.clock.advance(60_000);
  await second.desired.onPodFinished(web);
  expect(toDesiredPod(second.desired.get("web-2" as PodUid)).heldUntil).toBe(FakeClock.start);
});

test("a pod of the same name in another namespace does not wait", async () => {
  const { desired, file } = createDesiredNode();
  await desired.restore();
  const other = fromFile("web", "web-2");
  await file(fromFile("web"), {
    ...other,
    pod: { ...other.pod, metadata: { ...other.pod.metadata, namespace: "else" } },
  });
  expect(toDesiredPod(desired.get("web-2" as PodUid)).predecessorUid).toBeUndefined();
});

test("a pod that changes its name under its uid holds pods of the new name only", async () => {
  const { desired, file } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web", "u-1"));
  await file(fromFile("db", "u-1"));
  await file(fromFile("db", "u-2"), fromFile("web", "u-3"));
  const waits = ["u-1", "u-2", "u-3"].map(
    (uid) => toDesiredPod(desired.get(uid as PodUid)).predecessorUid as string | undefined,
  );
  expect(waits).toEqual([undefined, "u-1", undefined]);
});

test("a pod that is added again while it terminates starts again when it is removed", async () => {
  const { desired, file, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  await file();
  await file(fromFile("web"));
  expect(toDesiredPod(desired.get(web)).termination).toBeDefined();
  takeCalls();
  await desired.onPodFinished(web);
  expect(toDesiredPod(desired.get(web)).termination).toBeUndefined();
  expect(takeCalls()).toEqual(["wake web-1"]);
});

test("the end of a pod does not remove a new pod with the same uid", async () => {
  const { clock, desired, file, records, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  await clock.advance(1000);
  takeCalls();
  await desired.onPodFinished(web);
  expect(toDesiredPod(desired.get(web)).acceptedAt).toBe(FakeClock.start);
  expect(takeCalls()).toEqual([]);
  expect(records()).toEqual(["web-1.json"]);
});

test("an unlisted pod is unknown until every source is ready, and not desired afterwards", async () => {
  const { desired, file, takeCalls } = createDesiredNode({ kinds: ["file", "http"] });
  await desired.restore();
  const stranger = "who" as PodUid;
  expect(desired.get(stranger)).toBe("unknown");
  await file();
  expect([desired.get(stranger), ...takeCalls()]).toEqual(["unknown"]);
  await desired.replaceManifests("http", [fromUrl("db")]);
  expect([desired.get(stranger), ...takeCalls()]).toEqual([undefined, "wake db-1", "complete"]);
  await desired.replaceManifests("http", []);
  expect(takeCalls()).toEqual(["cancel outdated db-1"]);
});

test("without configured kinds of sources every pod is undesired at once", async () => {
  const { desired, takeCalls } = createDesiredNode({ kinds: [] });
  await desired.restore();
  expect(takeCalls()).toEqual(["complete"]);
  expect(desired.get(web)).toBeUndefined();
});

test("with an unavailable source an unlisted pod stays unknown", async () => {
  const { desired, file } = createDesiredNode({ hasNoSource: true });
  await desired.restore();
  await file();
  expect(desired.get(web)).toBe("unknown");
});

test("each source replaces only its own pods", async () => {
  const { desired, file } = createDesiredNode({ kinds: ["file", "http"] });
  await desired.restore();
  await file(fromFile("web"));
  await desired.replaceManifests("http", [fromUrl("db")]);
  await file();
  const expected = desired.all().map(({ uid, termination }) => `${uid} ${termination === undefined ? "runs" : "ends"}`);
  expect(expected).toEqual(["web-1 ends", "db-1 runs"]);
});

test("a new agent restores the accepted pods with their times and terminations", async () => {
  const first = createDesiredNode();
  await first.desired.restore();
  await first.file(fromFile("web"));
  await first.clock.advance(1000);
  await first.file(fromFile("web"), fromFile("db"));
  await first.file(fromFile("db"));
  const second = createDesiredNode({ disk: first.disk });
  await second.clock.advance(60_000);
  await second.desired.restore();
  expect(second.desired.all()).toEqual(first.desired.all().map((pod) => ({ ...pod, isRestored: true })));
  expect(second.takeCalls()).toEqual([]);
  await second.file(fromFile("db"));
  expect(second.takeCalls()).toEqual(["complete"]);
  expect(toDesiredPod(second.desired.get("db-1" as PodUid)).acceptedAt).toBe(FakeClock.start + 1000);
});

test("the pods of a source that is not configured any more terminate", async () => {
  const first = createDesiredNode({ kinds: ["file", "http"] });
  await first.desired.restore();
  await first.file(fromFile("web"));
  await first.desired.replaceManifests("http", [fromUrl("db")]);
  const second = createDesiredNode({ disk: first.disk });
  await second.desired.restore();
  expect(second.takeCalls()).toEqual(["cancel outdated db-1"]);
});

test("a pod whose checkpoint cannot be written runs, and its checkpoint is written as soon as it can be", async () => {
  const { clock, desired, file, disk, log, records, takeCalls } = createDesiredNode();
  await desired.restore();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("the disk is full");
  };
  await file(fromFile("web"));
  expect(takeCalls()).toEqual(["wake web-1", "complete"]);
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "error: cannot save the pod's checkpoint yet; until it is saved, a restart of the agent would forget the pod",
  ]);
  expect(records()).toEqual([]);
  disk.before = () => {};
  await clock.advance(5_000);
  expect(records()).toEqual(["web-1.json"]);
  expect(log.takeLines()).toEqual(["info: the pods' checkpoints are saved again"]);
});

test("a checkpoint that could not be written is not written after its pod is removed", async () => {
  const { clock, desired, file, disk, records } = createDesiredNode();
  await desired.restore();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("the disk is full");
  };
  await file(fromFile("web"));
  await file();
  await desired.onPodFinished(web);
  disk.before = () => {};
  await clock.advance(60_000);
  expect(records()).toEqual([]);
});

test("a checkpoint that cannot be removed is removed as soon as it can be, and its pod at once", async () => {
  const { clock, desired, file, disk, log, records } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  await file();
  disk.before = (verb) => {
    if (verb === "remove") throw new Error("read-only");
  };
  await desired.onPodFinished(web);
  expect(desired.get(web)).toBeUndefined();
  expect(log.takeLines()).toEqual(["error: cannot remove the checkpoint of a removed pod yet"]);
  disk.before = () => {};
  await clock.advance(5_000);
  expect(records()).toEqual([]);
});

test("updates during a write are applied in order", async () => {
  const { desired, file, takeCalls } = createDesiredNode();
  await desired.restore();
  await Promise.all([file(fromFile("web")), file(), file(fromFile("db"))]);
  expect(takeCalls()).toEqual(["wake web-1", "complete", "cancel outdated web-1", "wake db-1"]);
});

test("of two sources with the same uid the first owns it; the other is refused once, and gets it when the first is gone", async () => {
  const { desired, file, log, takeCalls, errorLines } = createDesiredNode({ kinds: ["file", "http"] });
  await desired.restore();
  await file(fromFile("web"));
  desired.setManifestErrors("file", [{ file: "/m/x", problem: "it is empty" }]);
  for (let time = 0; time < 3; time++) await desired.replaceManifests("http", [fromUrl("web"), fromUrl("db")]);
  expect(log.takeLines()).toEqual([
    "error: static pod shop/web from the URL refused: pod uid web-1 is already defined by /m/web",
  ]);
  expect(errorLines()).toEqual([
    "/m/x: it is empty",
    "http://pods.example/list: pod uid web-1 is already defined by /m/web",
  ]);
  expect(desired.all().map(({ uid, source }) => `${uid} ${source.kind}`)).toEqual(["web-1 file", "db-1 http"]);
  await file();
  takeCalls();
  await desired.onPodFinished(web);
  expect(toDesiredPod(desired.get(web)).source.kind).toBe("http");
  expect(takeCalls()).toEqual(["wake web-1"]);
  expect(log.takeLines()).toEqual([]);
  desired.setManifestErrors("file", []);
  expect(errorLines()).toEqual([]);
  await file(fromFile("web"));
  expect(log.takeLines()).toEqual([
    "error: manifest refused: pod uid web-1 is already defined by http://pods.example/list",
  ]);
});

test("a pod that moves between sources under its uid is no conflict, in whatever order they update", async () => {
  const first = createDesiredNode({ kinds: ["file", "http"] });
  await first.desired.restore();
  await first.file(fromFile("web"));
  const second = createDesiredNode({ kinds: ["file", "http"], disk: first.disk });
  await second.desired.restore();
  await second.desired.replaceManifests("http", [fromUrl("web")]);
  await second.file();
  await second.desired.onPodFinished(web);
  expect(toDesiredPod(second.desired.get(web)).source.kind).toBe("http");
  expect(second.log.takeLines()).toEqual([]);
});

test("a checkpoint that is written while the old one is removed stays", async () => {
  const removing = Promise.withResolvers<void>();
  const slow = (records: PodCheckpoints): PodCheckpoints => ({
    ...records,
    async remove(uid) {
      await removing.promise;
      await records.remove(uid);
    },
  });
  const { desired, file, records } = createDesiredNode({ slow });
  await desired.restore();
  await file(fromFile("web"));
  await file();
  const finished = desired.onPodFinished(web);
  const again = file(fromFile("web"));
  await settlePromises();
  removing.resolve();
  await Promise.all([finished, again]);
  expect(toDesiredPod(desired.get(web)).termination).toBeUndefined();
  expect(records()).toEqual(["web-1.json"]);
});

/** A terminating pod, while a later update is still being written. */
async function createSlowFixture() {
  const fixture = createDesiredNode();
  await fixture.desired.restore();
  await fixture.file(fromFile("web"));
  await fixture.file();
  const written = Promise.withResolvers<void>();
  fixture.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  return { ...fixture, letWrite: written.resolve };
}

test("a pod that is added again before its old checkpoint is removed keeps the new one", async () => {
  const { desired, file, records, letWrite } = await createSlowFixture();
  const earlier = file(fromFile("api"));
  await settlePromises();
  const again = file(fromFile("api"), fromFile("web"));
  const finished = desired.onPodFinished(web);
  letWrite();
  await Promise.all([earlier, again, finished]);
  expect(toDesiredPod(desired.get(web)).termination).toBeUndefined();
  expect(records()).toEqual(["api-1.json", "web-1.json"]);
});

test("a finished pod is not started again by manifests that were replaced since", async () => {
  const { desired, file, letWrite } = await createSlowFixture();
  const earlier = file(fromFile("web"), fromFile("api"));
  await settlePromises();
  const latest = file(fromFile("db"));
  const finished = desired.onPodFinished(web);
  letWrite();
  await Promise.all([earlier, latest, finished]);
  const expected = desired.all().filter(({ termination }) => termination === undefined);
  expect(expected.map(({ uid }) => uid as string)).toEqual(["db-1"]);
});

test("a subscriber gets each change of a pod, and a restored pod is known again once a status is decided", async () => {
  const first = createDesiredNode();
  await first.desired.restore();
  await first.file(fromFile("web"));
  const { desired, file } = createDesiredNode({ disk: first.disk });
  const changes: string[] = [];
  desired.subscribe({
    onPodUpdated: ({ uid, isRestored, termination }) =>
      changes.push(`${uid}${isRestored ? " restored" : ""}${termination === undefined ? "" : " terminating"}`),
    onPodRemoved: (uid) => changes.push(`${uid} removed`),
  });
  await desired.restore();
  await file(fromFile("web"));
  expect(changes.splice(0)).toEqual(["web-1 restored"]);
  const restored = toDesiredPod(desired.get(web));
  for (const conditions of [undefined, [], []])
    desired.onStatusDecided(restored, { phase: "Running", ...(conditions && { conditions }) });
  expect(changes.splice(0)).toEqual(["web-1"]);
  await file();
  await desired.onPodFinished(web);
  expect(changes).toEqual(["web-1 terminating", "web-1 removed"]);
});

test("a pod of the API is the same object until it changes", async () => {
  const { desired } = createDesiredNode({ kinds: ["api"] });
  const pod: Pod = { ...podOf("web", "web-1", { containers: [{ name: "a", resources: {} }] }) };
  await desired.applyApiUpdate({ kind: "complete", pods: [pod] });
  const first = toDesiredPod(desired.get(web));
  expect(first.allocation).toBeDefined();
  expect(desired.get(web)).toBe(first);
  await desired.applyApiUpdate({
    kind: "changed",
    pod: { ...pod, metadata: { ...pod.metadata, labels: { app: "web" } } },
  });
  const changed = toDesiredPod(desired.get(web));
  expect(changed.pod.metadata.labels).toEqual({ app: "web" });
  expect(desired.get(web)).toBe(changed);
});

const evicted: TerminationRequest = {
  reason: "Evicted",
  message: "the node is short of memory",
  gracePeriodSeconds: 5,
};

test("a request of the node is saved before the loop is notified, and kept by the next agent", async () => {
  const { clock, desired, file, disk, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  takeCalls();
  const written = Promise.withResolvers<void>();
  disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const requested = desired.requestTermination(web, evicted);
  await settlePromises();
  expect(takeCalls()).toEqual([]);
  written.resolve();
  await requested;
  expect(takeCalls()).toEqual(["cancel outdated web-1"]);
  const next = createDesiredNode({ disk });
  await next.desired.restore();
  await next.file(fromFile("web"));
  expect(toDesiredPod(next.desired.get(web)).terminationRequest).toEqual({ ...evicted, requestedAt: clock.now() });
});

test("a repeated request, and one for an unknown or an ended pod, does nothing", async () => {
  const { desired, file, takeCalls } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"), fromFile("job"));
  await desired.requestTermination(web, evicted);
  desired.onStatusDecided(toDesiredPod(desired.get("job-1" as PodUid)), { phase: "Succeeded", conditions: [] });
  takeCalls();
  await desired.requestTermination(web, { ...evicted, gracePeriodSeconds: 60 });
  await desired.requestTermination("job-1" as PodUid, evicted);
  await desired.requestTermination("none" as PodUid, evicted);
  expect(takeCalls()).toEqual([]);
});

test("a static pod that the node has ended starts again only with a changed manifest", async () => {
  const { desired, file } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  await desired.requestTermination(web, evicted);
  await file(fromFile("web"));
  expect(toDesiredPod(desired.get(web)).terminationRequest).toBeDefined();
  await file(fromFile("web", "web-1", { hostNetwork: true }));
  expect(toDesiredPod(desired.get(web))).toMatchObject({ revision: 1 });
  expect(toDesiredPod(desired.get(web)).terminationRequest).toBeUndefined();
});

test("a request saves the latest state of a pod whose manifest has changed meanwhile", async () => {
  const { desired, file, disk } = createDesiredNode();
  await desired.restore();
  await file(fromFile("web"));
  const changed = file(fromFile("web", "web-1", { hostNetwork: true }));
  const requested = desired.requestTermination(web, evicted);
  await Promise.all([changed, requested]);
  const next = createDesiredNode({ disk });
  await next.desired.restore();
  expect(next.desired.all()).toEqual(desired.all().map((pod) => ({ ...pod, isRestored: true })));
});
