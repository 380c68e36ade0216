import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { BlockedReason } from "../../decide/pod/plan.ts";
import type { PodResource } from "../../decide/pod/resources.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { createPodReports, type PodReportsOptions } from "./pod-reports.ts";

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

function createFixture() {
  const log = new FakeLog();
  const clock = new FakeClock();
  const recordedEvents: string[] = [];
  const recordEvent = (...[, pod, { reason, message }]: Parameters<PodReportsOptions["recordEvent"]>) =>
    void recordedEvents.push(`${pod} ${reason}: ${message}`);
  const reports = createPodReports({ log, clock, recordEvent });
  const desiredOf = (name: string): DesiredPod => ({
    uid: name as PodUid,
    pod: { metadata: { name, namespace: "shop", uid: name }, spec: { containers: [] } },
    source: { kind: "file", path: "/m" },
    acceptedAt: 0,
    revision: 0,
  });
  const report = (status: PodStatus, stage: StageKind = "syncing", name: string = uid, blockedReason?: BlockedReason) =>
    reports.report(name as PodUid, desiredOf(name), status, stage, blockedReason);
  const finished = (action: Action, ms = 1, result: ActionFinished["result"] = { ok: true }) =>
    reports.onActionFinished({ uid, pod: "shop/web", action, startedAt: 1000, endedAt: 1000 + ms, result });
  const steps = () =>
    reports
      .all()[0]
      ?.steps.map(({ what, container, ms }) => [what, container, ms].filter((each) => each !== undefined).join(" "));
  const reportTerminating = (status: PodStatus) => {
    const termination = { requestedAt: 0, gracePeriodSeconds: 5, why: "it was deleted" };
    reports.report(uid, { ...desiredOf(uid), termination }, status, "terminating");
  };
  return { log, clock, reports, report, reportTerminating, finished, steps, recordedEvents };
}

test("each finished action is logged as one sentence with its pod and duration", () => {
  const { log, finished } = createFixture();
  finished(runSandbox, 84.6);
  expect(log.lines).toEqual([
    { level: "info", message: "run sandbox (attempt 0): the pod has none", fields: { pod: "shop/web", uid, ms: 85 } },
  ]);
});

test("a failed action is logged as a warning with its reason, and is no step", () => {
  const { log, report, finished, steps } = createFixture();
  report({ phase: "Pending" });
  finished(start("a"), 3, { ok: false, reason: "RunContainerError", message: "no such file", isOutage: false });
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

test("a repeated failure is logged once, until it succeeds or fails differently", () => {
  const { log, reports, finished } = createFixture();
  const levels = (...results: readonly ActionFinished["result"][]) => {
    for (const result of results) finished(stopSandbox, 1, result);
    return log.lines.splice(0).map(({ level }) => level);
  };
  const [same, other] = [failure("no network"), failure("no shim")];
  expect(levels(same, same, same)).toEqual(["warn", "debug", "debug"]);
  expect(levels(other, other, { ok: true }, other)).toEqual(["warn", "debug", "info", "warn"]);
  expect(levels("cancelled", failure("away", true), other)).toEqual(["debug", "debug", "debug"]);
  finished({ ...stopSandbox, id: "t" as SandboxId }, 1, other);
  expect(log.takeLines()).toEqual(["warn: failed to stop sandbox: its manifest is gone: no shim"]);
  reports.onPodRemoved(uid);
  expect(levels(other)).toEqual(["warn"]);
});

test("a cancelled action is not logged at info level, and a pod without a name is logged by its uid", () => {
  const { log, reports, finished } = createFixture();
  finished(runSandbox, 1, "cancelled");
  expect(log.takeLines()).toEqual([]);
  reports.onActionFinished({ uid, pod: "", action: stopSandbox, startedAt: 0, endedAt: 1, result: { ok: true } });
  expect(log.lines.at(-1)?.fields).toEqual({ uid, ms: 1 });
});

const phases: readonly [sentence: string, statuses: readonly PodStatus[], reported: readonly string[]][] = [
  ["the initial Pending phase is not logged", [{ phase: "Pending" }], []],
  [
    "a change of phase is logged once",
    [{ phase: "Pending" }, { phase: "Running" }, { phase: "Running", podIP: "1" }],
    ["info: the pod is Running"],
  ],
  ["a pod that is found running is logged", [{ phase: "Running" }], ["info: the pod is Running"]],
  [
    "a pod that goes back to Pending is logged",
    [{ phase: "Running" }, { phase: "Pending" }],
    ["info: the pod is Running", "info: the pod is Pending"],
  ],
  [
    "a failed pod is logged as a warning with its message",
    [{ phase: "Failed", reason: "DeadlineExceeded", message: "too long" }],
    ["warn: the pod has failed: too long"],
  ],
  ["a success is logged", [{ phase: "Succeeded" }], ["info: the pod is Succeeded"]],
];
for (const [sentence, statuses, expected] of phases)
  test(sentence, () => {
    const { log, report } = createFixture();
    for (const status of statuses) report(status);
    expect(log.takeLines()).toEqual([...expected]);
  });

test("the failed phase of a terminated pod is not logged, its actions are", () => {
  const { log, report, reportTerminating } = createFixture();
  report({ phase: "Running" });
  log.lines.length = 0;
  reportTerminating({ phase: "Running" });
  reportTerminating({ phase: "Failed" });
  expect(log.takeLines()).toEqual([]);
});

test("a slow pull is logged and recorded as an event", async () => {
  const { log, clock, reports, recordedEvents } = createFixture();
  const action: Action = { kind: "pullImage", image: "busybox:1", why };
  reports.onActionStarted({ uid, pod: "shop/web", action, startedAt: clock.now() });
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual(["info: an image is still being pulled after 1m0s"]);
  expect(recordedEvents).toEqual(['shop/web Pulling: Still pulling image "busybox:1" after 1m0s']);
});

test("the steps are those of the latest start", () => {
  const { report, finished, steps } = createFixture();
  report({ phase: "Pending" });
  const make = (resource: PodResource, ms: number) => finished({ kind: "makeResource", resource }, ms);
  for (let time = 0; time < 2; time++) {
    make({ of: "podDirs" }, 1);
    make({ of: "userIds" }, 50);
    for (const name of ["v", "w"]) make({ of: "volume", name }, 4);
  }
  finished({ kind: "pullImage", image: "i", why }, 900);
  finished(runSandbox, 85);
  for (const name of ["a", "b"]) {
    finished(create(name), 6);
    finished(start(name), 35);
  }
  expect(steps()).toEqual([
    "volumes 9",
    "pull 900",
    "sandbox 85",
    "create a 6",
    "start a 35",
    "create b 6",
    "start b 35",
  ]);
  finished(create("a", 1), 7);
  expect(steps()).toContain("create a 7");
  expect(steps()).toHaveLength(7);
  finished(stopSandbox, 9);
  finished(runSandbox, 80);
  expect(steps()).toEqual(["volumes 9", "pull 900", "sandbox 80"]);
});

test("pods are sorted by namespace and name, and pods without a status are omitted", () => {
  const { reports, report, finished } = createFixture();
  for (const name of ["b", "c", "a"]) report({ phase: "Pending" }, "syncing", name);
  finished(stopSandbox);
  expect(reports.all().map(({ pod }) => pod.metadata.name!)).toEqual(["a", "b", "c"]);
});

test("subscribers are called for each change, not for an equal report, until they unsubscribe", () => {
  const { reports, report } = createFixture();
  let received = 0;
  const end = reports.subscribe(() => {
    received++;
  });
  const counts = [
    () => report({ phase: "Pending" }),
    () => report({ phase: "Pending" }),
    () => report({ phase: "Running" }),
    () => report({ phase: "Running" }, "terminating"),
    () => reports.onPodRemoved(uid),
    () => reports.onPodRemoved(uid),
  ].map((act) => {
    act();
    return received;
  });
  expect(counts).toEqual([1, 1, 2, 3, 4, 4]);
  end();
  report({ phase: "Pending" });
  expect(received).toBe(4);
});

test("the reason that blocks a pod's end is reported, and its change calls the subscribers", () => {
  const { reports, report } = createFixture();
  let received = 0;
  reports.subscribe(() => {
    received++;
  });
  const blockedReasons = [undefined, "no network", "no network", "no shim", undefined].map((message) => {
    const blockedReason = message === undefined ? undefined : { reason: "KillPodSandboxError", message };
    report({ phase: "Running" }, "terminating", uid, blockedReason);
    return reports.all()[0]?.blockedReason?.message;
  });
  expect({ blockedReasons, received }).toEqual({
    blockedReasons: [undefined, "no network", "no network", "no shim", undefined],
    received: 4,
  });
});

test("the end of a pod is logged once, and not for a pod that was never desired", () => {
  const { log, reports, report } = createFixture();
  report({ phase: "Running" });
  log.takeLines();
  reports.onPodRemoved(uid);
  reports.onPodRemoved(uid);
  reports.onPodRemoved("other" as PodUid);
  expect(log.takeLines()).toEqual(["info: the pod is gone"]);
  expect(reports.all()).toEqual([]);
});
