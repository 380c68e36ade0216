import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Event, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { rest } from "../../../test/fakes/clock.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { createPodEvents } from "./pod-event-recorder.ts";

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

function createScene(
  imageSizeBytes: () => Promise<number | undefined> = async () => 42,
  wanted: Pod | undefined = pod,
) {
  const lines: string[] = [];
  const about: Event["involvedObject"][] = [];
  const events = createPodEvents({
    isAccessVerified: true,
    recorder: {
      record(reference, { reason, message }, at) {
        about.push(reference);
        lines.push(`${reason}: ${message}${at === undefined ? "" : ` at ${at}`}`);
      },
    },
    podOf: () => wanted,
    imageSizeBytes,
  });
  const whose = { uid, pod: "shop/web", startedAt: 0 };
  const take = async (action: Action) => {
    events.begins({ ...whose, action });
    events.took({ ...whose, action, endedAt: 1500, result: { ok: true } });
    await rest();
  };
  return { events, take, about, told: () => lines.splice(0) };
}

test("an image is told as pulled or as there, each instance once", async () => {
  const { take, told } = createScene();
  await take(pull);
  await take(create(0));
  expect(told()).toEqual([
    'Pulling: Pulling image "busybox:1"',
    'Pulled: Successfully pulled image "busybox:1" in 1.5s (1.5s including waiting). Image size: 42 bytes. at 1500',
    "Created: Container created",
  ]);
  await take(create(1));
  expect(told()[0]).toBe(
    'Pulled: Container image "busybox:1" already present on machine and can be accessed by the pod',
  );
});

test("a runtime that cannot say how large an image is keeps nothing from being told", async () => {
  const { take, told } = createScene(() => Promise.reject(new Error("away")));
  await take(pull);
  expect(told()[1]).toBe('Pulled: Successfully pulled image "busybox:1" in 1.5s (1.5s including waiting). at 1500');
});

test("that a sandbox is replaced is told once for all that is stopped for it, and again with each new try", async () => {
  const { take, told } = createScene();
  const changed = "SandboxChanged: Pod sandbox changed, it will be killed and re-created.";
  const stop = (name: string): Action => ({
    ...{ kind: "stopContainer", name, id: name as ContainerId, gracePeriodSeconds: 2, why: "" },
    isForSandbox: true,
  });
  const run: Action = { kind: "runSandbox", attempt: 1, crashes: 0, why: "" };
  for (const action of [stop("a"), stop("b"), run]) await take(action);
  expect(told()).toEqual([changed, "Killing: Stopping container a", "Killing: Stopping container b"]);
  await take(run);
  expect(told()).toEqual([changed]);
});

test("an event is about the container that it names, in the pod as the API server last showed it", async () => {
  const { take, about } = createScene();
  await take(create(0));
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

test.each(["initContainers", "ephemeralContainers"])("an event of one of %s says so", async (list) => {
  const { take, about } = createScene(undefined, { ...pod, spec: { containers: [], [list]: pod.spec.containers } });
  await take(create(0));
  expect(about[0]?.fieldPath).toBe(`spec.${list}{a}`);
});

const waiting = (reason: string): PodStatus => ({
  phase: "Pending",
  conditions: [],
  containerStatuses: [
    { name: "a", image: "", imageID: "", ready: false, restartCount: 1, state: { waiting: { reason } } },
  ],
});

test("a status that is another one than before is told, and by a new agent only if the API server does not know it", () => {
  const { events, told } = createScene();
  events.report(desired, waiting("CrashLoopBackOff"));
  events.report(desired, waiting("CrashLoopBackOff"));
  expect(told()).toHaveLength(1);
  events.finished(uid);
  const known = { ...desired, pod: { ...pod, status: waiting("CrashLoopBackOff") } };
  events.report(known, waiting("CrashLoopBackOff"));
  expect(told()).toEqual([]);
});

const stop: Action = {
  kind: "stopContainer",
  name: "a",
  id: "c" as ContainerId,
  gracePeriodSeconds: 30,
  why: "",
};

test("a stop that is asked for again, with less grace, is told once", () => {
  const { events, told } = createScene();
  events.begins({ uid, pod: "shop/web", startedAt: 0, action: stop });
  events.begins({ uid, pod: "shop/web", startedAt: 1, action: { ...stop, gracePeriodSeconds: 1 } });
  expect(told()).toEqual(["Killing: Stopping container a"]);
  events.begins({ uid, pod: "shop/web", startedAt: 2, action: { ...stop, id: "d" as ContainerId } });
  expect(told()).toEqual(["Killing: Stopping container a"]);
});

test("a stop that fails is told when it fails again", () => {
  const { events, told } = createScene();
  const action: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "" };
  const result = { ok: false, reason: "KillPodSandboxError", message: "it is closed", isOutage: false } as const;
  const fail = () => events.took({ uid, pod: "shop/web", startedAt: 0, endedAt: 1, action, result });
  fail();
  expect(told()).toEqual([]);
  fail();
  const why = 'failed to "KillPodSandbox" for "u" with KillPodSandboxError: "it is closed"';
  expect(told()).toEqual([`FailedKillPod: error killing pod: ${why}`]);
});
