import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Event, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../../../test/fakes/clock.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { DatedTerminationRequest, DesiredPod } from "../../decide/pod/desired.ts";
import type { PodOutcome } from "../../decide/pod/memory.ts";
import { createPodEventRecorder } from "./pod-event-recorder.ts";

const uid = "u" as PodUid;
const pod: Pod = {
  metadata: { uid, name: "web", namespace: "shop", resourceVersion: "7" },
  spec: { containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" }] },
};
const desired: DesiredPod = { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0 };
const pull: Action = { kind: "pullImage", image: "busybox:1", why: "" };
const create = (attempt: number): Action => ({
  kind: "createContainer",
  name: "a",
  attempt,
  sandboxId: "s" as SandboxId,
  podIPs: [],
  image: "busybox:1",
  imageRef: "r",
  crashes: 0,
  why: "",
});

function createFixture(
  imageSizeBytes: () => Promise<number | undefined> = async () => 42,
  desired: Pod | undefined = pod,
) {
  const lines: string[] = [];
  const about: Event["involvedObject"][] = [];
  const events = createPodEventRecorder({
    isImageAccessVerified: true,
    recorder: {
      record(reference, { reason, message }, at) {
        about.push(reference);
        lines.push(`${reason}: ${message}${at === undefined ? "" : ` at ${at}`}`);
      },
    },
    podOf: () => desired,
    imageSizeBytes,
  });
  const whose = { uid, pod: "shop/web", startedAt: 0 };
  const finishAction = async (action: Action) => {
    events.onActionStarted({ ...whose, action });
    events.onActionFinished({ ...whose, action, endedAt: 1500, result: { ok: true } });
    await settlePromises();
  };
  return { events, finishAction, about, recorded: () => lines.splice(0) };
}

test("each container instance gets one Pulled event, for a pulled or a present image", async () => {
  const { finishAction, recorded } = createFixture();
  await finishAction(pull);
  await finishAction(create(0));
  expect(recorded()).toEqual([
    'Pulling: Pulling image "busybox:1"',
    'Pulled: Successfully pulled image "busybox:1" in 1.5s (1.5s including waiting). Image size: 42 bytes. at 1500',
    "Created: Container created",
  ]);
  await finishAction(create(1));
  expect(recorded()[0]).toBe(
    'Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod',
  );
});

test("the Pulled event is recorded if the runtime does not report the image's size", async () => {
  const { finishAction, recorded } = createFixture(() => Promise.reject(new Error("away")));
  await finishAction(pull);
  expect(recorded()[1]).toBe('Pulled: Successfully pulled image "busybox:1" in 1.5s (1.5s including waiting). at 1500');
});

test("SandboxChanged is recorded once per sandbox attempt, however many containers are stopped", async () => {
  const { finishAction, recorded } = createFixture();
  const changed = "SandboxChanged: Pod sandbox changed, it will be killed and re-created.";
  const stop = (name: string): Action => ({
    ...{ kind: "stopContainer", name, id: name as ContainerId, gracePeriodSeconds: 2, why: "" },
    isSandboxReplacement: true,
  });
  const run: Action = { kind: "runSandbox", attempt: 1, crashes: 0, why: "" };
  for (const action of [stop("a"), stop("b"), run]) await finishAction(action);
  expect(recorded()).toEqual([changed, "Killing: Stopping container a", "Killing: Stopping container b"]);
  await finishAction(run);
  expect(recorded()).toEqual([changed]);
});

test("an event refers to its container and to the pod's latest resourceVersion", async () => {
  const { finishAction, about } = createFixture();
  await finishAction(create(0));
  expect(about[0]).toEqual({
    kind: "Pod",
    apiVersion: "v1",
    namespace: "shop",
    name: "web",
    uid,
    resourceVersion: "7",
    fieldPath: "spec.containers{a}",
  });
});

test.each(["initContainers", "ephemeralContainers"])("an event of one of %s has its field path", async (list) => {
  const { finishAction, about } = createFixture(undefined, {
    ...pod,
    spec: { containers: [], [list]: pod.spec.containers },
  });
  await finishAction(create(0));
  expect(about[0]?.fieldPath).toBe(`spec.${list}{a}`);
});

const waiting = (reason: string): PodStatus => ({
  phase: "Pending",
  conditions: [],
  containerStatuses: [
    { name: "a", image: "", imageID: "", ready: false, restartCount: 1, state: { waiting: { reason } } },
  ],
});

test("a changed status is recorded, by a new agent only if it differs from the API's status", () => {
  const { events, recorded } = createFixture();
  events.onStatus(desired, waiting("CrashLoopBackOff"));
  events.onStatus(desired, waiting("CrashLoopBackOff"));
  expect(recorded()).toHaveLength(1);
  events.onPodRemoved(uid);
  const known = { ...desired, pod: { ...pod, status: waiting("CrashLoopBackOff") } };
  events.onStatus(known, waiting("CrashLoopBackOff"));
  expect(recorded()).toEqual([]);
});

const stop: Action = {
  kind: "stopContainer",
  name: "a",
  id: "c" as ContainerId,
  gracePeriodSeconds: 30,
  why: "",
};

test("a repeated stop with less grace is recorded once", () => {
  const { events, recorded } = createFixture();
  events.onActionStarted({ uid, pod: "shop/web", startedAt: 0, action: stop });
  events.onActionStarted({ uid, pod: "shop/web", startedAt: 1, action: { ...stop, gracePeriodSeconds: 1 } });
  expect(recorded()).toEqual(["Killing: Stopping container a"]);
  events.onActionStarted({ uid, pod: "shop/web", startedAt: 2, action: { ...stop, id: "d" as ContainerId } });
  expect(recorded()).toEqual(["Killing: Stopping container a"]);
});

test("a failed stop is recorded when it fails again", () => {
  const { events, recorded } = createFixture();
  const action: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "" };
  const result = { ok: false, reason: "KillPodSandboxError", message: "it is closed", isOutage: false } as const;
  const fail = () => events.onActionFinished({ uid, pod: "shop/web", startedAt: 0, endedAt: 1, action, result });
  fail();
  expect(recorded()).toEqual([]);
  fail();
  const why = 'failed to "KillPodSandbox" for "u" with KillPodSandboxError: "it is closed"';
  expect(recorded()).toEqual([`FailedKillPod: error killing pod: ${why}`]);
});

const evicted: DatedTerminationRequest = {
  reason: "Evicted",
  message: "the node is short of memory",
  gracePeriodSeconds: 5,
  requestedAt: 9,
};

test("a request of the node to end the pod is recorded once, with the first status after it", () => {
  const { events, recorded } = createFixture();
  const running: PodStatus = { phase: "Running", conditions: [] };
  events.onStatus(desired, running);
  const requested = { ...desired, terminationRequest: evicted };
  events.onStatus(requested, { ...running });
  events.onStatus(requested, { phase: "Failed", reason: "Evicted", conditions: [] });
  expect(recorded()).toEqual(["Evicted: the node is short of memory"]);
});

const pastDeadline: PodOutcome = { phase: "Failed", reason: "DeadlineExceeded", message: "too long", at: 9 };

test("a passed deadline is recorded once, when it is decided and before the containers have stopped", () => {
  const { events, recorded } = createFixture();
  const running: PodStatus = { phase: "Running", conditions: [] };
  events.onStatus(desired, running);
  events.onStatus(desired, { ...running }, pastDeadline);
  expect(recorded()).toEqual(["DeadlineExceeded: too long"]);
  events.onStatus(desired, { phase: "Failed", reason: "DeadlineExceeded", conditions: [] }, pastDeadline);
  expect(recorded()).toEqual([]);
});

test("an outcome that the API server has already is not recorded again", () => {
  const { events, recorded } = createFixture();
  const failed: PodStatus = { phase: "Failed", reason: "DeadlineExceeded", conditions: [] };
  events.onStatus({ ...desired, pod: { ...pod, status: failed } }, { ...failed }, pastDeadline);
  expect(recorded()).toEqual([]);
});

test("a request that an earlier agent has carried out is not recorded again", () => {
  const { events, recorded } = createFixture();
  const failed: PodStatus = { phase: "Failed", reason: "Evicted", conditions: [] };
  events.onStatus({ ...desired, source: { kind: "file", path: "/m" }, terminationRequest: evicted }, failed);
  expect(recorded()).toEqual([]);
});
