import { describe, expect, test } from "bun:test";
import { errorOfStatus, KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { RateLimit } from "../../../kube/transport/flow-control.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { createPodStatusReporter } from "./status-reporter.ts";

const notFound = () => new KubeError("NOT_FOUND", 'pods "web" not found', { status: 404 });
const unreachable = () => new KubeError("UNREACHABLE", "connection refused");
const invalid = () => new KubeError("INVALID", "no", { status: 422, reason: "Invalid" });
const server = (retryAfterMs?: number) => new KubeError("SERVER", "it broke", { status: 500, retryAfterMs });

/** A node `n` with a watch of its pods in the API server. */
async function createFixture(rate?: RateLimit) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, ...(rate && { rates: { main: rate, events: undefined } }) });
  const saved: string[] = [];
  const reporter = createPodStatusReporter({
    kube,
    clock,
    log,
    random: () => 0,
    saveFinalStatus: async (uid, { phase }) => void saved.push(`${uid} ${phase}`),
  });
  const end = new AbortController();
  const all = new Map<string | undefined, Pod>();
  void kube.listAndWatch(
    pods(),
    { fieldSelector: "spec.nodeName=n" },
    {
      onReplaced: (listed, resourceVersion, isRolledBack) => {
        for (const pod of listed) all.set(pod.metadata.name, pod);
        for (const pod of listed) reporter.onObserved(pod, { resourceVersion, isRolledBack });
      },
      onChanged(kind, pod) {
        all.set(pod.metadata.name, pod);
        if (kind === "deleted") reporter.onDeleted(pod);
        else reporter.onObserved(pod);
      },
      onOutage: () => {},
      onRecovered: reporter.onRecovered,
    },
    end.signal,
  );
  await settlePromises();
  kube.calls.length = 0;

  const make = async (name: string, metadata: Partial<Pod["metadata"]> = {}): Promise<Pod> => {
    const spec = { containers: [{ name: "a", image: "busybox:1" }], nodeName: "n" };
    const pod = await kube.user.create(pods("shop"), { metadata: { name, namespace: "shop", ...metadata }, spec });
    await settlePromises();
    return pod;
  };
  const desiredOf = (pod: Pod, source: DesiredPod["source"] = { kind: "api" }): DesiredPod => ({
    uid: pod.metadata.uid as PodUid,
    pod,
    source,
    acceptedAt: clock.now(),
    revision: 0,
  });
  const setStatus = async (pod: Pod, status: PodStatus, stage: StageKind = "syncing") => {
    reporter.report(desiredOf(pod), status, stage);
    await settlePromises();
  };
  const stored = (name: string) => kube.user.get(pods("shop"), name);
  return {
    clock,
    log,
    kube,
    saved,
    reporter,
    make,
    setStatus,
    desiredOf,
    stored,
    end: () => end.abort(),
    phase: async (name: string) => (await stored(name)).status?.phase as string | undefined,
    /** The requests of this node since the last call. */
    requests: () => kube.calls.splice(0).filter((call) => !call.startsWith("watch") && !call.startsWith("list")),
  };
}
const statusOf = (phase: PodPhase, more: Partial<PodStatus> = {}): PodStatus => ({
  phase,
  conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
  ...more,
});

test("a status is sent with one patch and no read", async () => {
  const { make, setStatus, phase, requests } = await createFixture();
  const web = await make("web");
  await setStatus(web, statusOf("Running"));
  expect([await phase("web"), ...requests()]).toEqual(["Running", "patch pods/shop/web/status"]);
  await setStatus(web, statusOf("Running"));
  expect(requests()).toEqual([]);
});

test("no status is sent for a pod that cannot be observed", async () => {
  const { make, setStatus, requests } = await createFixture();
  await setStatus(await make("web"), { phase: "Pending", message: "the pod's containers cannot be observed yet" });
  expect(requests()).toEqual([]);
});

test("only the latest of the statuses reported during a patch is sent after it", async () => {
  const { kube, make, setStatus, phase, requests } = await createFixture();
  const web = await make("web");
  const answer = kube.hang("patch");
  await setStatus(web, statusOf("Pending", { message: "1" }));
  await setStatus(web, statusOf("Pending", { message: "2" }));
  await setStatus(web, statusOf("Running", { message: "3" }));
  expect(requests()).toHaveLength(1);
  answer();
  await settlePromises();
  expect([await phase("web"), ...requests()]).toEqual(["Running", "patch pods/shop/web/status"]);
});

describe("when the client's rate limit delays status patches", () => {
  const ready = (status: "True" | "False"): Partial<PodStatus> => ({
    conditions: [{ type: "Ready", status, lastTransitionTime: "2026-01-01T00:00:00Z" }],
  });
  /** Pods with unsent statuses; another pod's patch has used the only token. */
  async function flooded() {
    const fixture = await createFixture({ qps: 1, burst: 1 });
    await fixture.setStatus(await fixture.make("first"), statusOf("Running"));
    expect(fixture.requests()).toEqual(["patch pods/shop/first/status"]);
    const made: Pod[] = [];
    for (const name of ["a", "b", "c", "d", "e", "f"]) made.push(await fixture.make(name));
    for (const pod of made) await fixture.setStatus(pod, statusOf("Pending", { message: "1" }));
    expect(fixture.requests()).toEqual([]);
    const [a, b, c, d, e, f] = made;
    if (!(a && b && c && d && e && f)) throw new Error("six pods were made");
    return { ...fixture, made: { a, b, c, d, e, f } };
  }

  test("a delayed patch carries the latest status and its pod's uid", async () => {
    const { clock, setStatus, stored, requests, made, phase } = await flooded();
    await setStatus(made.a, statusOf("Pending", { message: "2" }));
    await setStatus(made.a, statusOf("Running", { message: "3" }));
    await clock.advance(1_000);
    expect([(await stored("a")).status?.message, await phase("a")]).toEqual(["3", "Running"]);
    expect(requests()).toEqual(["patch pods/shop/a/status"]);
    await clock.advance(60_000);
    expect(requests()).toEqual(["b", "c", "d", "e", "f"].map((name) => `patch pods/shop/${name}/status`));
  });

  test("a readiness change overtakes other delayed patches, which keep their order", async () => {
    const { clock, setStatus, requests, made } = await flooded();
    await setStatus(made.f, statusOf("Running", ready("True")));
    await clock.advance(1_000);
    expect(requests()).toEqual(["patch pods/shop/f/status"]);
    await setStatus(made.f, statusOf("Running", ready("False")));
    for (const pod of [made.c, made.d, made.e]) await setStatus(pod, statusOf("Running", ready("True")));
    await clock.advance(60_000);
    const names = requests().map((call) => call.split("/")[2]);
    expect(names).toEqual(["c", "d", "a", "e", "f", "b"]);
  });

  test("a delayed status that was reverted is not sent", async () => {
    const { clock, setStatus, made, kube } = await flooded();
    await clock.advance(60_000);
    await setStatus(made.a, statusOf("Running", { message: "2" }));
    await setStatus(made.b, statusOf("Running", { message: "2" }));
    await setStatus(made.b, statusOf("Pending", { message: "1" }));
    const before = (await kube.user.get(pods("shop"), "b")).metadata.resourceVersion;
    await clock.advance(60_000);
    expect((await kube.user.get(pods("shop"), "b")).metadata.resourceVersion).toBe(before);
  });

  test("a delayed status is not sent to a new pod of the same name", async () => {
    const { clock, made, kube, make, stored } = await flooded();
    await kube.user.delete(pods("shop"), "a", {
      gracePeriodSeconds: 0,
      preconditions: { uid: made.a.metadata.uid ?? "" },
    });
    await make("a");
    await clock.advance(60_000);
    expect((await stored("a")).status?.message).toBeUndefined();
  });
});

test("PodReadyToStartContainers is merged with the containers' start, or sent alone after a second", async () => {
  const { clock, make, setStatus, stored, requests } = await createFixture();
  const creating = statusOf("Pending", { startTime: "2026-01-01T00:00:00Z" });
  const sandbox = {
    ...creating,
    podIP: "10.0.0.2",
    podIPs: [{ ip: "10.0.0.2" }],
    conditions: [...(creating.conditions ?? []), { type: "PodReadyToStartContainers", status: "True" as const }],
  };
  const quick = await make("quick");
  const slow = await make("slow");
  for (const pod of [quick, slow]) await setStatus(pod, creating);
  expect(requests()).toEqual(["patch pods/shop/quick/status", "patch pods/shop/slow/status"]);
  for (const pod of [quick, slow]) await setStatus(pod, sandbox);
  await clock.advance(999);
  expect(requests()).toEqual([]);
  await setStatus(quick, { ...sandbox, phase: "Running" });
  expect(requests()).toEqual(["patch pods/shop/quick/status"]);
  await clock.advance(1);
  expect(requests()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status).toMatchObject({ phase: "Pending", podIP: "10.0.0.2" });
  // A status of the container does not wait.
  await setStatus(slow, { ...sandbox, podIP: "10.0.0.3", message: "no room" });
  expect(requests()).toEqual(["patch pods/shop/slow/status"]);
  await clock.advance(2_000);
  expect(requests()).toEqual([]);
});

test("a container's wait for its hook is merged with the hook's end, or sent alone after a second", async () => {
  const { clock, make, setStatus, stored, requests } = await createFixture();
  const waits = (reason: string, more: Partial<ContainerStatus> = {}): PodStatus => ({
    ...statusOf("Pending"),
    containerStatuses: [
      {
        name: "a",
        ready: false,
        restartCount: 0,
        image: "busybox:1",
        imageID: "",
        state: { waiting: { reason } },
        ...more,
      },
    ],
  });
  const hooked = waits("ContainerCreating", { containerID: "containerd://1", imageID: "sha256:1" });
  const [quick, slow, broken] = [await make("quick"), await make("slow"), await make("broken")];
  for (const pod of [quick, slow, broken]) await setStatus(pod, waits("ContainerCreating"));
  requests();
  for (const pod of [quick, slow]) await setStatus(pod, hooked);
  await clock.advance(999);
  expect(requests()).toEqual([]);
  const state = { running: { startedAt: "2026-01-01T00:00:00Z" } };
  await setStatus(quick, { ...waits("", { state }), phase: "Running" });
  // A reason that prevents the start does not wait.
  await setStatus(broken, waits("CreateContainerError"));
  expect(requests()).toEqual(["patch pods/shop/quick/status", "patch pods/shop/broken/status"]);
  await clock.advance(1);
  expect(requests()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status?.containerStatuses?.[0]?.containerID).toBe("containerd://1");
});

test("of many containers the first start and the last are reported at once, and those between once a second", async () => {
  const { clock, make, setStatus, stored, requests, reporter, end } = await createFixture();
  const web = await make("web");
  const containerOf = (name: string, state: ContainerStatus["state"]): ContainerStatus => ({
    ...{ name, ready: state?.running !== undefined, restartCount: 0, image: "busybox:1", imageID: "" },
    ...(state && { state }),
  });
  const names = Array.from({ length: 25 }, (_, index) => `c${index}`);
  const startedFirst = (count: number): PodStatus => ({
    ...statusOf(count === names.length ? "Running" : "Pending"),
    containerStatuses: names.map((name, index) =>
      containerOf(name, index < count ? { running: {} } : { waiting: { reason: "ContainerCreating" } }),
    ),
  });
  await setStatus(web, startedFirst(0));
  requests();
  const sent: (readonly [ms: number, running: number])[] = [];
  for (let count = 1; count <= names.length; count++) {
    await setStatus(web, startedFirst(count));
    for (let step = 0; step < 2; step++) {
      const running =
        (await stored("web")).status?.containerStatuses?.filter(({ state }) => state?.running).length ?? 0;
      if (requests().length > 0) sent.push([clock.elapsedMs, running]);
      if (step === 0) await clock.advance(100);
    }
  }
  expect(sent).toEqual([
    [0, 1],
    [1000, 10],
    [2000, 20],
    [2400, 25],
  ]);
  await clock.advance(5_000);
  expect(requests()).toEqual([]);
  reporter.stop();
  end();
});

test("the acknowledgement of a deletion is merged with the end, or sent alone after a second", async () => {
  const { clock, make, setStatus, stored, requests } = await createFixture();
  const running = statusOf("Running", { observedGeneration: 1 });
  const received = { ...running, observedGeneration: 2 };
  const quick = await make("quick");
  const slow = await make("slow");
  for (const pod of [quick, slow]) await setStatus(pod, running);
  requests();
  for (const pod of [quick, slow]) await setStatus(pod, received, "terminating");
  expect(requests()).toEqual([]);
  await setStatus(quick, { ...received, phase: "Succeeded" }, "terminated");
  expect(requests()).toEqual(["patch pods/shop/quick/status"]);
  await clock.advance(1_000);
  expect(requests()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status?.observedGeneration).toBe(2);
  // A changed condition does not wait.
  const unready = { type: "Ready", status: "False" as const };
  await setStatus(
    slow,
    { ...received, observedGeneration: 3, conditions: [...(received.conditions ?? []), unready] },
    "terminating",
  );
  expect(requests()).toEqual(["patch pods/shop/slow/status"]);
});

test("status patches of different pods do not wait for each other", async () => {
  const { kube, make, setStatus, requests } = await createFixture();
  const all = [await make("a"), await make("b"), await make("c")];
  kube.hang("patch");
  for (const pod of all) await setStatus(pod, statusOf("Running"));
  expect(requests()).toHaveLength(3);
});

test("a status reported before the watch shows its pod is sent when it does", async () => {
  const { reporter, desiredOf, make, kube, phase } = await createFixture();
  kube.silenceWatches();
  const web = await make("web");
  reporter.report(desiredOf(web), statusOf("Running"), "syncing");
  await settlePromises();
  expect(await phase("web")).toBe("Pending");
  reporter.onObserved(web);
  await settlePromises();
  expect(await phase("web")).toBe("Running");
});

test("a pod's status is sent again to a server restored from a backup", async () => {
  const { kube, clock, reporter, make, setStatus, phase, end } = await createFixture();
  const web = await make("web");
  const restore = kube.takeSnapshot();
  await setStatus(web, statusOf("Pending", { message: "1" }));
  await setStatus(web, statusOf("Running"));
  restore();
  expect(await phase("web")).toBe("Pending");
  // The watch resumes at a resourceVersion that lies in the future now, and is replaced when it stays silent.
  for (let minute = 0; minute < 10; minute += 1) await clock.advance(60_000);
  expect(await phase("web")).toBe("Running");
  reporter.stop();
  end();
});

test("a later list with an older pod replaces the known pod; an earlier list does not", async () => {
  const { kube, reporter, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await setStatus(web, statusOf("Running"));
  kube.hang("patch");
  requests();
  reporter.onObserved(web, { resourceVersion: web.metadata.resourceVersion ?? "", isRolledBack: false });
  await settlePromises();
  expect(requests()).toEqual([]);
  reporter.onObserved(web, { resourceVersion: "1000000000", isRolledBack: false });
  await settlePromises();
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
});

test("a status overwritten by another client is restored, and foreign fields stay", async () => {
  const { kube, make, setStatus, stored, requests } = await createFixture();
  await setStatus(await make("web"), statusOf("Running"));
  requests();
  const status = { phase: "Pending", conditions: [{ type: "example.com/lb", status: "True" }] };
  await kube.user.patch(pods("shop"), "web", { type: "strategic", subresource: "status", body: { status } });
  await settlePromises();
  const after = await stored("web");
  expect(after.status?.phase).toBe("Running");
  expect(after.status?.conditions?.map(({ type }) => type as string)).toEqual(["example.com/lb", "PodScheduled"]);
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
});

test("a watch event older than our last response is ignored", async () => {
  const { reporter, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await setStatus(web, statusOf("Running"));
  requests();
  reporter.onObserved(web);
  await settlePromises();
  expect(requests()).toEqual([]);
});

test("the read after a conflict does not replace a newer object that the watch delivers during it", async () => {
  const { kube, clock, make, setStatus, phase, requests } = await createFixture();
  const web = await make("web");
  const read = Promise.withResolvers<void>();
  kube.failures = { patch: [new KubeError("CONFLICT", "the object has been modified", { status: 409 })] };
  kube.after.get = () => read.promise;
  await setStatus(web, statusOf("Running"));
  // Another client writes the same status, so none is left to send.
  await kube.user.patch(pods("shop"), "web", {
    type: "strategic",
    subresource: "status",
    body: { status: statusOf("Running") },
  });
  await settlePromises();
  read.resolve();
  await clock.advance(10_000);
  expect([await phase("web"), ...requests()]).toEqual(["Running", "patch pods/shop/web/status", "get pods/shop/web"]);
});

test("a terminated pod is deleted once, after its cleanup and final status", async () => {
  const { kube, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await setStatus(web, statusOf("Running"));
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  requests();
  await setStatus(web, statusOf("Succeeded"), "terminating");
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
  await setStatus(web, statusOf("Succeeded"), "finished");
  expect(requests()).toEqual(["delete pods/shop/web"]);
  await settlePromises();
  expect([(await kube.user.list(pods(), {})).items.length, ...requests()]).toEqual([0]);
});

test("a pod held by finalizers is deleted once, and reports after its cleanup are ignored", async () => {
  const { kube, make, setStatus, phase, requests } = await createFixture();
  const web = await make("web", { finalizers: ["example.com/hold"] });
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  await setStatus(web, statusOf("Succeeded"), "finished");
  expect(requests()).toEqual(["patch pods/shop/web/status", "delete pods/shop/web"]);
  await setStatus(web, statusOf("Failed"), "finished");
  expect([await phase("web"), ...requests()]).toEqual(["Succeeded"]);
});

test("a pod whose watch shows the deletion late is read when a second deletion does not find it", async () => {
  const { kube, clock, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  kube.silenceWatches();
  await setStatus(web, statusOf("Succeeded"), "finished");
  requests();
  await clock.advance(1_900);
  expect(requests()).toEqual([]);
  await clock.advance(600_000);
  expect(requests()).toEqual(["delete pods/shop/web", "get pods/shop/web"]);
});

test("a deletion that a proxy has answered with success is sent again until the pod is gone, ever more rarely", async () => {
  const { kube, clock, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await setStatus(web, statusOf("Succeeded"), "terminated");
  requests();
  const { delete: deletePod } = kube;
  let swallowed = 3;
  kube.delete = (...call) => (swallowed-- > 0 ? Promise.resolve() : deletePod(...call));
  await setStatus(web, statusOf("Succeeded"), "finished");
  await clock.advance(13_900);
  expect([swallowed, ...requests()]).toEqual([0]);
  await clock.advance(200);
  expect([(await kube.user.list(pods(), {})).items.length, ...requests()]).toEqual([0, "delete pods/shop/web"]);
});

test("a pod that a lagging API server does not find at first is deleted later", async () => {
  const { kube, clock, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await setStatus(web, statusOf("Succeeded"), "terminated");
  kube.failures = { delete: [notFound()] };
  requests();
  await setStatus(web, statusOf("Succeeded"), "finished");
  expect(requests()).toEqual(["delete pods/shop/web", "get pods/shop/web"]);
  await clock.advance(1000);
  expect([(await kube.user.list(pods(), {})).items.length, ...requests()]).toEqual([0, "delete pods/shop/web"]);
});

test("a pod whose deletion was confirmed late is dropped, and reported again to a restored server that has it", async () => {
  const { kube, reporter, desiredOf, make, setStatus, phase } = await createFixture();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  const restore = kube.takeSnapshot();
  kube.silenceWatches();
  // The response was lost, and the request was repeated.
  kube.after.delete = () => {
    throw notFound();
  };
  reporter.report(desiredOf(web), statusOf("Succeeded"), "finished");
  reporter.onPodRemoved(web.metadata.uid as PodUid);
  await settlePromises();
  reporter.onDeleted(web);
  restore();
  reporter.onObserved(web);
  await setStatus(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
});

test("a report after cleanup does not replace the final status", async () => {
  const { kube, clock, make, setStatus, phase } = await createFixture();
  const web = await make("web", { finalizers: ["example.com/hold"] });
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  kube.failures = { patch: [unreachable()] };
  await setStatus(web, statusOf("Succeeded"), "finished");
  await setStatus(web, statusOf("Failed"), "finished");
  await clock.advance(1000);
  expect(await phase("web")).toBe("Succeeded");
});

test("a status reported at any moment of a send is sent", async () => {
  for (let moment = 0; moment < 60; moment++) {
    const { make, reporter, desiredOf, phase } = await createFixture();
    const web = await make("web");
    reporter.report(desiredOf(web), statusOf("Pending", { message: "1" }), "syncing");
    for (let turn = 0; turn < moment; turn++) await Promise.resolve();
    reporter.report(desiredOf(web), statusOf("Running"), "syncing");
    await settlePromises();
    expect(`${moment} ${await phase("web")}`).toBe(`${moment} Running`);
  }
});

test("a pod without a deletionTimestamp is not deleted", async () => {
  const { make, setStatus, requests } = await createFixture();
  await setStatus(await make("web"), statusOf("Failed"), "terminated");
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
});

test("a status is not sent to a new pod of the same name", async () => {
  const { kube, reporter, make, setStatus, phase, requests } = await createFixture();
  kube.silenceWatches();
  const first = await make("web");
  reporter.onObserved(first);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web");
  await setStatus(first, statusOf("Running"));
  expect(await phase("web")).toBe("Pending");
  expect(requests()).toEqual(["patch pods/shop/web/status", "get pods/shop/web"]);
  await setStatus(first, statusOf("Failed"));
  expect(requests()).toEqual([]);
});

test("no status is sent for a deleted pod", async () => {
  const { kube, make, setStatus, clock, requests } = await createFixture();
  const web = await make("web");
  kube.silenceWatches();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await setStatus(web, statusOf("Running"));
  await clock.advance(60_000);
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
});

test("an invalid response delays only its pod and is logged once", async () => {
  const { kube, clock, log, make, setStatus, phase, stored } = await createFixture();
  const odd = await make("odd");
  const web = await make("web");
  const { patch } = kube;
  let lies = 0;
  kube.patch = async (resource, name, body, options) => {
    const answer = await patch(resource, name, body, options);
    if (name !== "odd" || lies > 1) return answer;
    lies += 1;
    // A very high resourceVersion, which would count as the latest.
    return { ...answer, metadata: { ...answer.metadata, resourceVersion: "99" }, status: { conditions: 7 } };
  };
  kube.silenceWatches();
  await setStatus(odd, statusOf("Pending", { message: "1" }));
  await setStatus(odd, statusOf("Running"));
  await setStatus(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
  await clock.advance(10_000);
  expect((await stored("odd")).status).toMatchObject({ phase: "Running" });
  expect([lies, log.takeLines()]).toEqual([2, ["warn: cannot send the pod's status to the API server"]]);
});

test("a pod whose patch cannot be computed delays only itself and is logged once", async () => {
  const { reporter, clock, log, make, setStatus, phase } = await createFixture();
  const odd = await make("odd");
  const web = await make("web");
  reporter.onObserved({
    ...odd,
    metadata: { ...odd.metadata, resourceVersion: "99" },
    status: { conditions: 7 as never },
  });
  await setStatus(odd, statusOf("Running"));
  await clock.advance(10_000);
  await setStatus(web, statusOf("Running"));
  expect([await phase("odd"), await phase("web")]).toEqual(["Pending", "Running"]);
  reporter.onObserved({ ...odd, metadata: { ...odd.metadata, resourceVersion: "100" } });
  await clock.advance(10_000);
  expect([await phase("odd"), log.takeLines()]).toEqual([
    "Running",
    ["warn: cannot send the pod's status to the API server"],
  ]);
});

test("a failed patch is recomputed and retried with growing delays, and logged once", async () => {
  const { kube, clock, log, make, setStatus, phase, requests } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [server(), server(), server()] };
  await setStatus(web, statusOf("Pending", { message: "1" }));
  await setStatus(web, statusOf("Running"));
  expect(requests()).toHaveLength(1);
  await clock.advance(100);
  await clock.advance(200);
  expect(requests()).toHaveLength(2);
  expect(await phase("web")).toBe("Pending");
  await clock.advance(400);
  expect([await phase("web"), ...requests()]).toEqual(["Running", "patch pods/shop/web/status"]);
  expect(log.takeLines()).toEqual(["warn: cannot send the pod's status to the API server"]);
});

test("a status patch honours Retry-After", async () => {
  const { kube, clock, make, setStatus, requests } = await createFixture();
  kube.failures = { patch: [server(5000)] };
  await setStatus(await make("web"), statusOf("Running"));
  await clock.advance(4900);
  expect(requests()).toHaveLength(1);
  await clock.advance(100);
  expect(requests()).toHaveLength(1);
});

test("patches that failed in an outage are retried as soon as it ends, without a log line", async () => {
  const { kube, clock, log, reporter, make, setStatus, phase } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: Array.from({ length: 8 }, unreachable) };
  await setStatus(web, statusOf("Running"));
  await clock.advance(10_000);
  kube.failures = {};
  reporter.onRecovered();
  await settlePromises();
  expect(await phase("web")).toBe("Running");
  expect(log.takeLines()).toEqual([]);
});

test("a rejected status is not sent again until it changes", async () => {
  const { kube, clock, make, setStatus, phase, requests } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [invalid()] };
  await setStatus(web, statusOf("Pending", { message: "bad" }));
  await clock.advance(60_000);
  expect(requests()).toHaveLength(1);
  await setStatus(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
});

test("a rejected status is sent again after five minutes", async () => {
  const { kube, clock, reporter, make, setStatus, phase, end } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [invalid()] };
  await setStatus(web, statusOf("Running"));
  await clock.advance(299_000);
  expect(await phase("web")).toBe("Pending");
  await clock.advance(1_000);
  expect(await phase("web")).toBe("Running");
  reporter.stop();
  end();
});

for (const [who, error, retriesMs] of [
  ["a proxy answers 418", () => errorOfStatus("PATCH", 418, {}), [100, 200, 400]],
  ["a proxy answers 404", () => errorOfStatus("PATCH", 404, {}), [100, 200, 400]],
  ["a proxy answers 409", () => errorOfStatus("PATCH", 409, {}), [100, 200, 400]],
  ["a proxy answers 422", () => errorOfStatus("PATCH", 422, {}), [100, 200, 400]],
  [
    "the API server answers BadRequest",
    () => errorOfStatus("PATCH", 400, { reason: "BadRequest" }),
    [1000, 2000, 4000],
  ],
] as const)
  test(`a status that ${who} to is sent again soon`, async () => {
    const { kube, clock, make, setStatus, phase, requests } = await createFixture();
    const web = await make("web");
    kube.failures = { patch: retriesMs.map(error) };
    await setStatus(web, statusOf("Running"));
    for (const ms of retriesMs) {
      expect([await phase("web"), ...requests()]).toEqual(["Pending", "patch pods/shop/web/status"]);
      await clock.advance(ms - 1);
      expect(requests()).toEqual([]);
      await clock.advance(1);
    }
    expect([await phase("web"), ...requests()]).toEqual(["Running", "patch pods/shop/web/status"]);
  });

test("another client's write does not cause a rejected status to be sent again", async () => {
  const { kube, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [invalid()] };
  await setStatus(web, statusOf("Running"));
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { labels: { a: "b" } } } });
  await settlePromises();
  expect(requests()).toEqual(["patch pods/shop/web/status"]);
});

test("a deleted pod whose final status is rejected sends only its phase and is deleted", async () => {
  const { kube, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await settlePromises();
  const { patch } = kube;
  const sent: unknown[] = [];
  kube.patch = async (resource, name, each, options) => {
    const body = typeof each.body === "function" ? each.body() : each.body;
    sent.push(body);
    if (JSON.stringify(body).includes("bad")) throw invalid();
    return await patch(resource, name, each, options);
  };
  await setStatus(web, statusOf("Failed", { message: "bad" }), "finished");
  expect(sent[1]).toEqual({ status: { phase: "Failed" } });
  expect([(await kube.user.list(pods(), {})).items.length, ...requests()]).toEqual([
    0,
    "patch pods/shop/web/status",
    "delete pods/shop/web",
  ]);
});

test("a patch that the server accepts and reverts is not sent again", async () => {
  const { kube, make, setStatus, requests } = await createFixture();
  const web = await make("web");
  const { patch } = kube;
  let times = 0;
  kube.patch = async (resource, name, each, options) => {
    await patch(resource, name, each, options);
    times += 1;
    if (times > 50) throw new KubeError("NOT_FOUND", "enough");
    const body = { status: { message: null } };
    return await kube.user.patch(resource, name, { type: "strategic", subresource: "status", body });
  };
  await setStatus(web, statusOf("Running", { message: "who will take this away?" }));
  expect(requests()).toEqual(["patch pods/shop/web/status", "patch pods/shop/web/status"]);
});

test("a status that another writer keeps overwriting backs off, and a new status is sent at once", async () => {
  const { kube, clock, reporter, make, setStatus, stored, requests, end } = await createFixture();
  const web = await make("web");
  let left = 500;
  const body = { status: { phase: "Pending", message: "no" } };
  kube.after.patch = async () => {
    left -= 1;
    if (left > 0) await kube.user.patch(pods("shop"), "web", { type: "strategic", subresource: "status", body });
  };
  await setStatus(web, statusOf("Running"));
  expect(requests()).toHaveLength(3);
  for (let minute = 0; minute < 60; minute += 1) await clock.advance(60_000);
  expect(requests().length).toBeLessThan(70);
  left = 0;
  await setStatus(web, statusOf("Running", { message: "new" }));
  expect((await stored("web")).status?.message).toBe("new");
  reporter.stop();
  end();
});

test("an applied patch without a response is read before the next patch", async () => {
  const { kube, clock, make, setStatus, stored } = await createFixture();
  const web = await make("web");
  const at = (status: "True" | "False", second: number) => {
    const lastTransitionTime = `2026-01-01T00:00:0${second}Z`;
    return statusOf("Running", { conditions: [{ type: "Ready", status, lastTransitionTime }] });
  };
  await setStatus(web, at("False", 1));
  kube.silenceWatches();
  kube.after.patch = () => {
    throw unreachable();
  };
  await setStatus(web, at("True", 3));
  kube.after = {};
  await setStatus(web, at("False", 5));
  await clock.advance(5000);
  const conditions = (await stored("web")).status?.conditions;
  expect(conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime).toBe("2026-01-01T00:00:05Z");
});

describe("before a deleted pod's last container is removed, its final status", () => {
  const deleted = async () => {
    const fixture = await createFixture();
    const pod = await fixture.make("a");
    await fixture.kube.user.delete(pods("shop"), "a", { gracePeriodSeconds: 30 });
    await settlePromises();
    const state = { isSecured: false };
    const secure = async () => {
      void fixture.reporter
        .ensureFinalStatusSaved(pod.metadata.uid as PodUid)
        .then(() => Object.assign(state, { isSecured: true }));
      await settlePromises();
    };
    return { ...fixture, pod, state, secure, last: [`${pod.metadata.uid} Failed`] };
  };

  test("is saved if it cannot be sent", async () => {
    const { kube, saved, pod, setStatus, state, secure, last } = await deleted();
    kube.failures = { patch: [unreachable()] };
    await setStatus(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([saved, state.isSecured]).toEqual([last, true]);
  });

  test("is saved if the response takes longer than a second", async () => {
    const { kube, clock, saved, pod, setStatus, state, secure, last } = await deleted();
    kube.hang("patch");
    await setStatus(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([saved, state.isSecured]).toEqual([[], false]);
    await clock.advance(1000);
    expect([saved, state.isSecured]).toEqual([last, true]);
  });

  test("is saved if the next attempt comes later", async () => {
    const { kube, saved, pod, setStatus, state, secure, last } = await deleted();
    kube.failures = { patch: [unreachable()] };
    await setStatus(pod, statusOf("Running"), "terminating");
    await setStatus(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([saved, state.isSecured]).toEqual([last, true]);
  });

  test("is sent and not saved if the API server responds", async () => {
    const { saved, pod, setStatus, state, secure } = await deleted();
    await setStatus(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([saved, state.isSecured]).toEqual([[], true]);
  });
});

test("a static pod's status is sent to its mirror, and again to a new mirror", async () => {
  const { kube, reporter, make, desiredOf, phase, requests } = await createFixture();
  const hash = "0a1b" as PodUid;
  const annotations = { "kubernetes.io/config.mirror": hash };
  const mirror = await make("web", { annotations });
  const desired = { ...desiredOf(mirror, { kind: "file", path: "/m" }), uid: hash };
  reporter.report(desired, statusOf("Running"), "syncing");
  await settlePromises();
  expect(await phase("web")).toBe("Running");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web", { annotations });
  expect(await phase("web")).toBe("Running");
  reporter.onPodRemoved(hash);
  requests();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web", { annotations });
  expect([await phase("web"), ...requests()]).toEqual(["Pending"]);
});

test("a static pod that returns under its uid is reported to the mirror that stayed", async () => {
  const { reporter, make, desiredOf, phase } = await createFixture();
  const hash = "0a1b" as PodUid;
  const mirror = await make("web", { annotations: { "kubernetes.io/config.mirror": hash } });
  const desired = { ...desiredOf(mirror, { kind: "file", path: "/m" }), uid: hash };
  reporter.report(desired, statusOf("Pending", { message: "first" }), "finished");
  await settlePromises();
  reporter.onPodRemoved(hash);
  reporter.report(desired, statusOf("Running"), "syncing");
  await settlePromises();
  expect(await phase("web")).toBe("Running");
});

test("stop does not wait for the read after a conflict", async () => {
  const { kube, reporter, make, setStatus, end } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [new KubeError("CONFLICT", "the object has been modified", { status: 409 })] };
  kube.hang("get");
  await setStatus(web, statusOf("Running"));
  end();
  reporter.stop();
  let isSettled = false;
  void reporter.settled().then(() => (isSettled = true));
  await settlePromises();
  expect(isSettled).toBe(true);
});

test("after stop nothing is sent and no timer is left", async () => {
  const { kube, clock, reporter, make, setStatus, end, requests } = await createFixture();
  const web = await make("web");
  kube.failures = { patch: [unreachable()] };
  await setStatus(web, statusOf("Running"));
  reporter.stop();
  end();
  await reporter.settled();
  await clock.advance(100_000);
  expect(requests()).toHaveLength(1);
  expect(clock.pendingTimers).toBe(0);
});
