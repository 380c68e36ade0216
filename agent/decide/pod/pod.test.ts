import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, ContainerState, ContainerStatus, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { createKeyMap } from "../actions/key-map.ts";
import { containerHash } from "../container/container-hash.ts";
import type { PodSettings } from "../settings.ts";
import { describe } from "./action.ts";
import { recordResult } from "./action-memory.ts";
import type { DatedTerminationRequest, DesiredPodView } from "./desired.ts";
import { emptyMemory, type FailureRecord, type PodMemory } from "./memory.ts";
import type { ExitedContainer, ObservedContainer, ObservedPod, ObservedSandbox } from "./observed.ts";
import { type Decision, decideOrphan, decidePod } from "./pod.ts";

const uid = "u" as PodUid;
const now = 1_000_000_000;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };
const image = "busybox:1";
const present = new Map([
  [image, { present: true, ref: "sha256:1", user: { uid: undefined, username: "" } }],
]) as ObservedPod["images"];
const prepared: PodMemory = { ...emptyMemory, madeResources: [{ of: "podDirs" }, { of: "logDir" }] };

function pod(spec: Partial<PodSpec> = {}, containers: readonly Partial<Container>[] = [{ name: "a" }]): Pod {
  return {
    metadata: { uid, name: "web", namespace: "default" },
    spec: {
      containers: containers.map((container) => ({ name: "a", image, ...container })),
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 30,
      ...spec,
    },
  };
}

const evicted: DatedTerminationRequest = {
  reason: "Evicted",
  message: "the node is short of memory",
  disruption: { reason: "TerminationByKubelet", message: "the node is short of memory" },
  gracePeriodSeconds: 5,
  requestedAt: now,
};

const desired = (apiPod: Pod = pod(), more: Partial<DesiredPodView> = {}): DesiredPodView => ({
  uid,
  pod: apiPod,
  source: { kind: "file", path: "/m/web.yaml" },
  acceptedAt: now - 60_000,
  revision: 0,
  ...more,
});
const ending = (gracePeriodSeconds: number, requestedAt = now) => ({
  termination: { requestedAt, gracePeriodSeconds, why: "its manifest is gone" },
});

const sandbox = (more: Partial<ObservedSandbox> = {}): ObservedSandbox => ({
  id: "s0" as SandboxId,
  attempt: 0,
  createdAt: now - 50_000,
  ready: true,
  ips: ["10.0.0.2"],
  hostNetwork: false,
  crashes: 0,
  ...more,
});
const oldSandbox = sandbox({ id: "old" as SandboxId, attempt: 0, ready: false });

function container(
  name: string,
  attempt: number,
  more: Partial<ObservedContainer> & { state: ObservedContainer["state"] },
): ObservedContainer {
  return {
    id: `${name}${attempt}` as ContainerId,
    name,
    sandboxId: "s0" as SandboxId,
    attempt,
    createdAt: now - 40_000,
    image,
    imageRef: "sha256:1",
    hash: containerHash({ name, image }),
    crashes: attempt,
    startedAt: now - 40_000,
    finishedAt: now - 1_000,
    exitCode: 1,
    reason: "Error",
    message: "",
    ...more,
  } as ObservedContainer;
}
const running = (name = "a", attempt = 0, more: object = {}) => container(name, attempt, { state: "running", ...more });
const exited = (name = "a", attempt = 0, more: object = {}) => container(name, attempt, { state: "exited", ...more });
const created = (name = "a", attempt = 0, more: object = {}) => container(name, attempt, { state: "created", ...more });
const unknown = (name = "a", attempt = 0, more: object = {}) => container(name, attempt, { state: "unknown", ...more });

const observedWith = (
  sandboxes: readonly ObservedSandbox[],
  containers: readonly ObservedContainer[] = [],
  more: Partial<ObservedPod> = {},
): ObservedPod => ({
  ...emptyObservedPod(uid, "default", "web"),
  images: present,
  sandboxes,
  containers,
  resources: [{ of: "podDirs" }, { of: "logDir" }],
  ...more,
});
const nothing = observedWith([], [], { resources: [] });

/** A decision as a table row: stage, phase and reason, then the actions, then when to decide again. */
function show({ stage, status, actions, lookAgainAt }: Decision): string {
  const [first] = status.containerStatuses ?? [];
  const state =
    first?.state?.waiting?.reason ?? first?.state?.terminated?.reason ?? (first?.state?.running ? "running" : "-");
  const doing = actions.length === 0 ? "nothing" : actions.map(describe).join("; ");
  const again = lookAgainAt === undefined ? "" : `; again in ${(lookAgainAt - now) / 1000}s`;
  return `${stage.kind}, ${status.phase}, ${state}: ${doing}${again}`;
}

interface Row {
  readonly name: string;
  readonly desired?: DesiredPodView;
  readonly observed: ObservedPod;
  readonly memory?: PodMemory;
  readonly expected: string;
}

const failure = (reason: string, at: number, count = 1) => ({ reason, message: "why", at, count, isOutage: false });
const failed = (key: FailureKey, reason: string, at: number, count = 1): PodMemory => ({
  ...prepared,
  failures: createKeyMap([[key, failure(reason, at, count)]]),
});
const two = pod({}, [{ name: "a" }, { name: "b" }]);
const never = pod({ restartPolicy: "Never" });
const reportedRunning: ContainerStatus = {
  ...{ name: "a", image, imageID: "", ready: true, restartCount: 0, containerID: "containerd://a0" },
  state: { running: { startedAt: "1970-01-12T13:46:00Z" } },
};
/** A pod that restarts on failure, and what the API server has of attempt 4 of its container. */
const reporting = (state: ContainerState): Pod => ({
  ...pod({ restartPolicy: "OnFailure" }),
  status: {
    containerStatuses: [
      { name: "a", image, imageID: "", ready: true, restartCount: 4, containerID: "containerd://a4", state },
    ],
  },
});
const unheard = { source: { kind: "api" }, isUnconfirmed: true } as const;
const madeUp = { exitCode: 255, reason: "Unknown" };
const absent = new Map([[image, { present: false }]]) as ObservedPod["images"];

const prepares = (more: Partial<Container> = {}) => pod({ initContainers: [{ name: "first", image, ...more }] });
const served = pod({ initContainers: [{ name: "proxy", image, restartPolicy: "Always" }] });
const proxy = (name: string): Container => ({ name, image, restartPolicy: "Always" });
const sidecars = pod({
  initContainers: [proxy("one"), { name: "setup", image }, proxy("two")],
  ephemeralContainers: [{ name: "debug", image }],
});
const stopsGone = (name: string) => `stop container ${name} within 30s: its manifest is gone`;
const drain = { preStop: { exec: { command: ["drain"] } } };
const drained = pod({ initContainers: ["one", "two"].map((name) => ({ ...proxy(name), lifecycle: drain })) });
const hooksGone = (name: string) => `run the preStop hook of container ${name} within 30s: its manifest is gone`;
const hookOfOne = new Set(["one0" as ContainerId]);
const unhealthy = new Map([
  ["a0" as ContainerId, { isStarted: true, isReady: false, failedProbe: "liveness" as const }],
]);

const young = (crashes: number, ageMs: number) =>
  observedWith([sandbox({ ready: false, attempt: 7, crashes, createdAt: now - ageMs })]);
const stopped: PodMemory = { ...prepared, stoppedSandboxes: new Set(["s0"]) };

const rows: readonly Row[] = [
  {
    name: "a short-lived first sandbox is replaced at once",
    observed: young(0, 100),
    memory: stopped,
    expected: "syncing, Pending, ContainerCreating: run sandbox (attempt 8): the last one is not ready",
  },
  {
    name: "the fourth short-lived sandbox in a row is replaced four seconds after its creation",
    observed: young(3, 1_000),
    memory: stopped,
    expected: "syncing, Pending, ContainerCreating: nothing; again in 3s",
  },
  {
    name: "a sandbox replacement waits at most five minutes",
    observed: young(40, 1_000),
    memory: stopped,
    expected: "syncing, Pending, ContainerCreating: nothing; again in 299s",
  },
  {
    name: "a sandbox that has lasted is replaced at once",
    observed: young(3, 90_000),
    memory: stopped,
    expected: "syncing, Pending, ContainerCreating: run sandbox (attempt 8): the last one is not ready",
  },
  {
    name: "a completed pod gets no new grace period when it is deleted",
    desired: desired(pod({ terminationGracePeriodSeconds: 60 }), ending(60)),
    observed: observedWith([sandbox()], [running()]),
    memory: { ...prepared, outcome: { phase: "Failed", reason: "DeadlineExceeded", at: now - 50_000 } },
    expected: "terminating, Running, running: stop container a within 10s: its manifest is gone",
  },
  {
    name: "a pod that was rejected under an earlier revision is decided again",
    desired: desired(pod(), { revision: 1 }),
    observed: nothing,
    memory: { ...emptyMemory, revision: 0, outcome: { phase: "Failed", reason: "PodFeatureUnsupported", at: now } },
    expected:
      "syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none; create the pod's directories; create the pod's log directory",
  },
  {
    name: "a container that was stopped for another image is re-created, whatever its policy, and shown as it was",
    desired: desired(reporting({ running: {} })),
    observed: observedWith([sandbox()], [exited("a", 4, { hash: "other", exitCode: 0 })]),
    memory: prepared,
    expected: "syncing, Running, running: create container a (attempt 5): it exited with code 0",
  },
  {
    name: "a container whose new image was not inspected yet is shown as it was",
    desired: desired(reporting({ running: {} })),
    observed: observedWith([sandbox()], [exited("a", 4, { hash: "other" })], { images: new Map() }),
    memory: prepared,
    expected: "syncing, Running, running: nothing; again in 0s",
  },
  {
    name: "a container with another image is shown as its predecessor was until it starts",
    desired: desired(reporting({ running: {} })),
    observed: observedWith([sandbox()], [created("a", 5), exited("a", 4, { hash: "other" })]),
    memory: prepared,
    expected: "syncing, Running, running: start container a (attempt 5)",
  },
  {
    name: "a container that cannot be created with another image shows why",
    desired: desired(reporting({ running: {} })),
    observed: observedWith([sandbox()], [exited("a", 4, { hash: "other" })]),
    memory: failed({ of: "container", name: "a" }, "CreateContainerError", now),
    expected: "syncing, Running, CreateContainerError: nothing; again in 1s",
  },
  {
    name: "a container that had ended before its image changed is left to its policy",
    desired: desired(reporting({ terminated: { exitCode: 0 } })),
    observed: observedWith([sandbox()], [exited("a", 4, { hash: "other", exitCode: 0 })]),
    memory: prepared,
    expected: "terminating, Succeeded, Error: stop sandbox: all its containers are done",
  },
  {
    name: "a running container's new image is pulled before the container is stopped",
    observed: observedWith([sandbox()], [running("a", 0, { hash: "other" })], { images: absent }),
    memory: prepared,
    expected: `syncing, Running, running: pull image ${image}: it is not on this node`,
  },
  {
    name: "a running container stays until its new image is pulled",
    observed: observedWith([sandbox()], [running("a", 0, { hash: "other" })], { images: absent }),
    memory: { ...prepared, pulls: new Map([[image, { state: "pulling", since: now }]]) },
    expected: "syncing, Running, running: nothing",
  },
  {
    name: "a running container is stopped if its new image cannot be pulled",
    observed: observedWith([sandbox()], [running("a", 0, { hash: "other" })], { images: absent }),
    memory: failed({ of: "image", image }, "ErrImagePull", now),
    expected: "syncing, Running, running: stop container a within 30s: container a definition changed",
  },
  {
    name: "a new pod without volumes makes its directories beside its sandbox",
    observed: nothing,
    memory: emptyMemory,
    expected:
      "syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none; create the pod's directories; create the pod's log directory",
  },
  {
    name: "after its volumes a pod runs its sandbox",
    observed: observedWith([]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none",
  },
  {
    name: "the image is pulled while the sandbox starts",
    observed: observedWith([], [], { images: absent }),
    memory: prepared,
    expected: `syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none; pull image ${image}: it is not on this node`,
  },
  {
    name: "two containers with one image share one pull",
    desired: desired(two),
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: prepared,
    expected: `syncing, Pending, ContainerCreating: pull image ${image}: it is not on this node`,
  },
  {
    name: "after the sandbox and the image the first container is created",
    desired: desired(two),
    observed: observedWith([sandbox()]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: create container a (attempt 0): it has not run yet",
  },
  {
    name: "a created container is started before the next one is created",
    desired: desired(two),
    observed: observedWith([sandbox()], [created()]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: start container a (attempt 0)",
  },
  {
    name: "the second container is created after the first has started",
    desired: desired(two),
    observed: observedWith([sandbox()], [running()]),
    memory: prepared,
    expected: "syncing, Pending, running: create container b (attempt 0): it has not run yet",
  },
  {
    name: "a running pod needs no action and no timer",
    observed: observedWith([sandbox()], [running()]),
    expected: "syncing, Running, running: nothing",
  },
  {
    name: "a new agent needs no action for a running pod",
    observed: observedWith([sandbox()], [running("a", 3)]),
    memory: emptyMemory,
    expected: "syncing, Running, running: nothing",
  },
  {
    name: "a container restarts at once after its first crash",
    observed: observedWith([sandbox()], [exited()]),
    memory: prepared,
    expected: "syncing, Running, Error: create container a (attempt 1): it exited with code 1",
  },
  {
    name: "a container restarts ten seconds after its second crash",
    observed: observedWith([sandbox()], [exited("a", 1)]),
    memory: prepared,
    expected: "syncing, Running, CrashLoopBackOff: nothing; again in 9s",
  },
  {
    name: "a container restarts 160 seconds after its sixth crash",
    observed: observedWith([sandbox()], [exited("a", 5)]),
    memory: prepared,
    expected: "syncing, Running, CrashLoopBackOff: nothing; again in 159s",
  },
  {
    name: "the restart delay never exceeds the maximum",
    observed: observedWith([sandbox()], [exited("a", 50)]),
    memory: prepared,
    expected: "syncing, Running, CrashLoopBackOff: nothing; again in 299s",
  },
  {
    name: "exactly ten minutes of life do not reset the back-off",
    observed: observedWith([sandbox()], [exited("a", 5, { createdAt: now - 601_000, finishedAt: now - 1_000 })]),
    memory: prepared,
    expected: "syncing, Running, CrashLoopBackOff: nothing; again in 159s",
  },
  {
    name: "more than ten minutes of life reset the back-off",
    observed: observedWith([sandbox()], [exited("a", 5, { createdAt: now - 700_000 })]),
    memory: prepared,
    expected: "syncing, Running, Error: create container a (attempt 6): it exited with code 1",
  },
  {
    name: "an exit in the future means that the clock was set back, and is not waited for",
    observed: observedWith([sandbox()], [exited("a", 3, { finishedAt: now + 99_000 })]),
    memory: prepared,
    expected: "syncing, Running, CrashLoopBackOff: create container a (attempt 4): it exited with code 1",
  },
  {
    name: "an exit in the future after ten minutes of life is not waited for either, and shows no back-off",
    observed: observedWith([sandbox()], [exited("a", 5, { createdAt: now - 700_000, finishedAt: now + 3_600_000 })]),
    memory: prepared,
    expected: "syncing, Running, Error: create container a (attempt 6): it exited with code 1",
  },
  {
    name: "OnFailure does not restart a container that succeeded",
    desired: desired(pod({ restartPolicy: "OnFailure" }, [{ name: "a" }, { name: "b" }])),
    observed: observedWith([sandbox()], [exited("a", 0, { exitCode: 0, reason: "Completed" }), running("b")]),
    memory: prepared,
    expected: "syncing, Running, Completed: nothing",
  },
  {
    name: "Never does not restart a container, and the sandbox is stopped",
    desired: desired(never),
    observed: observedWith([sandbox()], [exited()]),
    memory: prepared,
    expected: "terminating, Failed, Error: stop sandbox: all its containers are done",
  },
  {
    name: "a completed pod keeps its containers for their logs",
    desired: desired(never),
    observed: observedWith([sandbox({ ready: false })], [exited("a", 0, { exitCode: 0, reason: "Completed" })]),
    memory: { ...prepared, stoppedSandboxes: new Set(["s0"]) },
    expected: "terminated, Succeeded, Completed: nothing",
  },
  {
    name: "a container with a changed image is stopped",
    observed: observedWith([sandbox()], [running("a", 0, { hash: "other" })]),
    memory: prepared,
    expected: "syncing, Running, running: stop container a within 30s: container a definition changed",
  },
  {
    name: "a container of another kubelet without our hash is left alone",
    observed: observedWith([sandbox()], [running("a", 0, { hash: undefined })]),
    memory: prepared,
    expected: "syncing, Running, running: nothing",
  },
  {
    name: "a started container in the unknown state is stopped first",
    observed: observedWith([sandbox()], [unknown()], { loggedAttempts: new Map([["a", 0]]) }),
    memory: prepared,
    expected: "syncing, Running, ContainerStatusUnknown: stop container a within 30s: its state is unknown",
  },
  {
    name: "a container in the unknown state that this agent has started is stopped first",
    observed: observedWith([sandbox()], [unknown()]),
    memory: { ...prepared, startedAttempts: new Map([["a", 0]]) },
    expected: "syncing, Running, ContainerStatusUnknown: stop container a within 30s: its state is unknown",
  },
  {
    name: "a container in the unknown state of which the status reports a start is stopped first",
    desired: desired({ ...pod(), status: { containerStatuses: [reportedRunning] } }),
    observed: observedWith([sandbox()], [unknown()]),
    memory: prepared,
    expected: "syncing, Running, ContainerStatusUnknown: stop container a within 30s: its state is unknown",
  },
  {
    name: "a container in the unknown state that was never started is removed, and another one is created, also with Never",
    desired: desired(never),
    observed: observedWith([sandbox()], [unknown()]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: remove container a: it was never started",
  },
  {
    name: "a missing container counts as exited",
    observed: observedWith([sandbox()], [], { loggedAttempts: new Map([["a", 4]]) }),
    memory: prepared,
    expected: "syncing, Running, ContainerStatusUnknown: create container a (attempt 5): it exited with code 137",
  },
  {
    name: "a container whose start was interrupted has a log file and has not exited",
    desired: desired(never),
    observed: observedWith([sandbox()], [created()], { loggedAttempts: new Map([["a", 0]]) }),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: start container a (attempt 0)",
  },
  {
    name: "a missing container does not run again with the policy Never",
    desired: desired(never),
    observed: observedWith([sandbox()], [], { loggedAttempts: new Map([["a", 0]]) }),
    memory: prepared,
    expected: "terminating, Failed, ContainerStatusUnknown: stop sandbox: all its containers are done",
  },
  {
    name: "an unready sandbox first has its containers stopped",
    observed: observedWith([sandbox({ ready: false })], [running()]),
    memory: prepared,
    expected:
      "syncing, Running, running: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "an unready sandbox is not replaced with the policy Never, and no SandboxChanged is recorded",
    desired: desired(never),
    observed: observedWith([sandbox({ ready: false })], [running()]),
    memory: prepared,
    expected:
      "syncing, Running, running: stop container a within 30s: its sandbox is unusable: the last one is not ready",
  },
  {
    name: "a replaced sandbox is stopped after its containers",
    observed: observedWith([sandbox({ ready: false })], [exited()]),
    memory: prepared,
    expected: "syncing, Running, Error: stop sandbox: the last one is not ready",
  },
  {
    name: "a new sandbox runs after the old one has stopped",
    observed: observedWith([sandbox({ ready: false })], [exited()]),
    memory: { ...prepared, stoppedSandboxes: new Set(["s0"]) },
    expected: "syncing, Running, Error: run sandbox (attempt 1): the last one is not ready",
  },
  {
    name: "two ready sandboxes are both stopped",
    observed: observedWith([sandbox({ id: "s1" as SandboxId, attempt: 1 }), sandbox()], []),
    memory: prepared,
    expected:
      "syncing, Pending, ContainerCreating: stop sandbox: the pod has more than one; stop sandbox: the pod has more than one",
  },
  {
    name: "a sandbox without an address is replaced",
    observed: observedWith([sandbox({ ips: [] })]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: stop sandbox: the last one has no address",
  },
  {
    name: "a sandbox with host networking needs no address",
    desired: desired(pod({ hostNetwork: true })),
    observed: observedWith([sandbox({ ips: [], hostNetwork: true })], [running()]),
    expected: "syncing, Running, running: nothing",
  },
  {
    name: "a sandbox with the wrong network is replaced",
    desired: desired(pod({ hostNetwork: true })),
    observed: observedWith([sandbox()]),
    memory: prepared,
    expected: "syncing, Pending, ContainerCreating: stop sandbox: the last one has the wrong network namespace",
  },
  {
    name: "an old sandbox without containers is removed",
    observed: observedWith([sandbox({ attempt: 1 }), oldSandbox], [running()]),
    memory: prepared,
    expected: "syncing, Running, running: remove sandbox: a newer one has taken its place",
  },
  {
    name: "only the newest dead instance is kept",
    observed: observedWith([sandbox()], [running("a", 2), exited("a", 1), exited("a", 0)]),
    memory: prepared,
    expected: "syncing, Running, running: remove container a: a newer instance has ended too",
  },
  {
    name: "a container that the spec does not name is stopped",
    observed: observedWith([sandbox()], [running(), running("x")]),
    memory: prepared,
    expected: "syncing, Running, running: stop container x within 30s: the pod has no such container",
  },
  {
    name: "an exited container that the spec does not name is removed",
    observed: observedWith([sandbox()], [running(), exited("x")]),
    memory: prepared,
    expected: "syncing, Running, running: remove container x: the pod has no such container",
  },
  {
    name: "a failed sandbox is retried after one second",
    observed: observedWith([]),
    memory: failed({ of: "sandbox" }, "CreatePodSandboxError", now),
    expected: "syncing, Pending, ContainerCreating: nothing; again in 1s",
  },
  {
    name: "a sandbox that keeps failing is retried after at most fifteen seconds",
    observed: observedWith([]),
    memory: failed({ of: "sandbox" }, "CreatePodSandboxError", now, 20),
    expected: "syncing, Pending, ContainerCreating: nothing; again in 15s",
  },
  {
    name: "a failed creation is reported with its reason",
    observed: observedWith([sandbox()]),
    memory: failed({ of: "container", name: "a" }, "CreateContainerError", now),
    expected: "syncing, Pending, CreateContainerError: nothing; again in 1s",
  },
  {
    name: "a failed pull is first reported as an error",
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: failed({ of: "image", image }, "ErrImagePull", now),
    expected: "syncing, Pending, ErrImagePull: nothing; again in 1s",
  },
  {
    name: "a failed pull is later reported as a back-off",
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: failed({ of: "image", image }, "ErrImagePull", now - 6_000),
    expected: "syncing, Pending, ImagePullBackOff: nothing; again in 4s",
  },
  {
    name: "a failed pull is retried after ten seconds",
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: failed({ of: "image", image }, "ErrImagePull", now - 10_000),
    expected: `syncing, Pending, ImagePullBackOff: pull image ${image}: it is not on this node`,
  },
  {
    name: "a pull in progress needs no timer",
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: { ...prepared, pulls: new Map([[image, { state: "pulling", since: now }]]) },
    expected: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "the policy Always pulls an image that is present",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Always" }])),
    observed: observedWith([sandbox()]),
    memory: prepared,
    expected: `syncing, Pending, ContainerCreating: pull image ${image}: its pull policy is Always`,
  },
  {
    name: "with the policy Always a pull counts for one instance",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Always" }])),
    observed: observedWith([sandbox()], [exited()]),
    memory: { ...prepared, pulls: new Map([[image, { state: "pulled", ref: "sha256:1", usedBy: new Set(["a"]) }]]) },
    expected: `syncing, Running, Error: pull image ${image}: its pull policy is Always`,
  },
  {
    name: "the policy Never does not pull",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Never" }])),
    observed: observedWith([sandbox()], [], { images: absent }),
    memory: prepared,
    expected: "syncing, Pending, ErrImageNeverPull: nothing; again in 60s",
  },
  {
    name: "an invalid image name is not pulled",
    desired: desired(pod({}, [{ name: "a", image: "Not An Image" }])),
    observed: observedWith([sandbox()]),
    memory: prepared,
    expected: "syncing, Pending, InvalidImageName: nothing",
  },
  {
    name: "failed volumes keep the sandbox waiting",
    observed: nothing,
    memory: {
      ...prepared,
      madeResources: [{ of: "logDir" }],
      failures: createKeyMap<FailureKey, FailureRecord>([
        [{ of: "resource", resource: { of: "podDirs" } }, failure("FailedMount", now)],
      ]),
    },
    expected: "syncing, Pending, ContainerCreating: nothing; again in 1s",
  },
  {
    name: "a deadline is the time of the next decision",
    desired: desired(pod({ activeDeadlineSeconds: 100 })),
    observed: observedWith([sandbox()], [running()]),
    expected: "syncing, Running, running: nothing; again in 40s",
  },
  {
    name: "a passed deadline ends the pod",
    desired: desired(pod({ activeDeadlineSeconds: 60 })),
    observed: observedWith([sandbox()], [running()]),
    expected:
      "terminating, Running, running: stop container a within 30s: Pod was active on the node longer than the specified deadline",
  },
  {
    name: "a request of the node ends the pod within the request's grace period",
    desired: desired(pod(), { terminationRequest: evicted }),
    observed: observedWith([sandbox()], [running()]),
    expected: "terminating, Running, running: stop container a within 5s: the node is short of memory",
  },
  {
    name: "a request of the node does not extend the pod's own grace period",
    desired: desired(pod({ terminationGracePeriodSeconds: 2 }), { terminationRequest: evicted }),
    observed: observedWith([sandbox()], [running()]),
    expected: "terminating, Running, running: stop container a within 2s: the node is short of memory",
  },
  {
    name: "a request of the node shortens the grace period of a deletion",
    desired: desired(pod(), {
      termination: { requestedAt: now - 1000, gracePeriodSeconds: 60, why: "it was deleted" },
      terminationRequest: evicted,
    }),
    observed: observedWith([sandbox()], [running()]),
    expected: "terminating, Running, running: stop container a within 5s: it was deleted",
  },
  {
    name: "a pod that the node ends while it waits for admission starts nothing",
    desired: desired(pod(), { admission: { kind: "awaited" }, terminationRequest: evicted }),
    observed: nothing,
    expected: "terminated, Failed, ContainerStatusUnknown: nothing",
  },
  {
    name: "a deadline is counted from when the pod's predecessor was gone",
    desired: desired(pod({ activeDeadlineSeconds: 60 }), { heldUntil: now - 20_000 }),
    observed: observedWith([sandbox()], [running()]),
    expected: "syncing, Running, running: nothing; again in 40s",
  },
  {
    name: "a pod that waits for its predecessor has no deadline yet",
    desired: desired(pod({ activeDeadlineSeconds: 60 }), { predecessorUid: "before" as PodUid }),
    observed: nothing,
    expected: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "a pod that waits for its predecessor does nothing",
    desired: desired(pod(), { predecessorUid: "before" as PodUid }),
    observed: nothing,
    expected: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "a termination stops all containers at once",
    desired: desired(two, ending(30)),
    observed: observedWith([sandbox()], [running(), running("b")]),
    expected:
      "terminating, Running, running: stop container a within 30s: its manifest is gone; stop container b within 30s: its manifest is gone",
  },
  {
    name: "a repeated stop gets only the rest of the grace period",
    desired: desired(pod(), ending(30, now - 12_500)),
    observed: observedWith([sandbox()], [running()]),
    expected: "terminating, Running, running: stop container a within 18s: its manifest is gone",
  },
  {
    name: "a stop always gets at least two seconds",
    desired: desired(pod(), ending(30, now - 99_000)),
    observed: observedWith([sandbox()], [running()]),
    expected: "terminating, Running, running: stop container a within 2s: its manifest is gone",
  },
  {
    name: "a terminating pod stops its sandbox after its containers",
    desired: desired(pod(), ending(30)),
    observed: observedWith([sandbox()], [exited()]),
    expected: "terminating, Running, Error: stop sandbox: its manifest is gone",
  },
  {
    name: "a removed pod removes its sandbox with the containers in it",
    desired: desired(pod(), ending(30)),
    observed: observedWith([sandbox({ ready: false })], [exited()]),
    expected: "terminating, Running, Error: remove sandbox: its manifest is gone",
  },
  {
    name: "a container whose sandbox is gone is removed by an action of its own",
    desired: desired(pod(), ending(30)),
    observed: observedWith([], [exited()]),
    expected: "terminating, Running, Error: remove container a: its manifest is gone",
  },
  {
    name: "a removed pod removes its files last",
    desired: desired(pod(), ending(30)),
    observed: observedWith([]),
    expected:
      "terminating, Pending, ContainerStatusUnknown: remove the pod's files: its manifest is gone; remove the pod's logs: its manifest is gone",
  },
  {
    name: "the container of a pod that was removed after its init containers counts as started",
    desired: desired(prepares(), ending(30)),
    observed: observedWith([sandbox()], [exited("first", 0, { exitCode: 0, reason: "Completed" })]),
    expected: "terminating, Pending, ContainerStatusUnknown: stop sandbox: its manifest is gone",
  },
  {
    name: "the container of a pod that was removed before its init container had ended waits",
    desired: desired(prepares(), ending(30)),
    observed: observedWith([sandbox()], [exited("first")]),
    expected: "terminating, Pending, PodInitializing: stop sandbox: its manifest is gone",
  },
  {
    name: "a removed pod without anything left is finished",
    desired: desired(pod(), ending(30)),
    observed: nothing,
    expected: "finished, Pending, ContainerStatusUnknown: nothing",
  },
  {
    name: "an init container that fails for good in a new sandbox ends the pod, whatever ran in the old one",
    desired: desired(prepares({ restartPolicy: "Never" })),
    observed: observedWith(
      [sandbox({ id: "s1" as SandboxId, attempt: 1 }), sandbox({ ready: false })],
      [
        exited("first", 1, { sandboxId: "s1" }),
        exited("first", 0, { exitCode: 0 }),
        exited("a", 0, { exitCode: 137, sandboxId: "s0" }),
      ],
    ),
    memory: stopped,
    expected: "terminating, Failed, Error: stop sandbox: its init container first has failed",
  },
  {
    name: "such a failure ends the pod even if only log files of its app containers are left",
    desired: desired(prepares({ restartPolicy: "Never" })),
    observed: observedWith([sandbox({ attempt: 1 })], [exited("first", 1)], { loggedAttempts: new Map([["a", 0]]) }),
    expected: "terminating, Failed, ContainerStatusUnknown: stop sandbox: its init container first has failed",
  },
  {
    name: "a container with a grace period of zero is stopped within two seconds and without a hook",
    desired: desired(pod({ terminationGracePeriodSeconds: 0 }, [{ name: "a", lifecycle: drain }])),
    observed: observedWith([sandbox()], [running("a", 0, { hash: "other" })]),
    expected: "syncing, Running, running: stop container a within 2s: container a definition changed",
  },
  {
    name: "a container with a grace period of zero that fails its probe is stopped the same way",
    desired: desired(pod({ terminationGracePeriodSeconds: 0 }, [{ name: "a", lifecycle: drain, livenessProbe: {} }])),
    observed: observedWith([sandbox()], [running()], { health: unhealthy }),
    expected:
      "syncing, Running, running: stop container a within 2s: Container a failed liveness probe, will be restarted",
  },
  {
    name: "a container with a grace period of one second in an unready sandbox is stopped within two seconds",
    desired: desired(pod({ terminationGracePeriodSeconds: 1 })),
    observed: observedWith([sandbox({ ready: false })], [running()]),
    expected:
      "syncing, Running, running: stop container a within 2s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "the sidecars of an unready sandbox are stopped after the app containers",
    desired: desired(served),
    observed: observedWith([sandbox({ ready: false })], [running("proxy"), running()]),
    expected:
      "syncing, Running, running: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created; again in 30s",
  },
  {
    name: "the sidecars of an unready sandbox get the rest of the grace period",
    desired: desired(served),
    observed: observedWith([sandbox({ ready: false })], [running("proxy"), exited()]),
    memory: { ...prepared, sandboxReplacedSince: now - 12_000 },
    expected:
      "syncing, Running, Error: stop container proxy within 18s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "the sidecars of an unready sandbox are stopped at once after the grace period",
    desired: desired(served),
    observed: observedWith([sandbox({ ready: false })], [running("proxy"), running()]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]), sandboxReplacedSince: now - 30_000 },
    expected:
      "syncing, Running, running: stop container proxy within 2s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "sidecars wait for the app containers, and for no others",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: observedWith(
      [sandbox()],
      [running("debug"), running(), running("two"), running("setup"), running("one")],
    ),
    expected: `terminating, Running, running: ${["debug", "a", "setup"].map(stopsGone).join("; ")}; again in 30s`,
  },
  {
    name: "an ephemeral container does not delay a sidecar's stop",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: observedWith([sandbox()], [running("debug"), exited(), running("two"), exited("setup"), running("one")]),
    expected: `terminating, Running, Error: ${["debug", "two"].map(stopsGone).join("; ")}; again in 30s`,
  },
  {
    name: "a run-to-completion init container does not delay a sidecar's stop",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: observedWith([sandbox()], [running("setup"), running("one")]),
    expected: `terminating, Pending, PodInitializing: ${["setup", "one"].map(stopsGone).join("; ")}`,
  },
  {
    name: "after the grace period all sidecars are stopped at once",
    desired: desired(sidecars, { ...ending(30, now - 30_000), source: { kind: "api" } }),
    observed: observedWith([sandbox()], [running(), running("one")]),
    expected:
      "terminating, Running, running: stop container a within 2s: its manifest is gone; stop container one within 2s: its manifest is gone",
  },
  {
    name: "the preStop hook of a sidecar starts with the termination, before the sidecar may be stopped",
    desired: desired(drained, ending(30)),
    observed: observedWith([sandbox()], [running(), running("two"), running("one")]),
    expected: `terminating, Running, running: ${stopsGone("a")}; ${hooksGone("two")}; ${hooksGone("one")}; again in 30s`,
  },
  {
    name: "the preStop hook of a sidecar gets the rest of the grace period",
    desired: desired(drained, ending(30, now - 29_500)),
    observed: observedWith([sandbox()], [running(), running("one")]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]) },
    expected:
      "terminating, Running, running: run the preStop hook of container one within 1s: its manifest is gone; again in 0.5s",
  },
  {
    name: "the preStop hook of a sidecar runs once",
    desired: desired(drained, ending(30)),
    observed: observedWith([sandbox()], [running(), running("one")]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]), preStopDone: hookOfOne },
    expected: "terminating, Running, running: nothing; again in 30s",
  },
  {
    name: "the stop of a sidecar waits for its hook",
    desired: desired(drained, ending(30)),
    observed: observedWith([sandbox()], [exited(), running("one")]),
    memory: { ...prepared, stopping: hookOfOne },
    expected: "terminating, Running, Error: nothing",
  },
  {
    name: "the stop of a sidecar does not run its hook again",
    desired: desired(drained, ending(30)),
    observed: observedWith([sandbox()], [exited(), running("one")]),
    memory: { ...prepared, preStopDone: hookOfOne },
    expected: `terminating, Running, Error: ${stopsGone("one")}`,
  },
  {
    name: "the stop of a sidecar does not run the hook that an earlier agent has run",
    desired: desired(drained, ending(30)),
    observed: { ...observedWith([sandbox()], [exited(), running("one")]), endedPreStopHooks: new Set(["one #0"]) },
    expected: `terminating, Running, Error: ${stopsGone("one")}`,
  },
  {
    name: "the hook of an earlier instance does not count",
    desired: desired(drained, ending(30)),
    observed: { ...observedWith([sandbox()], [exited(), running("one")]), endedPreStopHooks: new Set(["one #1"]) },
    expected:
      "terminating, Running, Error: stop container one, its preStop hook first, within 30s: its manifest is gone",
  },
  {
    name: "a hook that the end of an agent has interrupted runs again",
    desired: desired(drained, ending(30)),
    observed: observedWith([sandbox()], [exited(), running("one")]),
    expected:
      "terminating, Running, Error: stop container one, its preStop hook first, within 30s: its manifest is gone",
  },
  {
    name: "a pod that ends by itself has a grace period of at least one second, so its hook runs",
    desired: desired(pod({ terminationGracePeriodSeconds: 0 }, [{ name: "a", lifecycle: drain }])),
    observed: observedWith([sandbox()], [running()]),
    memory: { ...prepared, outcome: { phase: "Failed", reason: "DeadlineExceeded", at: now } },
    expected:
      "terminating, Running, running: stop container a, its preStop hook first, within 2s: all its containers are done",
  },
  {
    name: "a grace period of zero skips the hook",
    desired: desired(drained, ending(0)),
    observed: observedWith([sandbox()], [running(), running("one")]),
    expected:
      "terminating, Running, running: stop container a within 2s: its manifest is gone; stop container one within 2s: its manifest is gone",
  },
  {
    name: "the hooks of an unready sandbox's sidecars start with the first stop",
    desired: desired(drained),
    observed: observedWith([sandbox({ ready: false })], [running("one"), running()]),
    expected:
      "syncing, Running, running: run the preStop hook of container one within 30s: the pod's sandbox changed, it will be killed and re-created; stop container a within 30s: the pod's sandbox changed, it will be killed and re-created; again in 30s",
  },
  {
    name: "a synthetic exit does not complete a pod before the first API list",
    desired: desired(never, unheard),
    observed: observedWith([sandbox()], [exited("a", 0, madeUp)]),
    expected: "syncing, Running, Unknown: nothing",
  },
  {
    name: "a synthetic exit of an init container does not complete a pod before the first API list",
    desired: desired(prepares({ restartPolicy: "Never" }), unheard),
    observed: observedWith([sandbox()], [exited("first", 0, madeUp)]),
    expected: "syncing, Pending, PodInitializing: nothing",
  },
  {
    name: "a synthetic exit completes the pod after the first API list",
    desired: desired(never, { source: { kind: "api" } }),
    observed: observedWith([sandbox()], [exited("a", 0, madeUp)]),
    expected: "terminating, Failed, Unknown: stop sandbox: all its containers are done",
  },
  {
    name: "a synthetic exit completes the pod if its sandbox is gone too",
    desired: desired(never, unheard),
    observed: observedWith([sandbox({ ready: false })], [exited("a", 0, madeUp)]),
    expected: "terminating, Failed, Unknown: stop sandbox: all its containers are done",
  },
  {
    name: "a real exit completes the pod before the first API list",
    desired: desired(never, unheard),
    observed: observedWith([sandbox()], [exited()]),
    expected: "terminating, Failed, Error: stop sandbox: all its containers are done",
  },
  {
    name: "a failed stop is retried after a delay",
    desired: desired(pod(), ending(30)),
    observed: observedWith([sandbox()], [running()]),
    memory: failed({ of: "endOfContainer", id: "a0" as ContainerId }, "KillContainerError", now),
    expected: "terminating, Running, running: nothing; again in 1s",
  },
];

for (const row of rows)
  test(row.name, () => {
    expect(show(decidePod(row.desired ?? desired(), row.observed, row.memory ?? prepared, settings, now))).toBe(
      row.expected,
    );
  });

test("a usable sandbox, or one whose containers have exited, has no grace period running", () => {
  const dead = sandbox({ ready: false });
  const since = (observed: ObservedPod, memory = prepared) =>
    decidePod(desired(), observed, memory, settings, now).memory.sandboxReplacedSince;
  expect(since(observedWith([dead], [running()]))).toBe(now);
  const started = { ...prepared, sandboxReplacedSince: now - 5_000 };
  expect(since(observedWith([dead], [running()]), started)).toBe(now - 5_000);
  expect(since(observedWith([sandbox()], [running()]), started)).toBeUndefined();
  expect(since(observedWith([dead], [exited()]), started)).toBeUndefined();
});

test("equal arguments give equal decisions, and are not changed", () => {
  for (const { desired: desiredPod = desired(), observed, memory = prepared } of rows) {
    const all = () => ({
      wanted: desiredPod,
      observed,
      memory: { ...memory, failures: [memory.failures.keys(), memory.failures.values()] },
    });
    const before = structuredClone(all());
    const first = decidePod(desiredPod, observed, memory, settings, now);
    expect(decidePod(desiredPod, observed, memory, settings, now)).toEqual(first);
    expect(all()).toEqual(before);
  }
});

test("a decision with its own memory is the same decision", () => {
  for (const { desired: desiredPod = desired(), observed, memory = prepared } of rows) {
    const first = decidePod(desiredPod, observed, memory, settings, now);
    const second = decidePod(desiredPod, observed, first.memory, settings, now);
    expect(show(second)).toBe(show(first));
    expect(second.status).toEqual(first.status);
  }
});

test("the exit of an instance that is removed before the API server shows it stays the last state", () => {
  const failsOnce = desired(pod({ restartPolicy: "OnFailure" }, [{ name: "a" }, { name: "b" }]));
  const [first, second] = [exited("a", 0, { exitCode: 3 }), exited("a", 1, { exitCode: 0 })];
  const before = decidePod(
    failsOnce,
    observedWith([sandbox()], [second, first, running("b")]),
    prepared,
    settings,
    now,
  );
  const removal = before.actions.find(({ kind }) => kind === "removeContainer");
  expect(removal && describe(removal)).toBe("remove container a: a newer instance has ended too");
  const memory = recordResult(before.memory, removal!, { ok: true }, now);
  // The pod of the API has no status yet.
  const after = decidePod(failsOnce, observedWith([sandbox()], [second, running("b")]), memory, settings, now);
  const shown = { state: { terminated: { exitCode: 0 } }, lastState: { terminated: { exitCode: 3 } } };
  for (const { status } of [before, after]) expect(status.containerStatuses).toMatchObject([shown, {}]);
});

test("the exit of a removed instance comes before an earlier one that the API server still shows", () => {
  const shown = { exitCode: 3, finishedAt: "2001-09-09T01:46:30Z", containerID: "containerd://a0" };
  const status = { name: "a", state: { terminated: shown }, ready: false, restartCount: 0, image, imageID: "" };
  const failsTwice = pod({ restartPolicy: "OnFailure" }, [{ name: "a" }, { name: "b" }]);
  const at = Date.parse(shown.finishedAt);
  const removed = exited("a", 1, { exitCode: 4, finishedAt: at + 5000 }) as ExitedContainer;
  const newest = exited("a", 2, { exitCode: 0, finishedAt: at + 9000 });
  const memory = { ...prepared, removedExits: new Map([["a", removed]]) };
  const wanted = desired({ ...failsTwice, status: { containerStatuses: [status] } });
  const decided = decidePod(wanted, observedWith([sandbox()], [newest, running("b")]), memory, settings, at + 10_000);
  expect(decided.status.containerStatuses).toMatchObject([{ lastState: { terminated: { exitCode: 4 } } }, {}]);
});

test("a pod without a source gets one second of grace, which becomes two", () => {
  const decision = decideOrphan(observedWith([sandbox()], [running()]), emptyMemory, now);
  expect(decision.actions.map(describe)).toEqual(["stop container a within 2s: no source asks for this pod"]);
  expect(decideOrphan(nothing, emptyMemory, now).stage.kind).toBe("finished");
});

test("an unsupported pod is rejected with the kubelet's message and all its unsupported features", () => {
  const unsupportedPod = pod({
    resourceClaims: [{ name: "gpu" }],
    ephemeralContainers: [{ name: "debugger" }],
  });
  const { status, actions, stage } = decidePod(desired(unsupportedPod), nothing, emptyMemory, settings, now);
  expect({
    stage: stage.kind,
    actions,
    phase: status.phase,
    reason: status.reason,
    message: status.message,
    containers: status.containerStatuses,
  }).toEqual({
    stage: "terminated",
    actions: [],
    phase: "Failed",
    reason: "PodFeatureUnsupported",
    message: "Pod was rejected: Pod requires node features that are not available: resourceClaims, ephemeralContainers",
    containers: undefined,
  });
});

const unread = {
  areServicesRead: false,
  areRuntimeClassesRead: false,
  settledReferences: new Set<string>(),
  referenceVersions: new Map<string, string>(),
  hasReferencedKey: () => true,
  tokenVersions: new Map<string, string>(),
  settledClaims: new Set<string>(),
};
const read = { ...unread, areServicesRead: true, areRuntimeClassesRead: true };
const answered = { ...read, settledReferences: new Set(["secret default/login"]) };
const secretive = { env: [{ name: "A", valueFrom: { secretKeyRef: { name: "login", key: "k" } } }] };
const projected = pod({ volumes: [{ name: "kube-api-access-x", projected: { sources: [] } }] }, [
  { volumeMounts: [{ name: "kube-api-access-x", mountPath: "/token" }] },
]);
const sandboxed = pod({ runtimeClassName: "gvisor" });
const ofApi = { source: { kind: "api" } } as const;
const waiting = (message: string) => `ContainerCreating, ${message}`;
const services = "services have not yet been read at least once, cannot construct envvars";
const classes = "failed to lookup RuntimeClass gvisor: RuntimeClasses have not yet been read at least once";

/** What a pod does in a cluster, and what its container is waiting for. */
const clusterRows: readonly [
  sentence: string,
  expected: DesiredPodView,
  observed: ObservedPod,
  cluster: PodSettings["cluster"],
  says: string,
][] = [
  [
    "an API pod makes other volumes beside its sandbox",
    desired(projected, ofApi),
    nothing,
    read,
    "run sandbox (attempt 0): the pod has none; set up volume kube-api-access-x",
  ],
  [
    "a static pod with other volumes is rejected",
    desired(pod({ volumes: [{ name: "keys", secret: { secretName: "keys" } }] })),
    nothing,
    read,
    "rejected",
  ],
  [
    "a pod with a RuntimeClass runs",
    desired(sandboxed, ofApi),
    nothing,
    read,
    "run sandbox (attempt 0): the pod has none",
  ],
  [
    "a static pod with a RuntimeClass runs",
    desired(sandboxed),
    nothing,
    read,
    "run sandbox (attempt 0): the pod has none",
  ],
  [
    "a static pod with a RuntimeClass is rejected on a standalone node",
    desired(sandboxed),
    nothing,
    undefined,
    "rejected",
  ],
  ["a sandbox waits for the RuntimeClasses", desired(sandboxed, ofApi), nothing, unread, waiting(classes)],
  [
    "a sandbox without a RuntimeClass does not wait for them",
    desired(pod(), ofApi),
    nothing,
    unread,
    "run sandbox (attempt 0): the pod has none",
  ],
  [
    "a container waits for the Services",
    desired(pod(), ofApi),
    observedWith([sandbox()]),
    unread,
    `CreateContainerConfigError, ${services}`,
  ],
  [
    "a static pod's container does not wait for the Services",
    desired(pod()),
    observedWith([sandbox()]),
    unread,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "a created container of the API does not wait for the Services",
    desired(pod(), ofApi),
    observedWith([sandbox()], [created()]),
    unread,
    "start container a (attempt 0)",
  ],
  [
    "a container on a node that left its cluster does not wait for the Services",
    desired(pod(), ofApi),
    observedWith([sandbox()]),
    undefined,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "the next instance waits for the Services too",
    desired(pod(), ofApi),
    observedWith([sandbox()], [exited("a", 0, { crashes: 0, finishedAt: now - 60_000 })]),
    unread,
    "-",
  ],
  [
    "a container waits for a Secret, and the containers behind it wait for that container",
    desired(pod({}, [{ name: "a", ...secretive }, { name: "b" }]), ofApi),
    observedWith([sandbox()]),
    read,
    "-",
  ],
  [
    "a container is created after the read of the Secret has ended, successful or not",
    desired(pod({}, [{ name: "a", ...secretive }, { name: "b" }]), ofApi),
    observedWith([sandbox()]),
    answered,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "a running container waits for nothing",
    desired(pod({}, [{ name: "a", ...secretive }]), ofApi),
    observedWith([sandbox()], [container("a", 0, { state: "running" })]),
    read,
    "-",
  ],
];
for (const [sentence, wanted, observed, cluster, expected] of clusterRows)
  test(`in a cluster: ${sentence}`, () => {
    const all = { ...settings, ...(cluster === undefined ? {} : { cluster }) };
    const { status, actions, lookAgainAt } = decidePod(wanted, observed, prepared, all, now);
    const { waiting: why } = status.containerStatuses?.[0]?.state ?? {};
    const doing = actions.map(describe).join("; ");
    const rejected = status.reason === "PodFeatureUnsupported" ? "rejected" : undefined;
    const waitMessage = why?.message === undefined ? "-" : `${why.reason}, ${why.message}`;
    expect(rejected ?? (doing || waitMessage)).toBe(expected);
    // The arrival of a prerequisite wakes the pods, so there is no timer.
    expect(lookAgainAt).toBeUndefined();
  });

const networkProblem = "container runtime network not ready: NetworkReady=false";

/** What a pod does while the runtime has no network, standalone and in a cluster. */
const networkRows: readonly [sentence: string, expected: DesiredPodView, observed: ObservedPod, says: string][] = [
  ["a sandbox waits for it", desired(pod()), nothing, waiting(`network is not ready: ${networkProblem}`)],
  [
    "a sandbox with host networking does not wait for it",
    desired(pod({ hostNetwork: true })),
    nothing,
    "run sandbox (attempt 0): the pod has none",
  ],
  [
    "a pod with a ready sandbox does not wait for it",
    desired(pod()),
    observedWith([sandbox()]),
    "create container a (attempt 0): it has not run yet",
  ],
];
for (const [sentence, wanted, observed, expected] of networkRows)
  for (const [where, cluster] of [
    ["on a standalone node", {}],
    ["in a cluster", { cluster: read }],
  ] as const)
    test(`without a network, ${where}: ${sentence}`, () => {
      const { status, actions } = decidePod(
        wanted,
        observed,
        prepared,
        { ...settings, ...cluster, networkProblem },
        now,
      );
      const why = status.containerStatuses?.[0]?.state?.waiting;
      expect(actions.map(describe).join("; ") || `${why?.reason}, ${why?.message}`).toBe(expected);
    });

const resources: readonly [sentence: string, resources: Container["resources"], feature: string | undefined][] = [
  ["a device limit", { limits: { "nvidia.com/gpu": "1" } }, "extended resources"],
  ["a device limit among ordinary limits", { limits: { cpu: "1", "example.com/tpm": "1" } }, "extended resources"],
  ["a device request alone", { requests: { "example.com/tpm": "1" } }, "extended resources"],
  ["huge pages", { limits: { memory: "1Gi", "hugepages-2Mi": "2Mi" } }, undefined],
  ["ordinary resources", { requests: { cpu: "1", memory: "1Gi", "ephemeral-storage": "1Gi" } }, undefined],
];
for (const [sentence, wanted, feature] of resources)
  test(`a container with ${sentence} is ${feature === undefined ? "run" : "rejected"}`, () => {
    const asking = desired(pod({}, [{ name: "a", ...(wanted === undefined ? {} : { resources: wanted }) }]));
    const { status } = decidePod(asking, nothing, emptyMemory, settings, now);
    const rejected =
      feature === undefined
        ? undefined
        : `Pod was rejected: Pod requires node features that are not available: ${feature}`;
    expect(status.message).toBe(rejected);
  });

test("a container gets the addresses of the pod's status, in that order", () => {
  const { status, actions } = decidePod(
    desired(pod()),
    observedWith([sandbox({ ips: ["fd00::2", "10.0.0.2", "10.0.0.3"] })]),
    prepared,
    settings,
    now,
  );
  expect(actions).toMatchObject([{ kind: "createContainer", podIPs: ["10.0.0.2", "fd00::2"] }]);
  expect([status.podIP, status.podIPs]).toEqual(["10.0.0.2", [{ ip: "10.0.0.2" }, { ip: "fd00::2" }]]);
});

test("a container that is stopped for a restart has the kubelet's event message", () => {
  const proxy: Container = { name: "proxy", image, restartPolicy: "Always" };
  const stopEvents = (of: Pod, instance: ObservedContainer, failedProbe?: "liveness" | "startup") => {
    const health = new Map(failedProbe && [[instance.id, { isStarted: true, isReady: false, failedProbe }]]);
    const { actions } = decidePod(
      desired(of),
      observedWith([sandbox()], [instance], { health, loggedAttempts: new Map([[instance.name, instance.attempt]]) }),
      prepared,
      settings,
      now,
    );
    return actions.map((action) => (action.kind === "stopContainer" ? action.eventMessage : action.kind));
  };
  const ruled = {
    restartPolicy: "Never",
    restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "In", values: [137] } }],
  } as const;
  const sidecared = pod({ initContainers: [proxy] });
  expect({
    changed: stopEvents(pod(), running("a", 0, { hash: "other" })),
    unknown: stopEvents(pod(), unknown()),
    "liveness probe failed": stopEvents(pod(), running(), "liveness"),
    "startup probe failed": stopEvents(never, running(), "startup"),
    "policy Never, with a rule for 137": stopEvents(pod({}, [ruled]), running(), "liveness"),
    "sidecar definition changed": stopEvents(sidecared, running("proxy", 0, { hash: "other" })),
    "sidecar state unknown": stopEvents(sidecared, unknown("proxy")),
    "sidecar liveness probe failed": stopEvents(sidecared, running("proxy"), "liveness"),
  }).toEqual({
    changed: ["Container a definition changed, will be restarted"],
    unknown: ['Container is in "unknown" state, try killing it before restart'],
    "liveness probe failed": ["Container a failed liveness probe, will be restarted"],
    "startup probe failed": ["Container a failed startup probe"],
    "policy Never, with a rule for 137": ["Container a failed liveness probe"],
    "sidecar definition changed": ["Init container proxy definition changed"],
    "sidecar state unknown": ['Init container is in "unknown" state, try killing it before restart'],
    "sidecar liveness probe failed": ["Init container proxy failed liveness probe"],
  });
});

test("a pod that the node has ended is Failed with reason, message and DisruptionTarget, once its containers have stopped", () => {
  const request = desired(pod({ restartPolicy: "Never" }), { terminationRequest: evicted });
  const stopping = decidePod(request, observedWith([sandbox()], [running()]), prepared, settings, now);
  expect(stopping.status).toMatchObject({ phase: "Running" });
  expect(stopping.status.reason).toBeUndefined();
  const stopped = decidePod(
    request,
    observedWith([sandbox()], [exited("a", 0, { exitCode: 143, finishedAt: now + 500 })]),
    stopping.memory,
    settings,
    now + 1000,
  );
  const { phase, reason, message, conditions } = stopped.status;
  expect({ phase, reason, message }).toEqual({
    phase: "Failed",
    reason: "Evicted",
    message: "the node is short of memory",
  });
  expect(conditions?.[0]).toMatchObject({ type: "DisruptionTarget", status: "True", ...evicted.disruption });
});

test("a pod whose containers had all exited before the request of the node keeps its own outcome, also after a restart of the agent", () => {
  const done = exited("a", 0, { exitCode: 0, finishedAt: now - 10 });
  const job = desired(pod({ restartPolicy: "Never" }), { terminationRequest: evicted });
  expect(decidePod(job, observedWith([sandbox()], [done]), emptyMemory, settings, now).status.phase).toBe("Succeeded");
  const late = exited("a", 0, { exitCode: 0, finishedAt: now + 10 });
  const { status } = decidePod(job, observedWith([sandbox()], [late]), emptyMemory, settings, now + 10);
  expect([status.phase, status.reason]).toEqual(["Failed", "Evicted"]);
});
