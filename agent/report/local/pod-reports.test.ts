import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { Taken } from "../../decide/pod/action-call.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { Obstacle } from "../../decide/pod/plan.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { createPodStories, type PodStoriesSettings } from "./pod-reports.ts";

const uid = "u" as PodUid;
const why = "the pod has none";
const runSandbox: Action = { kind: "runSandbox", attempt: 0, crashes: 0, why };
const create = (name: string, attempt = 0): Action => ({
  kind: "createContainer",
  name,
  attempt,
  sandboxId: "s" as SandboxId,
  podIPs: [],
  image: "i",
  imageRef: "r",
  crashes: 0,
  why: "it has not run yet",
});
const start = (name: string): Action => ({ kind: "startContainer", name, id: "c" as ContainerId, attempt: 0 });
const stopSandbox: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "its manifest is gone" };

function createScene() {
  const log = new FakeLog();
  const clock = new FakeClock();
  const told: string[] = [];
  const tellOfPod = (...[, pod, { reason, message }]: Parameters<PodStoriesSettings["tellOfPod"]>) =>
    void told.push(`${pod} ${reason}: ${message}`);
  const stories = createPodStories({ log, clock, tellOfPod });
  const desiredOf = (name: string): DesiredPod => ({
    uid: name as PodUid,
    pod: { metadata: { name, namespace: "shop", uid: name }, spec: { containers: [] } },
    source: { kind: "file", path: "/m" },
    acceptedAt: 0,
    revision: 0,
  });
  const report = (status: PodStatus, stage: StageKind = "syncing", name: string = uid, obstacle?: Obstacle) =>
    stories.report(name as PodUid, desiredOf(name), status, stage, obstacle);
  const took = (action: Action, ms = 1, result: Taken["result"] = { ok: true }) =>
    stories.took({ uid, pod: "shop/web", action, startedAt: 1000, endedAt: 1000 + ms, result });
  const steps = () =>
    stories
      .all()[0]
      ?.steps.map(({ what, container, ms }) => [what, container, ms].filter((each) => each !== undefined).join(" "));
  const reportTakenAway = (status: PodStatus) => {
    const termination = { requestedAt: 0, gracePeriodSeconds: 5, why: "it was deleted" };
    stories.report(uid, { ...desiredOf(uid), termination }, status, "terminating");
  };
  return { log, stories, report, reportTakenAway, took, steps };
}

test("what was done is one sentence an action, with its pod and how long it took", () => {
  const { log, took } = createScene();
  took(runSandbox, 84.6);
  expect(log.lines).toEqual([
    { level: "info", message: "run sandbox (attempt 0): the pod has none", fields: { pod: "shop/web", uid, ms: 85 } },
  ]);
});

test("what failed is a warning with its reason, and no step", () => {
  const { log, report, took, steps } = createScene();
  report({ phase: "Pending" });
  took(start("a"), 3, { ok: false, reason: "RunContainerError", message: "no such file", isOutage: false });
  expect(log.lines).toEqual([
    {
      level: "warn",
      message: "failed to start container a (attempt 0): no such file",
      fields: { pod: "shop/web", uid, ms: 3, reason: "RunContainerError" },
    },
  ]);
  expect(steps()).toEqual([]);
});

const failure = (message: string, isOutage = false) =>
  ({ ok: false, reason: "KillPodSandboxError", message, isOutage }) as const;

test("what fails in the same way again and again is told once, until it succeeds or fails in another way", () => {
  const { log, stories, took } = createScene();
  const levels = (...results: readonly Taken["result"][]) => {
    for (const result of results) took(stopSandbox, 1, result);
    return log.lines.splice(0).map(({ level }) => level);
  };
  const [same, other] = [failure("no network"), failure("no shim")];
  expect(levels(same, same, same)).toEqual(["warn", "debug", "debug"]);
  expect(levels(other, other, { ok: true }, other)).toEqual(["warn", "debug", "info", "warn"]);
  expect(levels("given up", failure("away", true), other)).toEqual(["debug", "debug", "debug"]);
  took({ ...stopSandbox, id: "t" as SandboxId }, 1, other);
  expect(log.told()).toEqual(["warn: failed to stop sandbox: its manifest is gone: no shim"]);
  stories.finished(uid);
  expect(levels(other)).toEqual(["warn"]);
});

test("what was given up is not worth a line, and a pod without a name is named by its uid alone", () => {
  const { log, stories, took } = createScene();
  took(runSandbox, 1, "given up");
  expect(log.told()).toEqual([]);
  stories.took({ uid, pod: "", action: stopSandbox, startedAt: 0, endedAt: 1, result: { ok: true } });
  expect(log.lines.at(-1)?.fields).toEqual({ uid, ms: 1 });
});

const phases: readonly [sentence: string, statuses: readonly PodStatus[], told: readonly string[]][] = [
  ["that a pod is pending at first is no news", [{ phase: "Pending" }], []],
  [
    "a change of phase is told once",
    [{ phase: "Pending" }, { phase: "Running" }, { phase: "Running", podIP: "1" }],
    ["info: the pod is Running"],
  ],
  ["a pod that is found running is told", [{ phase: "Running" }], ["info: the pod is Running"]],
  [
    "a pod that goes back to pending is told",
    [{ phase: "Running" }, { phase: "Pending" }],
    ["info: the pod is Running", "info: the pod is Pending"],
  ],
  [
    "a failure is a warning that says why",
    [{ phase: "Failed", reason: "DeadlineExceeded", message: "too long" }],
    ["warn: the pod has failed: too long"],
  ],
  ["a success is told", [{ phase: "Succeeded" }], ["info: the pod is Succeeded"]],
];
for (const [sentence, statuses, told] of phases)
  test(sentence, () => {
    const { log, report } = createScene();
    for (const status of statuses) report(status);
    expect(log.told()).toEqual([...told]);
  });

test("that a pod fails which was taken away is no news: what was done to it is told", () => {
  const { log, report, reportTakenAway } = createScene();
  report({ phase: "Running" });
  log.lines.length = 0;
  reportTakenAway({ phase: "Running" });
  reportTakenAway({ phase: "Failed" });
  expect(log.told()).toEqual([]);
});

test("steps are those of the latest start", () => {
  const { report, took, steps } = createScene();
  report({ phase: "Pending" });
  took({ kind: "prepareVolumes" }, 1);
  took({ kind: "pullImage", image: "i", why }, 900);
  took(runSandbox, 85);
  for (const name of ["a", "b"]) {
    took(create(name), 6);
    took(start(name), 35);
  }
  expect(steps()).toEqual([
    "volumes 1",
    "pull 900",
    "sandbox 85",
    "create a 6",
    "start a 35",
    "create b 6",
    "start b 35",
  ]);
  took(create("a", 1), 7);
  expect(steps()).toContain("create a 7");
  expect(steps()).toHaveLength(7);
  took(stopSandbox, 9);
  took(runSandbox, 80);
  expect(steps()).toEqual(["volumes 1", "pull 900", "sandbox 80"]);
});

test("pods are sorted by namespace and name, and those that were never reported are not shown", () => {
  const { stories, report, took } = createScene();
  for (const name of ["b", "c", "a"]) report({ phase: "Pending" }, "syncing", name);
  took(stopSandbox);
  expect(stories.all().map(({ pod }) => pod.metadata.name!)).toEqual(["a", "b", "c"]);
});

test("whoever listens hears of each change, not of the same word again, until it ends that", () => {
  const { stories, report } = createScene();
  let heard = 0;
  const end = stories.subscribe(() => {
    heard++;
  });
  const counts = [
    () => report({ phase: "Pending" }),
    () => report({ phase: "Pending" }),
    () => report({ phase: "Running" }),
    () => report({ phase: "Running" }, "terminating"),
    () => stories.finished(uid),
    () => stories.finished(uid),
  ].map((act) => {
    act();
    return heard;
  });
  expect(counts).toEqual([1, 1, 2, 3, 4, 4]);
  end();
  report({ phase: "Pending" });
  expect(heard).toBe(4);
});

test("what keeps a pod from ending is part of its word, and a change of it is news", () => {
  const { stories, report } = createScene();
  let heard = 0;
  stories.subscribe(() => {
    heard++;
  });
  const obstacles = [undefined, "no network", "no network", "no shim", undefined].map((message) => {
    const obstacle = message === undefined ? undefined : { reason: "KillPodSandboxError", message };
    report({ phase: "Running" }, "terminating", uid, obstacle);
    return stories.all()[0]?.obstacle?.message;
  });
  expect({ obstacles, heard }).toEqual({
    obstacles: [undefined, "no network", "no network", "no shim", undefined],
    heard: 4,
  });
});

test("the end of a pod is told once, and that of one which nobody wanted is not", () => {
  const { log, stories, report } = createScene();
  report({ phase: "Running" });
  log.told();
  stories.finished(uid);
  stories.finished(uid);
  stories.finished("other" as PodUid);
  expect(log.told()).toEqual(["info: the pod is gone"]);
  expect(stories.all()).toEqual([]);
});
