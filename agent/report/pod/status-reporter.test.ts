import { describe, expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import type { Rate } from "../../../kube/rate.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { createPodStatusReport } from "./status-reporter.ts";

const notFound = () => new KubeError("NOT_FOUND", 'pods "web" not found', { status: 404 });
const unreachable = () => new KubeError("UNREACHABLE", "connection refused");
const server = (retryAfterMs?: number) => new KubeError("SERVER", "it broke", { status: 500, retryAfterMs });

/** A node `n` and its API server, which tells by its watch of every pod of the node. */
async function createScene(rate?: Rate) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, ...(rate && { rates: { main: rate, events: undefined } }) });
  const kept: string[] = [];
  const report = createPodStatusReport({
    kube,
    clock,
    log,
    random: () => 0,
    keepLast: async (uid, { phase }) => void kept.push(`${uid} ${phase}`),
  });
  const end = new AbortController();
  const all = new Map<string | undefined, Pod>();
  void kube.follow(
    pods(),
    { fieldSelector: "spec.nodeName=n" },
    {
      replaced: (told, resourceVersion, hasGoneBack) => {
        for (const pod of told) all.set(pod.metadata.name, pod);
        for (const pod of told) report.seen(pod, { resourceVersion, hasGoneBack });
      },
      changed(kind, pod) {
        all.set(pod.metadata.name, pod);
        if (kind === "deleted") report.gone(pod);
        else report.seen(pod);
      },
      away: () => {},
      back: report.back,
    },
    end.signal,
  );
  await rest();
  kube.calls.length = 0;

  const make = async (name: string, metadata: Partial<Pod["metadata"]> = {}): Promise<Pod> => {
    const spec = { containers: [{ name: "a", image: "busybox:1" }], nodeName: "n" };
    const pod = await kube.user.create(pods("shop"), { metadata: { name, namespace: "shop", ...metadata }, spec });
    await rest();
    return pod;
  };
  const desiredOf = (pod: Pod, source: DesiredPod["source"] = { kind: "api" }): DesiredPod => ({
    uid: pod.metadata.uid as PodUid,
    pod,
    source,
    acceptedAt: clock.now(),
    revision: 0,
  });
  const say = async (pod: Pod, status: PodStatus, stage: StageKind = "syncing") => {
    report.report(desiredOf(pod), status, stage);
    await rest();
  };
  const stored = (name: string) => kube.user.get(pods("shop"), name);
  return {
    clock,
    log,
    kube,
    kept,
    report,
    make,
    say,
    desiredOf,
    stored,
    end: () => end.abort(),
    phase: async (name: string) => (await stored(name)).status?.phase as string | undefined,
    /** What this node has asked of the API server since the last time. */
    told: () => kube.calls.splice(0).filter((call) => !call.startsWith("watch") && !call.startsWith("list")),
  };
}
const statusOf = (phase: PodPhase, more: Partial<PodStatus> = {}): PodStatus => ({
  phase,
  conditions: [{ type: "PodScheduled", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" }],
  ...more,
});

test("a status is told by one patch, and nothing is asked for", async () => {
  const { make, say, phase, told } = await createScene();
  const web = await make("web");
  await say(web, statusOf("Running"));
  expect([await phase("web"), ...told()]).toEqual(["Running", "patch pods/shop/web/status"]);
  await say(web, statusOf("Running"));
  expect(told()).toEqual([]);
});

test("a pod that cannot be looked at is not told of", async () => {
  const { make, say, told } = await createScene();
  await say(await make("web"), { phase: "Pending", message: "what of the pod runs is not known yet" });
  expect(told()).toEqual([]);
});

test("of what is said while a patch is under way only the latest is sent, after it", async () => {
  const { kube, make, say, phase, told } = await createScene();
  const web = await make("web");
  const answer = kube.hang("patch");
  await say(web, statusOf("Pending", { message: "1" }));
  await say(web, statusOf("Pending", { message: "2" }));
  await say(web, statusOf("Running", { message: "3" }));
  expect(told()).toHaveLength(1);
  answer();
  await rest();
  expect([await phase("web"), ...told()]).toEqual(["Running", "patch pods/shop/web/status"]);
});

describe("where more is to be told than the client's rate lets through", () => {
  const ready = (status: "True" | "False"): Partial<PodStatus> => ({
    conditions: [{ type: "Ready", status, lastTransitionTime: "2026-01-01T00:00:00Z" }],
  });
  /** Pods, each with something to tell, of which none is told yet: another one's word took the one token that there was. */
  async function flooded() {
    const scene = await createScene({ qps: 1, burst: 1 });
    await scene.say(await scene.make("first"), statusOf("Running"));
    expect(scene.told()).toEqual(["patch pods/shop/first/status"]);
    const made: Pod[] = [];
    for (const name of ["a", "b", "c", "d", "e", "f"]) made.push(await scene.make(name));
    for (const pod of made) await scene.say(pod, statusOf("Pending", { message: "1" }));
    expect(scene.told()).toEqual([]);
    const [a, b, c, d, e, f] = made;
    if (!(a && b && c && d && e && f)) throw new Error("six pods were made");
    return { ...scene, made: { a, b, c, d, e, f } };
  }

  test("what is sent is the latest word when its turn comes, with the uid of its pod", async () => {
    const { clock, say, stored, told, made, phase } = await flooded();
    await say(made.a, statusOf("Pending", { message: "2" }));
    await say(made.a, statusOf("Running", { message: "3" }));
    await clock.advance(1_000);
    expect([(await stored("a")).status?.message, await phase("a")]).toEqual(["3", "Running"]);
    expect(told()).toEqual(["patch pods/shop/a/status"]);
    await clock.advance(60_000);
    expect(told()).toEqual(["b", "c", "d", "e", "f"].map((name) => `patch pods/shop/${name}/status`));
  });

  test("that a pod becomes ready, or is so no longer, is told before other words that wait, of which each has its turn", async () => {
    const { clock, say, told, made } = await flooded();
    await say(made.f, statusOf("Running", ready("True")));
    await clock.advance(1_000);
    expect(told()).toEqual(["patch pods/shop/f/status"]);
    await say(made.f, statusOf("Running", ready("False")));
    for (const pod of [made.c, made.d, made.e]) await say(pod, statusOf("Running", ready("True")));
    await clock.advance(60_000);
    const names = told().map((call) => call.split("/")[2]);
    expect(names).toEqual(["c", "d", "a", "e", "f", "b"]);
  });

  test("a word that was taken back while it waited is not told", async () => {
    const { clock, say, made, kube } = await flooded();
    await clock.advance(60_000);
    await say(made.a, statusOf("Running", { message: "2" }));
    await say(made.b, statusOf("Running", { message: "2" }));
    await say(made.b, statusOf("Pending", { message: "1" }));
    const before = (await kube.user.get(pods("shop"), "b")).metadata.resourceVersion;
    await clock.advance(60_000);
    expect((await kube.user.get(pods("shop"), "b")).metadata.resourceVersion).toBe(before);
  });

  test("a pod that took the place of another while its word waited is not told of it", async () => {
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

test("that a sandbox is there is told with the start of its containers, and by itself where that takes more than a second", async () => {
  const { clock, make, say, stored, told } = await createScene();
  const creating = statusOf("Pending", { startTime: "2026-01-01T00:00:00Z" });
  const sandbox = {
    ...creating,
    podIP: "10.0.0.2",
    podIPs: [{ ip: "10.0.0.2" }],
    conditions: [...(creating.conditions ?? []), { type: "PodReadyToStartContainers", status: "True" as const }],
  };
  const quick = await make("quick");
  const slow = await make("slow");
  for (const pod of [quick, slow]) await say(pod, creating);
  expect(told()).toEqual(["patch pods/shop/quick/status", "patch pods/shop/slow/status"]);
  for (const pod of [quick, slow]) await say(pod, sandbox);
  await clock.advance(999);
  expect(told()).toEqual([]);
  await say(quick, { ...sandbox, phase: "Running" });
  expect(told()).toEqual(["patch pods/shop/quick/status"]);
  await clock.advance(1);
  expect(told()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status).toMatchObject({ phase: "Pending", podIP: "10.0.0.2" });
  // What was said of the container meanwhile does not wait.
  await say(slow, { ...sandbox, podIP: "10.0.0.3", message: "no room" });
  expect(told()).toEqual(["patch pods/shop/slow/status"]);
  await clock.advance(2_000);
  expect(told()).toEqual([]);
});

test("that a container waits for its hook is told with the end of the hook, and by itself where that takes more than a second", async () => {
  const { clock, make, say, stored, told } = await createScene();
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
  for (const pod of [quick, slow, broken]) await say(pod, waits("ContainerCreating"));
  told();
  for (const pod of [quick, slow]) await say(pod, hooked);
  await clock.advance(999);
  expect(told()).toEqual([]);
  const state = { running: { startedAt: "2026-01-01T00:00:00Z" } };
  await say(quick, { ...waits("", { state }), phase: "Running" });
  // What keeps it from starting does not wait.
  await say(broken, waits("CreateContainerError"));
  expect(told()).toEqual(["patch pods/shop/quick/status", "patch pods/shop/broken/status"]);
  await clock.advance(1);
  expect(told()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status?.containerStatuses?.[0]?.containerID).toBe("containerd://1");
});

test("that a deletion was heard is told with the end, and by itself where that takes more than a second", async () => {
  const { clock, make, say, stored, told } = await createScene();
  const running = statusOf("Running", { observedGeneration: 1 });
  const heard = { ...running, observedGeneration: 2 };
  const quick = await make("quick");
  const slow = await make("slow");
  for (const pod of [quick, slow]) await say(pod, running);
  told();
  for (const pod of [quick, slow]) await say(pod, heard, "terminating");
  expect(told()).toEqual([]);
  await say(quick, { ...heard, phase: "Succeeded" }, "terminated");
  expect(told()).toEqual(["patch pods/shop/quick/status"]);
  await clock.advance(1_000);
  expect(told()).toEqual(["patch pods/shop/slow/status"]);
  expect((await stored("slow")).status?.observedGeneration).toBe(2);
  // A condition that has changed does not wait.
  const unready = { type: "Ready", status: "False" as const };
  await say(
    slow,
    { ...heard, observedGeneration: 3, conditions: [...(heard.conditions ?? []), unready] },
    "terminating",
  );
  expect(told()).toEqual(["patch pods/shop/slow/status"]);
});

test("pods do not wait for each other", async () => {
  const { kube, make, say, told } = await createScene();
  const all = [await make("a"), await make("b"), await make("c")];
  kube.hang("patch");
  for (const pod of all) await say(pod, statusOf("Running"));
  expect(told()).toHaveLength(3);
});

test("what was said before the API server shows the pod is told when it does", async () => {
  const { report, desiredOf, make, kube, phase } = await createScene();
  kube.silence();
  const web = await make("web");
  report.report(desiredOf(web), statusOf("Running"), "syncing");
  await rest();
  expect(await phase("web")).toBe("Pending");
  report.seen(web);
  await rest();
  expect(await phase("web")).toBe("Running");
});

test("a pod of a server that was restored from a backup is told of anew", async () => {
  const { kube, clock, report, make, say, phase, end } = await createScene();
  const web = await make("web");
  const restore = kube.backup();
  await say(web, statusOf("Pending", { message: "1" }));
  await say(web, statusOf("Running"));
  restore();
  expect(await phase("web")).toBe("Pending");
  // The watch goes on from a place that lies in the future now, and is given up when it is silent.
  for (let minute = 0; minute < 10; minute += 1) await clock.advance(60_000);
  expect(await phase("web")).toBe("Running");
  report.stop();
  end();
});

test("a list of a later state that has an earlier pod takes back what was known; an earlier list does not", async () => {
  const { kube, report, make, say, told } = await createScene();
  const web = await make("web");
  await say(web, statusOf("Running"));
  kube.hang("patch");
  told();
  report.seen(web, { resourceVersion: web.metadata.resourceVersion ?? "", hasGoneBack: false });
  await rest();
  expect(told()).toEqual([]);
  report.seen(web, { resourceVersion: "1000000000", hasGoneBack: false });
  await rest();
  expect(told()).toEqual(["patch pods/shop/web/status"]);
});

test("what somebody else writes over it is put right, and what they own stays", async () => {
  const { kube, make, say, stored, told } = await createScene();
  await say(await make("web"), statusOf("Running"));
  told();
  const status = { phase: "Pending", conditions: [{ type: "example.com/lb", status: "True" }] };
  await kube.user.patch(pods("shop"), "web", { type: "strategic", subresource: "status", body: { status } });
  await rest();
  const after = await stored("web");
  expect(after.status?.phase).toBe("Running");
  expect(after.status?.conditions?.map(({ type }) => type as string)).toEqual(["example.com/lb", "PodScheduled"]);
  expect(told()).toEqual(["patch pods/shop/web/status"]);
});

test("a word of the watch that is older than our last answer changes nothing", async () => {
  const { report, make, say, told } = await createScene();
  const web = await make("web");
  await say(web, statusOf("Running"));
  told();
  report.seen(web);
  await rest();
  expect(told()).toEqual([]);
});

test("a deleted pod is removed when nothing of it is left and its end was told, once", async () => {
  const { kube, make, say, told } = await createScene();
  const web = await make("web");
  await say(web, statusOf("Running"));
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  told();
  await say(web, statusOf("Succeeded"), "terminating");
  expect(told()).toEqual(["patch pods/shop/web/status"]);
  await say(web, statusOf("Succeeded"), "finished");
  expect(told()).toEqual(["delete pods/shop/web"]);
  await rest();
  expect([(await kube.user.list(pods(), {})).items.length, ...told()]).toEqual([0]);
});

test("a pod that finalizers hold is removed once; what is said of it afterwards, with nothing left to look at, is not told", async () => {
  const { kube, make, say, phase, told } = await createScene();
  const web = await make("web", { finalizers: ["example.com/hold"] });
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  await say(web, statusOf("Succeeded"), "finished");
  expect(told()).toEqual(["patch pods/shop/web/status", "delete pods/shop/web"]);
  await say(web, statusOf("Failed"), "finished");
  expect([await phase("web"), ...told()]).toEqual(["Succeeded"]);
});

test("a pod is removed once, however long its watch takes to say so", async () => {
  const { kube, clock, make, say, told } = await createScene();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  kube.silence();
  await say(web, statusOf("Succeeded"), "finished");
  await clock.advance(5000);
  expect(told().filter((call) => call.startsWith("delete"))).toEqual(["delete pods/shop/web"]);
});

test("a pod that an API server which lags behind does not find is removed all the same, once it does", async () => {
  const { kube, clock, make, say, told } = await createScene();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await say(web, statusOf("Succeeded"), "terminated");
  kube.failures = { delete: [notFound()] };
  told();
  await say(web, statusOf("Succeeded"), "finished");
  expect(told()).toEqual(["delete pods/shop/web", "get pods/shop/web"]);
  await clock.advance(1000);
  expect([(await kube.user.list(pods(), {})).items.length, ...told()]).toEqual([0, "delete pods/shop/web"]);
});

test("a pod whose removal was answered late is forgotten: should a restored server have it again, it is told of", async () => {
  const { kube, report, desiredOf, make, say, phase } = await createScene();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  const restore = kube.backup();
  kube.silence();
  // The answer was lost, and the request was sent again.
  kube.after.delete = () => {
    throw notFound();
  };
  report.report(desiredOf(web), statusOf("Succeeded"), "finished");
  report.finished(web.metadata.uid as PodUid);
  await rest();
  report.gone(web);
  restore();
  report.seen(web);
  await say(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
});

test("what is said of a pod of which nothing is left does not take the place of its last word", async () => {
  const { kube, clock, make, say, phase } = await createScene();
  const web = await make("web", { finalizers: ["example.com/hold"] });
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  kube.failures = { patch: [unreachable()] };
  await say(web, statusOf("Succeeded"), "finished");
  await say(web, statusOf("Failed"), "finished");
  await clock.advance(1000);
  expect(await phase("web")).toBe("Succeeded");
});

test("a word that comes at whatever moment is told", async () => {
  for (let moment = 0; moment < 60; moment++) {
    const { make, report, desiredOf, phase } = await createScene();
    const web = await make("web");
    report.report(desiredOf(web), statusOf("Pending", { message: "1" }), "syncing");
    for (let turn = 0; turn < moment; turn++) await Promise.resolve();
    report.report(desiredOf(web), statusOf("Running"), "syncing");
    await rest();
    expect(`${moment} ${await phase("web")}`).toBe(`${moment} Running`);
  }
});

test("a pod that was never deleted is not removed, whatever has become of it", async () => {
  const { make, say, told } = await createScene();
  await say(await make("web"), statusOf("Failed"), "terminated");
  expect(told()).toEqual(["patch pods/shop/web/status"]);
});

test("a pod of the same name that took its place is not told of", async () => {
  const { kube, report, make, say, phase, told } = await createScene();
  kube.silence();
  const first = await make("web");
  report.seen(first);
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web");
  await say(first, statusOf("Running"));
  expect(await phase("web")).toBe("Pending");
  expect(told()).toEqual(["patch pods/shop/web/status", "get pods/shop/web"]);
  await say(first, statusOf("Failed"));
  expect(told()).toEqual([]);
});

test("a pod that is gone is not told of again", async () => {
  const { kube, make, say, clock, told } = await createScene();
  const web = await make("web");
  kube.silence();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await say(web, statusOf("Running"));
  await clock.advance(60_000);
  expect(told()).toEqual(["patch pods/shop/web/status"]);
});

test("an answer that is no pod costs that pod a wait, said once, and no other pod anything", async () => {
  const { kube, clock, log, make, say, phase, stored } = await createScene();
  const odd = await make("odd");
  const web = await make("web");
  const { patch } = kube;
  let lies = 0;
  kube.patch = async (resource, name, body, options) => {
    const answer = await patch(resource, name, body, options);
    if (name !== "odd" || lies > 1) return answer;
    lies += 1;
    // Of a later version than any, so that it would be held for the latest.
    return { ...answer, metadata: { ...answer.metadata, resourceVersion: "99" }, status: { conditions: 7 } };
  };
  kube.silence();
  await say(odd, statusOf("Pending", { message: "1" }));
  await say(odd, statusOf("Running"));
  await say(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
  await clock.advance(10_000);
  expect((await stored("odd")).status).toMatchObject({ phase: "Running" });
  expect([lies, log.told()]).toEqual([2, ["warn: its status cannot be told to the API server"]]);
});

test("a pod of which no patch can be made costs itself a wait, said once, and no other pod anything", async () => {
  const { report, clock, log, make, say, phase } = await createScene();
  const odd = await make("odd");
  const web = await make("web");
  report.seen({ ...odd, metadata: { ...odd.metadata, resourceVersion: "99" }, status: { conditions: 7 as never } });
  await say(odd, statusOf("Running"));
  await clock.advance(10_000);
  await say(web, statusOf("Running"));
  expect([await phase("odd"), await phase("web")]).toEqual(["Pending", "Running"]);
  report.seen({ ...odd, metadata: { ...odd.metadata, resourceVersion: "100" } });
  await clock.advance(10_000);
  expect([await phase("odd"), log.told()]).toEqual(["Running", ["warn: its status cannot be told to the API server"]]);
});

test("what fails is sent again, later each time, as it is then; a broken server is told of once", async () => {
  const { kube, clock, log, make, say, phase, told } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [server(), server(), server()] };
  await say(web, statusOf("Pending", { message: "1" }));
  await say(web, statusOf("Running"));
  expect(told()).toHaveLength(1);
  await clock.advance(100);
  await clock.advance(200);
  expect(told()).toHaveLength(2);
  expect(await phase("web")).toBe("Pending");
  await clock.advance(400);
  expect([await phase("web"), ...told()]).toEqual(["Running", "patch pods/shop/web/status"]);
  expect(log.told()).toEqual(["warn: its status cannot be told to the API server"]);
});

test("who wants to be left alone is left alone", async () => {
  const { kube, clock, make, say, told } = await createScene();
  kube.failures = { patch: [server(5000)] };
  await say(await make("web"), statusOf("Running"));
  await clock.advance(4900);
  expect(told()).toHaveLength(1);
  await clock.advance(100);
  expect(told()).toHaveLength(1);
});

test("in an outage nobody waits longer than until the API server is back, and the log says nothing of it", async () => {
  const { kube, clock, log, report, make, say, phase } = await createScene();
  const web = await make("web");
  kube.failures = { patch: Array.from({ length: 8 }, unreachable) };
  await say(web, statusOf("Running"));
  await clock.advance(10_000);
  kube.failures = {};
  report.back();
  await rest();
  expect(await phase("web")).toBe("Running");
  expect(log.told()).toEqual([]);
});

test("a status that the server refuses is not sent again until there is another one", async () => {
  const { kube, clock, make, say, phase, told } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [new KubeError("INVALID", "no", { status: 422 })] };
  await say(web, statusOf("Pending", { message: "bad" }));
  await clock.advance(60_000);
  expect(told()).toHaveLength(1);
  await say(web, statusOf("Running"));
  expect(await phase("web")).toBe("Running");
});

test("a status that the server refuses is sent again after five minutes, since nobody tells when it would be taken", async () => {
  const { kube, clock, report, make, say, phase, end } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [new KubeError("INVALID", "no", { status: 422 })] };
  await say(web, statusOf("Running"));
  await clock.advance(299_000);
  expect(await phase("web")).toBe("Pending");
  await clock.advance(1_000);
  expect(await phase("web")).toBe("Running");
  report.stop();
  end();
});

test("a refused status is not sent again because somebody else writes to the pod", async () => {
  const { kube, make, say, told } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [new KubeError("INVALID", "no", { status: 422 })] };
  await say(web, statusOf("Running"));
  await kube.user.patch(pods("shop"), "web", { type: "merge", body: { metadata: { labels: { a: "b" } } } });
  await rest();
  expect(told()).toEqual(["patch pods/shop/web/status"]);
});

test("a deleted pod whose last status is refused goes all the same: that it has ended is told alone", async () => {
  const { kube, make, say, told } = await createScene();
  const web = await make("web");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 30 });
  await rest();
  const { patch } = kube;
  const sent: unknown[] = [];
  kube.patch = async (resource, name, each, options) => {
    const body = typeof each.body === "function" ? each.body() : each.body;
    sent.push(body);
    if (JSON.stringify(body).includes("bad")) throw new KubeError("INVALID", "no", { status: 422 });
    return await patch(resource, name, each, options);
  };
  await say(web, statusOf("Failed", { message: "bad" }), "finished");
  expect(sent[1]).toEqual({ status: { phase: "Failed" } });
  expect([(await kube.user.list(pods(), {})).items.length, ...told()]).toEqual([
    0,
    "patch pods/shop/web/status",
    "delete pods/shop/web",
  ]);
});

test("what the server takes and changes again is not sent again", async () => {
  const { kube, make, say, told } = await createScene();
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
  await say(web, statusOf("Running", { message: "who will take this away?" }));
  expect(told()).toEqual(["patch pods/shop/web/status", "patch pods/shop/web/status"]);
});

test("a second writer who always has another opinion is answered less and less often, and a new word waits for nobody", async () => {
  const { kube, clock, report, make, say, stored, told, end } = await createScene();
  const web = await make("web");
  let left = 500;
  const body = { status: { phase: "Pending", message: "no" } };
  kube.after.patch = async () => {
    left -= 1;
    if (left > 0) await kube.user.patch(pods("shop"), "web", { type: "strategic", subresource: "status", body });
  };
  await say(web, statusOf("Running"));
  expect(told()).toHaveLength(3);
  for (let minute = 0; minute < 60; minute += 1) await clock.advance(60_000);
  expect(told().length).toBeLessThan(70);
  left = 0;
  await say(web, statusOf("Running", { message: "new" }));
  expect((await stored("web")).status?.message).toBe("new");
  report.stop();
  end();
});

test("a status that was taken, and whose answer was lost, is what the next one goes by", async () => {
  const { kube, clock, make, say, stored } = await createScene();
  const web = await make("web");
  const at = (status: "True" | "False", second: number) => {
    const lastTransitionTime = `2026-01-01T00:00:0${second}Z`;
    return statusOf("Running", { conditions: [{ type: "Ready", status, lastTransitionTime }] });
  };
  await say(web, at("False", 1));
  kube.silence();
  kube.after.patch = () => {
    throw unreachable();
  };
  await say(web, at("True", 3));
  kube.after = {};
  await say(web, at("False", 5));
  await clock.advance(5000);
  const conditions = (await stored("web")).status?.conditions;
  expect(conditions?.find(({ type }) => type === "Ready")?.lastTransitionTime).toBe("2026-01-01T00:00:05Z");
});

describe("before the last of a deleted pod goes from the node, its end", () => {
  const deleted = async () => {
    const scene = await createScene();
    const pod = await scene.make("a");
    await scene.kube.user.delete(pods("shop"), "a", { gracePeriodSeconds: 30 });
    await rest();
    const state = { isSecured: false };
    const secure = async () => {
      void scene.report.secured(pod.metadata.uid as PodUid).then(() => Object.assign(state, { isSecured: true }));
      await rest();
    };
    return { ...scene, pod, state, secure, last: [`${pod.metadata.uid} Failed`] };
  };

  test("is kept where it cannot be told", async () => {
    const { kube, kept, pod, say, state, secure, last } = await deleted();
    kube.failures = { patch: [unreachable()] };
    await say(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([kept, state.isSecured]).toEqual([last, true]);
  });

  test("is kept where the answer takes longer than a second", async () => {
    const { kube, clock, kept, pod, say, state, secure, last } = await deleted();
    kube.hang("patch");
    await say(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([kept, state.isSecured]).toEqual([[], false]);
    await clock.advance(1000);
    expect([kept, state.isSecured]).toEqual([last, true]);
  });

  test("is kept where the next attempt to tell anything comes later", async () => {
    const { kube, kept, pod, say, state, secure, last } = await deleted();
    kube.failures = { patch: [unreachable()] };
    await say(pod, statusOf("Running"), "terminating");
    await say(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([kept, state.isSecured]).toEqual([last, true]);
  });

  test("is told, and not kept, where the API server answers", async () => {
    const { kept, pod, say, state, secure } = await deleted();
    await say(pod, statusOf("Failed"), "terminating");
    await secure();
    expect([kept, state.isSecured]).toEqual([[], true]);
  });
});

test("a static pod is told of by its mirror, and anew by one that takes its place", async () => {
  const { kube, report, make, desiredOf, phase, told } = await createScene();
  const hash = "0a1b" as PodUid;
  const annotations = { "kubernetes.io/config.mirror": hash };
  const mirror = await make("web", { annotations });
  const desired = { ...desiredOf(mirror, { kind: "file", path: "/m" }), uid: hash };
  report.report(desired, statusOf("Running"), "syncing");
  await rest();
  expect(await phase("web")).toBe("Running");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web", { annotations });
  expect(await phase("web")).toBe("Running");
  report.finished(hash);
  told();
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await make("web", { annotations });
  expect([await phase("web"), ...told()]).toEqual(["Pending"]);
});

test("a static pod that begins anew under its uid is told of by the mirror that has stayed", async () => {
  const { report, make, desiredOf, phase } = await createScene();
  const hash = "0a1b" as PodUid;
  const mirror = await make("web", { annotations: { "kubernetes.io/config.mirror": hash } });
  const desired = { ...desiredOf(mirror, { kind: "file", path: "/m" }), uid: hash };
  report.report(desired, statusOf("Pending", { message: "first" }), "finished");
  await rest();
  report.finished(hash);
  report.report(desired, statusOf("Running"), "syncing");
  await rest();
  expect(await phase("web")).toBe("Running");
});

test("who asks what a conflict means and stops waits for no answer", async () => {
  const { kube, report, make, say, end } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [new KubeError("CONFLICT", "the object has been modified", { status: 409 })] };
  kube.hang("get");
  await say(web, statusOf("Running"));
  end();
  report.stop();
  let isSettled = false;
  void report.settled().then(() => (isSettled = true));
  await rest();
  expect(isSettled).toBe(true);
});

test("who has stopped sends nothing more, and leaves no timer", async () => {
  const { kube, clock, report, make, say, end, told } = await createScene();
  const web = await make("web");
  kube.failures = { patch: [unreachable()] };
  await say(web, statusOf("Running"));
  report.stop();
  end();
  await report.settled();
  await clock.advance(100_000);
  expect(told()).toHaveLength(1);
  expect(clock.timers).toBe(0);
});
