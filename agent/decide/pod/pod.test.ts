import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { containerHash } from "../container/container-hash.ts";
import type { Settings } from "../settings.ts";
import { describe } from "./action.ts";
import type { DesiredNow } from "./desired.ts";
import { emptyMemory, type PodMemory } from "./memory.ts";
import { nothingObserved, type ObservedContainer, type ObservedPod, type ObservedSandbox } from "./observed.ts";
import { type Decision, decideOrphan, decidePod } from "./pod.ts";

const uid = "u" as PodUid;
const now = 1_000_000_000;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };
const image = "busybox:1";
const present = new Map([
  [image, { present: true, ref: "sha256:1", user: { uid: undefined, username: "" } }],
]) as ObservedPod["images"];
const prepared: PodMemory = { ...emptyMemory, volumesPrepared: true };

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

const desired = (wanted: Pod = pod(), more: Partial<DesiredNow> = {}): DesiredNow => ({
  uid,
  pod: wanted,
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

const seen = (
  sandboxes: readonly ObservedSandbox[],
  containers: readonly ObservedContainer[] = [],
  more: Partial<ObservedPod> = {},
): ObservedPod => ({
  ...nothingObserved(uid, "default", "web"),
  images: present,
  sandboxes,
  containers,
  hasFiles: true,
  ...more,
});
const nothing = seen([], [], { hasFiles: false });

/** A decision as a row of the table shows it: stage, phase and reason, then what to do, then when to look again. */
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
  readonly desired?: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory?: PodMemory;
  readonly says: string;
}

const failure = (reason: string, at: number, count = 1) => ({ reason, message: "why", at, count, isOutage: false });
const failed = (subject: string, reason: string, at: number, count = 1): PodMemory => ({
  ...prepared,
  failures: new Map([[subject, failure(reason, at, count)]]),
});
const two = pod({}, [{ name: "a" }, { name: "b" }]);
const never = pod({ restartPolicy: "Never" });
const unheard = { source: { kind: "api" }, isUnheard: true } as const;
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
const unhealthy = new Map([["a0" as ContainerId, { isStarted: true, isReady: false, failed: "liveness" as const }]]);

const young = (crashes: number, ageMs: number) =>
  seen([sandbox({ ready: false, attempt: 7, crashes, createdAt: now - ageMs })]);
const stopped: PodMemory = { ...prepared, stoppedSandboxes: new Set(["s0"]) };

const rows: readonly Row[] = [
  {
    name: "a first sandbox that dies young is replaced at once",
    observed: young(0, 100),
    memory: stopped,
    says: "syncing, Pending, ContainerCreating: run sandbox (attempt 8): the last one is not ready",
  },
  {
    name: "the fourth in a row waits four seconds from its making",
    observed: young(3, 1_000),
    memory: stopped,
    says: "syncing, Pending, ContainerCreating: nothing; again in 3s",
  },
  {
    name: "none waits longer than five minutes",
    observed: young(40, 1_000),
    memory: stopped,
    says: "syncing, Pending, ContainerCreating: nothing; again in 299s",
  },
  {
    name: "one that has lasted is replaced at once",
    observed: young(3, 90_000),
    memory: stopped,
    says: "syncing, Pending, ContainerCreating: run sandbox (attempt 8): the last one is not ready",
  },
  {
    name: "a pod that ends by itself gets no new grace when it is taken away too",
    desired: desired(pod({ terminationGracePeriodSeconds: 60 }), ending(60)),
    observed: seen([sandbox()], [running()]),
    memory: { ...prepared, outcome: { phase: "Failed", reason: "DeadlineExceeded", at: now - 50_000 } },
    says: "terminating, Running, running: stop container a within 10s: its manifest is gone",
  },
  {
    name: "what was rejected under an earlier revision is judged anew",
    desired: desired(pod(), { revision: 1 }),
    observed: nothing,
    memory: { ...emptyMemory, revision: 0, outcome: { phase: "Failed", reason: "PodFeatureUnsupported", at: now } },
    says: "syncing, Pending, ContainerCreating: prepare volumes",
  },
  {
    name: "a container that ended as another image is made anew, whatever its policy",
    desired: desired(pod({ restartPolicy: "OnFailure" })),
    observed: seen([sandbox()], [exited("a", 4, { hash: "other", exitCode: 0 })]),
    memory: prepared,
    says: "syncing, Running, Error: create container a (attempt 5): it exited with code 0",
  },
  {
    name: "a new pod first gets its volumes",
    observed: nothing,
    memory: emptyMemory,
    says: "syncing, Pending, ContainerCreating: prepare volumes",
  },
  {
    name: "then its sandbox",
    observed: seen([]),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none",
  },
  {
    name: "its image is fetched beside that",
    observed: seen([], [], { images: absent }),
    memory: prepared,
    says: `syncing, Pending, ContainerCreating: run sandbox (attempt 0): the pod has none; pull image ${image}: it is not on this node`,
  },
  {
    name: "one image for two containers is one pull",
    desired: desired(two),
    observed: seen([sandbox()], [], { images: absent }),
    memory: prepared,
    says: `syncing, Pending, ContainerCreating: pull image ${image}: it is not on this node`,
  },
  {
    name: "then its first container is created",
    desired: desired(two),
    observed: seen([sandbox()]),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: create container a (attempt 0): it has not run yet",
  },
  {
    name: "a created container is started before the next is created",
    desired: desired(two),
    observed: seen([sandbox()], [created()]),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: start container a (attempt 0)",
  },
  {
    name: "then comes the second one",
    desired: desired(two),
    observed: seen([sandbox()], [running()]),
    memory: prepared,
    says: "syncing, Pending, running: create container b (attempt 0): it has not run yet",
  },
  {
    name: "all is well: nothing to do, nothing to wait for",
    observed: seen([sandbox()], [running()]),
    says: "syncing, Running, running: nothing",
  },
  {
    name: "a new agent that finds all well does nothing either",
    observed: seen([sandbox()], [running("a", 3)]),
    memory: emptyMemory,
    says: "syncing, Running, running: nothing",
  },
  {
    name: "a first crash restarts at once",
    observed: seen([sandbox()], [exited()]),
    memory: prepared,
    says: "syncing, Running, Error: create container a (attempt 1): it exited with code 1",
  },
  {
    name: "a second crash waits ten seconds from its end",
    observed: seen([sandbox()], [exited("a", 1)]),
    memory: prepared,
    says: "syncing, Running, CrashLoopBackOff: nothing; again in 9s",
  },
  {
    name: "a sixth crash waits 160 seconds",
    observed: seen([sandbox()], [exited("a", 5)]),
    memory: prepared,
    says: "syncing, Running, CrashLoopBackOff: nothing; again in 159s",
  },
  {
    name: "no crash waits longer than the maximum",
    observed: seen([sandbox()], [exited("a", 50)]),
    memory: prepared,
    says: "syncing, Running, CrashLoopBackOff: nothing; again in 299s",
  },
  {
    name: "ten minutes of life forgive",
    observed: seen([sandbox()], [exited("a", 5, { createdAt: now - 700_000 })]),
    memory: prepared,
    says: "syncing, Running, Error: create container a (attempt 6): it exited with code 1",
  },
  {
    name: "an exit in the future is a clock set back, and is not waited for",
    observed: seen([sandbox()], [exited("a", 3, { finishedAt: now + 99_000 })]),
    memory: prepared,
    says: "syncing, Running, CrashLoopBackOff: create container a (attempt 4): it exited with code 1",
  },
  {
    name: "OnFailure leaves what has succeeded",
    desired: desired(pod({ restartPolicy: "OnFailure" }, [{ name: "a" }, { name: "b" }])),
    observed: seen([sandbox()], [exited("a", 0, { exitCode: 0, reason: "Completed" }), running("b")]),
    memory: prepared,
    says: "syncing, Running, Completed: nothing",
  },
  {
    name: "Never means never; the sandbox is given back",
    desired: desired(never),
    observed: seen([sandbox()], [exited()]),
    memory: prepared,
    says: "terminating, Failed, Error: stop sandbox: all its containers are done",
  },
  {
    name: "done, and kept for its logs",
    desired: desired(never),
    observed: seen([sandbox({ ready: false })], [exited("a", 0, { exitCode: 0, reason: "Completed" })]),
    memory: { ...prepared, stoppedSandboxes: new Set(["s0"]) },
    says: "terminated, Succeeded, Completed: nothing",
  },
  {
    name: "a container whose image was changed is stopped",
    observed: seen([sandbox()], [running("a", 0, { hash: "other" })]),
    memory: prepared,
    says: "syncing, Running, running: stop container a within 30s: container a definition changed",
  },
  {
    name: "a container of another kubelet without our hash is left as it is",
    observed: seen([sandbox()], [running("a", 0, { hash: undefined })]),
    memory: prepared,
    says: "syncing, Running, running: nothing",
  },
  {
    name: "a container of unknown state is stopped first",
    observed: seen([sandbox()], [unknown()]),
    memory: prepared,
    says: "syncing, Running, ContainerStatusUnknown: stop container a within 30s: its state is unknown",
  },
  {
    name: "a lost container counts as ended",
    observed: seen([sandbox()], [], { loggedAttempts: new Map([["a", 4]]) }),
    memory: prepared,
    says: "syncing, Running, ContainerStatusUnknown: create container a (attempt 5): it exited with code 137",
  },
  {
    name: "one whose start was cut short has left a log, and has not ended",
    desired: desired(never),
    observed: seen([sandbox()], [created()], { loggedAttempts: new Map([["a", 0]]) }),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: start container a (attempt 0)",
  },
  {
    name: "and with Never its work is not done twice",
    desired: desired(never),
    observed: seen([sandbox()], [], { loggedAttempts: new Map([["a", 0]]) }),
    memory: prepared,
    says: "terminating, Failed, ContainerStatusUnknown: stop sandbox: all its containers are done",
  },
  {
    name: "a dead sandbox: first its containers are stopped",
    observed: seen([sandbox({ ready: false })], [running()]),
    memory: prepared,
    says: "syncing, Running, running: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "with Never no other is made, so that nobody is told of one",
    desired: desired(never),
    observed: seen([sandbox({ ready: false })], [running()]),
    memory: prepared,
    says: "syncing, Running, running: stop container a within 30s: its sandbox will not do: the last one is not ready",
  },
  {
    name: "then it gives back its network",
    observed: seen([sandbox({ ready: false })], [exited()]),
    memory: prepared,
    says: "syncing, Running, Error: stop sandbox: the last one is not ready",
  },
  {
    name: "then a new one is made",
    observed: seen([sandbox({ ready: false })], [exited()]),
    memory: { ...prepared, stoppedSandboxes: new Set(["s0"]) },
    says: "syncing, Running, Error: run sandbox (attempt 1): the last one is not ready",
  },
  {
    name: "two ready sandboxes are one too many",
    observed: seen([sandbox({ id: "s1" as SandboxId, attempt: 1 }), sandbox()], []),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: stop sandbox: the pod has more than one; stop sandbox: the pod has more than one",
  },
  {
    name: "a sandbox without an address is replaced",
    observed: seen([sandbox({ ips: [] })]),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: stop sandbox: the last one has no address",
  },
  {
    name: "on the host's network it needs none",
    desired: desired(pod({ hostNetwork: true })),
    observed: seen([sandbox({ ips: [], hostNetwork: true })], [running()]),
    says: "syncing, Running, running: nothing",
  },
  {
    name: "a sandbox of the wrong network is replaced",
    desired: desired(pod({ hostNetwork: true })),
    observed: seen([sandbox()]),
    memory: prepared,
    says: "syncing, Pending, ContainerCreating: stop sandbox: the last one has the wrong network namespace",
  },
  {
    name: "an old sandbox that holds nothing is removed",
    observed: seen([sandbox({ attempt: 1 }), oldSandbox], [running()]),
    memory: prepared,
    says: "syncing, Running, running: remove sandbox: a newer one has taken its place",
  },
  {
    name: "of dead instances the newest is kept",
    observed: seen([sandbox()], [running("a", 2), exited("a", 1), exited("a", 0)]),
    memory: prepared,
    says: "syncing, Running, running: remove container a: a newer instance has ended too",
  },
  {
    name: "a container that the spec does not name is stopped",
    observed: seen([sandbox()], [running(), running("x")]),
    memory: prepared,
    says: "syncing, Running, running: stop container x within 30s: the pod has no such container",
  },
  {
    name: "and removed when it has ended",
    observed: seen([sandbox()], [running(), exited("x")]),
    memory: prepared,
    says: "syncing, Running, running: remove container x: the pod has no such container",
  },
  {
    name: "a failed sandbox is tried again a second later",
    observed: seen([]),
    memory: failed("sandbox", "CreatePodSandboxError", now),
    says: "syncing, Pending, ContainerCreating: nothing; again in 1s",
  },
  {
    name: "and after more failures at most fifteen",
    observed: seen([]),
    memory: failed("sandbox", "CreatePodSandboxError", now, 20),
    says: "syncing, Pending, ContainerCreating: nothing; again in 15s",
  },
  {
    name: "a failed creation names its reason",
    observed: seen([sandbox()]),
    memory: failed("container a", "CreateContainerError", now),
    says: "syncing, Pending, CreateContainerError: nothing; again in 1s",
  },
  {
    name: "a failed pull is an error at first",
    observed: seen([sandbox()], [], { images: absent }),
    memory: failed(`image ${image}`, "ErrImagePull", now),
    says: "syncing, Pending, ErrImagePull: nothing; again in 5s",
  },
  {
    name: "then a back-off",
    observed: seen([sandbox()], [], { images: absent }),
    memory: failed(`image ${image}`, "ErrImagePull", now - 6_000),
    says: "syncing, Pending, ImagePullBackOff: nothing; again in 4s",
  },
  {
    name: "and is tried again after ten seconds",
    observed: seen([sandbox()], [], { images: absent }),
    memory: failed(`image ${image}`, "ErrImagePull", now - 10_000),
    says: `syncing, Pending, ImagePullBackOff: pull image ${image}: it is not on this node`,
  },
  {
    name: "a pull under way is waited for without a timer",
    observed: seen([sandbox()], [], { images: absent }),
    memory: { ...prepared, pulls: new Map([[image, { state: "pulling", since: now }]]) },
    says: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "Always pulls although the image is there",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Always" }])),
    observed: seen([sandbox()]),
    memory: prepared,
    says: `syncing, Pending, ContainerCreating: pull image ${image}: its pull policy is Always`,
  },
  {
    name: "a pull is good for one instance",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Always" }])),
    observed: seen([sandbox()], [exited()]),
    memory: { ...prepared, pulls: new Map([[image, { state: "pulled", ref: "sha256:1", usedBy: new Set(["a"]) }]]) },
    says: `syncing, Running, Error: pull image ${image}: its pull policy is Always`,
  },
  {
    name: "Never does not pull",
    desired: desired(pod({}, [{ name: "a", imagePullPolicy: "Never" }])),
    observed: seen([sandbox()], [], { images: absent }),
    memory: prepared,
    says: "syncing, Pending, ErrImageNeverPull: nothing; again in 60s",
  },
  {
    name: "an image that cannot have that name is not asked for",
    desired: desired(pod({}, [{ name: "a", image: "Not An Image" }])),
    observed: seen([sandbox()]),
    memory: prepared,
    says: "syncing, Pending, InvalidImageName: nothing",
  },
  {
    name: "volumes that fail keep the sandbox waiting",
    observed: nothing,
    memory: { ...emptyMemory, failures: new Map([["volumes", failure("FailedMount", now)]]) },
    says: "syncing, Pending, ContainerCreating: nothing; again in 1s",
  },
  {
    name: "a deadline is a time to look again",
    desired: desired(pod({ activeDeadlineSeconds: 100 })),
    observed: seen([sandbox()], [running()]),
    says: "syncing, Running, running: nothing; again in 40s",
  },
  {
    name: "and then an end",
    desired: desired(pod({ activeDeadlineSeconds: 60 })),
    observed: seen([sandbox()], [running()]),
    says: "terminating, Running, running: stop container a within 30s: Pod was active on the node longer than the specified deadline",
  },
  {
    name: "a deadline is counted from when the pod's predecessor was gone",
    desired: desired(pod({ activeDeadlineSeconds: 60 }), { heldUntil: now - 20_000 }),
    observed: seen([sandbox()], [running()]),
    says: "syncing, Running, running: nothing; again in 40s",
  },
  {
    name: "a pod that waits for its predecessor does not wait for its deadline",
    desired: desired(pod({ activeDeadlineSeconds: 60 }), { waitsFor: "before" as PodUid }),
    observed: nothing,
    says: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "a pod that waits for its predecessor does nothing",
    desired: desired(pod(), { waitsFor: "before" as PodUid }),
    observed: nothing,
    says: "syncing, Pending, ContainerCreating: nothing",
  },
  {
    name: "an ending stops all containers at once",
    desired: desired(two, ending(30)),
    observed: seen([sandbox()], [running(), running("b")]),
    says: "terminating, Running, running: stop container a within 30s: its manifest is gone; stop container b within 30s: its manifest is gone",
  },
  {
    name: "what was used of the grace is not granted again",
    desired: desired(pod(), ending(30, now - 12_500)),
    observed: seen([sandbox()], [running()]),
    says: "terminating, Running, running: stop container a within 18s: its manifest is gone",
  },
  {
    name: "but two seconds always are",
    desired: desired(pod(), ending(30, now - 99_000)),
    observed: seen([sandbox()], [running()]),
    says: "terminating, Running, running: stop container a within 2s: its manifest is gone",
  },
  {
    name: "then the sandbox is stopped",
    desired: desired(pod(), ending(30)),
    observed: seen([sandbox()], [exited()]),
    says: "terminating, Running, Error: stop sandbox: its manifest is gone",
  },
  {
    name: "then removed, with what is in it",
    desired: desired(pod(), ending(30)),
    observed: seen([sandbox({ ready: false })], [exited()]),
    says: "terminating, Running, Error: remove sandbox: its manifest is gone",
  },
  {
    name: "a container whose sandbox is gone is removed by itself",
    desired: desired(pod(), ending(30)),
    observed: seen([], [exited()]),
    says: "terminating, Running, Error: remove container a: its manifest is gone",
  },
  {
    name: "then the files",
    desired: desired(pod(), ending(30)),
    observed: seen([]),
    says: "terminating, Pending, ContainerStatusUnknown: remove the pod's files: its manifest is gone",
  },
  {
    name: "then nothing is left",
    desired: desired(pod(), ending(30)),
    observed: nothing,
    says: "finished, Pending, ContainerStatusUnknown: nothing",
  },
  {
    name: "an init container that fails for good in a new sandbox is the pod's end, whatever ran in the old one",
    desired: desired(prepares({ restartPolicy: "Never" })),
    observed: seen(
      [sandbox({ id: "s1" as SandboxId, attempt: 1 }), sandbox({ ready: false })],
      [
        exited("first", 1, { sandboxId: "s1" }),
        exited("first", 0, { exitCode: 0 }),
        exited("a", 0, { exitCode: 137, sandboxId: "s0" }),
      ],
    ),
    memory: stopped,
    says: "terminating, Failed, Error: stop sandbox: its init container first has failed",
  },
  {
    name: "so it is where all that is left of what ran are its logs",
    desired: desired(prepares({ restartPolicy: "Never" })),
    observed: seen([sandbox({ attempt: 1 })], [exited("first", 1)], { loggedAttempts: new Map([["a", 0]]) }),
    says: "terminating, Failed, ContainerStatusUnknown: stop sandbox: its init container first has failed",
  },
  {
    name: "a container whose pod grants no grace is stopped within two seconds, and without a hook",
    desired: desired(pod({ terminationGracePeriodSeconds: 0 }, [{ name: "a", lifecycle: drain }])),
    observed: seen([sandbox()], [running("a", 0, { hash: "other" })]),
    says: "syncing, Running, running: stop container a within 2s: container a definition changed",
  },
  {
    name: "so is one that fails its probe",
    desired: desired(pod({ terminationGracePeriodSeconds: 0 }, [{ name: "a", lifecycle: drain, livenessProbe: {} }])),
    observed: seen([sandbox()], [running()], { health: unhealthy }),
    says: "syncing, Running, running: stop container a within 2s: Container a failed liveness probe, will be restarted",
  },
  {
    name: "and one whose sandbox is dead",
    desired: desired(pod({ terminationGracePeriodSeconds: 1 })),
    observed: seen([sandbox({ ready: false })], [running()]),
    says: "syncing, Running, running: stop container a within 2s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "a dead sandbox's sidecars are stopped behind what they serve",
    desired: desired(served),
    observed: seen([sandbox({ ready: false })], [running("proxy"), running()]),
    says: "syncing, Running, running: stop container a within 30s: the pod's sandbox changed, it will be killed and re-created; again in 30s",
  },
  {
    name: "they have what that has left of the one grace",
    desired: desired(served),
    observed: seen([sandbox({ ready: false })], [running("proxy"), exited()]),
    memory: { ...prepared, replacedSince: now - 12_000 },
    says: "syncing, Running, Error: stop container proxy within 18s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "and when it is over they wait for nobody",
    desired: desired(served),
    observed: seen([sandbox({ ready: false })], [running("proxy"), running()]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]), replacedSince: now - 30_000 },
    says: "syncing, Running, running: stop container proxy within 2s: the pod's sandbox changed, it will be killed and re-created",
  },
  {
    name: "sidecars wait for app containers, and for nobody else",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: seen([sandbox()], [running("debug"), running(), running("two"), running("setup"), running("one")]),
    says: `terminating, Running, running: ${["debug", "a", "setup"].map(stopsGone).join("; ")}; again in 30s`,
  },
  {
    name: "a container that was added to look into the pod holds no sidecar up",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: seen([sandbox()], [running("debug"), exited(), running("two"), exited("setup"), running("one")]),
    says: `terminating, Running, Error: ${["debug", "two"].map(stopsGone).join("; ")}; again in 30s`,
  },
  {
    name: "nor does an init container that runs to its end",
    desired: desired(sidecars, { ...ending(30), source: { kind: "api" } }),
    observed: seen([sandbox()], [running("setup"), running("one")]),
    says: `terminating, Pending, PodInitializing: ${["setup", "one"].map(stopsGone).join("; ")}`,
  },
  {
    name: "when the grace is over, sidecars wait for nobody",
    desired: desired(sidecars, { ...ending(30, now - 30_000), source: { kind: "api" } }),
    observed: seen([sandbox()], [running(), running("one")]),
    says: "terminating, Running, running: stop container a within 2s: its manifest is gone; stop container one within 2s: its manifest is gone",
  },
  {
    name: "the hook of a sidecar begins with the pod's end, before its turn to be stopped",
    desired: desired(drained, ending(30)),
    observed: seen([sandbox()], [running(), running("two"), running("one")]),
    says: `terminating, Running, running: ${stopsGone("a")}; ${hooksGone("two")}; ${hooksGone("one")}; again in 30s`,
  },
  {
    name: "it is bounded by what is left of the grace",
    desired: desired(drained, ending(30, now - 29_500)),
    observed: seen([sandbox()], [running(), running("one")]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]) },
    says: "terminating, Running, running: run the preStop hook of container one within 1s: its manifest is gone; again in 0.5s",
  },
  {
    name: "it runs once",
    desired: desired(drained, ending(30)),
    observed: seen([sandbox()], [running(), running("one")]),
    memory: { ...prepared, stopping: new Set(["a0" as ContainerId]), preStopped: hookOfOne },
    says: "terminating, Running, running: nothing; again in 30s",
  },
  {
    name: "the sidecar's stop waits for its hook",
    desired: desired(drained, ending(30)),
    observed: seen([sandbox()], [exited(), running("one")]),
    memory: { ...prepared, stopping: hookOfOne },
    says: "terminating, Running, Error: nothing",
  },
  {
    name: "and comes without another one",
    desired: desired(drained, ending(30)),
    observed: seen([sandbox()], [exited(), running("one")]),
    memory: { ...prepared, preStopped: hookOfOne },
    says: `terminating, Running, Error: ${stopsGone("one")}`,
  },
  {
    name: "an agent that does not know of the hook runs it again",
    desired: desired(drained, ending(30)),
    observed: seen([sandbox()], [exited(), running("one")]),
    says: "terminating, Running, Error: stop container one, its preStop hook first, within 30s: its manifest is gone",
  },
  {
    name: "without any grace there is no time for it",
    desired: desired(drained, ending(0)),
    observed: seen([sandbox()], [running(), running("one")]),
    says: "terminating, Running, running: stop container a within 2s: its manifest is gone; stop container one within 2s: its manifest is gone",
  },
  {
    name: "the hooks of a dead sandbox's sidecars begin with the first stop too",
    desired: desired(drained),
    observed: seen([sandbox({ ready: false })], [running("one"), running()]),
    says: "syncing, Running, running: run the preStop hook of container one within 30s: the pod's sandbox changed, it will be killed and re-created; stop container a within 30s: the pod's sandbox changed, it will be killed and re-created; again in 30s",
  },
  {
    name: "a pod does not end by what the runtime has made up before the API server was heard, which may know better",
    desired: desired(never, unheard),
    observed: seen([sandbox()], [exited("a", 0, madeUp)]),
    says: "syncing, Running, Unknown: nothing",
  },
  {
    name: "nor does it where its init container has failed so",
    desired: desired(prepares({ restartPolicy: "Never" }), unheard),
    observed: seen([sandbox()], [exited("first", 0, madeUp)]),
    says: "syncing, Pending, PodInitializing: nothing",
  },
  {
    name: "it does when that was heard",
    desired: desired(never, { source: { kind: "api" } }),
    observed: seen([sandbox()], [exited("a", 0, madeUp)]),
    says: "terminating, Failed, Unknown: stop sandbox: all its containers are done",
  },
  {
    name: "and where its sandbox is gone too",
    desired: desired(never, unheard),
    observed: seen([sandbox({ ready: false })], [exited("a", 0, madeUp)]),
    says: "terminating, Failed, Unknown: stop sandbox: all its containers are done",
  },
  {
    name: "an end that the runtime knows decides at once",
    desired: desired(never, unheard),
    observed: seen([sandbox()], [exited()]),
    says: "terminating, Failed, Error: stop sandbox: all its containers are done",
  },
  {
    name: "a stop that failed is tried again, not at once",
    desired: desired(pod(), ending(30)),
    observed: seen([sandbox()], [running()]),
    memory: failed("end of container a0", "KillContainerError", now),
    says: "terminating, Running, running: nothing; again in 1s",
  },
];

for (const row of rows)
  test(row.name, () => {
    expect(show(decidePod(row.desired ?? desired(), row.observed, row.memory ?? prepared, settings, now))).toBe(
      row.says,
    );
  });

test("a sandbox that is well again, or whose containers have ended, has begun no grace", () => {
  const dead = sandbox({ ready: false });
  const since = (observed: ObservedPod, memory = prepared) =>
    decidePod(desired(), observed, memory, settings, now).memory.replacedSince;
  expect(since(seen([dead], [running()]))).toBe(now);
  const begun = { ...prepared, replacedSince: now - 5_000 };
  expect(since(seen([dead], [running()]), begun)).toBe(now - 5_000);
  expect(since(seen([sandbox()], [running()]), begun)).toBeUndefined();
  expect(since(seen([dead], [exited()]), begun)).toBeUndefined();
});

test("the same arguments give the same decision, and are not changed", () => {
  for (const { desired: wanted = desired(), observed, memory = prepared } of rows) {
    const before = structuredClone({ wanted, observed, memory });
    const first = decidePod(wanted, observed, memory, settings, now);
    expect(decidePod(wanted, observed, memory, settings, now)).toEqual(first);
    expect({ wanted, observed, memory }).toEqual(before);
  }
});

test("a decision's memory decides the same again: nothing is said twice in different words", () => {
  for (const { desired: wanted = desired(), observed, memory = prepared } of rows) {
    const first = decidePod(wanted, observed, memory, settings, now);
    const second = decidePod(wanted, observed, first.memory, settings, now);
    expect(show(second)).toBe(show(first));
    expect(second.status).toEqual(first.status);
  }
});

test("pods that nobody asks for get one second, which the runtime makes two", () => {
  const decision = decideOrphan(seen([sandbox()], [running()]), emptyMemory, now);
  expect(decision.actions.map(describe)).toEqual(["stop container a within 2s: no source asks for this pod"]);
  expect(decideOrphan(nothing, emptyMemory, now).stage.kind).toBe("finished");
});

test("an unsupported pod is rejected in Kubernetes' words, with everything it asked for", () => {
  const wanted = pod({ resources: { limits: { cpu: "1" } } }, [
    {
      name: "a",
      volumeMounts: [{ name: "v", mountPath: "/v", subPath: "x" }],
    },
  ]);
  const { status, actions, stage } = decidePod(desired(wanted), nothing, emptyMemory, settings, now);
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
    message:
      "Pod was rejected: Pod requires node features that are not available: pod-level resources, volumeMounts.subPath",
    containers: undefined,
  });
});

const unread = { areServicesRead: false, areRuntimeClassesRead: false, answeredReferences: new Set<string>() };
const read = { areServicesRead: true, areRuntimeClassesRead: true, answeredReferences: new Set<string>() };
const answered = { ...read, answeredReferences: new Set(["secret default/login"]) };
const secretive = { env: [{ name: "A", valueFrom: { secretKeyRef: { name: "login", key: "k" } } }] };
const unplugged = { ...read, networkProblem: "container runtime network not ready: NetworkReady=false" };
const projected = pod({ volumes: [{ name: "kube-api-access-x", projected: { sources: [] } }] });
const sandboxed = pod({ runtimeClassName: "gvisor" });
const ofApi = { source: { kind: "api" } } as const;
const waiting = (message: string) => `ContainerCreating, ${message}`;
const services = "services have not yet been read at least once, cannot construct envvars";
const classes = "failed to lookup RuntimeClass gvisor: RuntimeClasses have not yet been read at least once";

/** What a pod does in a cluster, and what its container says that it waits for. */
const clusterRows: readonly [
  sentence: string,
  wanted: DesiredNow,
  observed: ObservedPod,
  cluster: Settings["cluster"],
  says: string,
][] = [
  [
    "a pod with other volumes prepares them if it is of the API",
    desired(projected, ofApi),
    nothing,
    read,
    "prepare volumes",
  ],
  ["a static one is rejected as before", desired(projected), nothing, read, "rejected"],
  [
    "a pod with a RuntimeClass runs in a cluster",
    desired(sandboxed, ofApi),
    nothing,
    read,
    "run sandbox (attempt 0): the pod has none",
  ],
  ["a static one too", desired(sandboxed), nothing, read, "run sandbox (attempt 0): the pod has none"],
  ["but not on a node that stands alone", desired(sandboxed), nothing, undefined, "rejected"],
  [
    "a sandbox waits for the network",
    desired(pod(), ofApi),
    nothing,
    unplugged,
    waiting("network is not ready: container runtime network not ready: NetworkReady=false"),
  ],
  [
    "that of a pod on the node's network does not",
    desired(pod({ hostNetwork: true }), ofApi),
    nothing,
    unplugged,
    "run sandbox (attempt 0): the pod has none",
  ],
  [
    "nor does a pod that has one",
    desired(pod()),
    seen([sandbox()]),
    unplugged,
    "create container a (attempt 0): it has not run yet",
  ],
  ["a sandbox waits for the RuntimeClasses", desired(sandboxed, ofApi), nothing, unread, waiting(classes)],
  ["one without a class does not", desired(pod(), ofApi), nothing, unread, "run sandbox (attempt 0): the pod has none"],
  [
    "a container waits for the Services",
    desired(pod(), ofApi),
    seen([sandbox()]),
    unread,
    `CreateContainerConfigError, ${services}`,
  ],
  [
    "that of a static pod does not",
    desired(pod()),
    seen([sandbox()]),
    unread,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "nor one of the API that is there already",
    desired(pod(), ofApi),
    seen([sandbox()], [created()]),
    unread,
    "start container a (attempt 0)",
  ],
  [
    "nor on a node that has left its cluster",
    desired(pod(), ofApi),
    seen([sandbox()]),
    undefined,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "the next instance waits too",
    desired(pod(), ofApi),
    seen([sandbox()], [exited("a", 0, { crashes: 0, finishedAt: now - 60_000 })]),
    unread,
    "-",
  ],
  [
    "a container waits a moment for a Secret, and those behind it let it go first",
    desired(pod({}, [{ name: "a", ...secretive }, { name: "b" }]), ofApi),
    seen([sandbox()]),
    read,
    "-",
  ],
  [
    "then it is created, whether the Secret was read or not",
    desired(pod({}, [{ name: "a", ...secretive }, { name: "b" }]), ofApi),
    seen([sandbox()]),
    answered,
    "create container a (attempt 0): it has not run yet",
  ],
  [
    "one that runs waits for nothing",
    desired(pod({}, [{ name: "a", ...secretive }]), ofApi),
    seen([sandbox()], [container("a", 0, { state: "running" })]),
    read,
    "-",
  ],
];
for (const [sentence, wanted, observed, cluster, says] of clusterRows)
  test(`in a cluster: ${sentence}`, () => {
    const all = { ...settings, ...(cluster === undefined ? {} : { cluster }) };
    const memory = says === "prepare volumes" ? emptyMemory : prepared;
    const { status, actions, lookAgainAt } = decidePod(wanted, observed, memory, all, now);
    const { waiting: why } = status.containerStatuses?.[0]?.state ?? {};
    const doing = actions.map(describe).join("; ");
    const rejected = status.reason === "PodFeatureUnsupported" ? "rejected" : undefined;
    const waits = why?.message === undefined ? "-" : `${why.reason}, ${why.message}`;
    expect(rejected ?? (doing || waits)).toBe(says);
    // Whoever reads what is awaited wakes the pods: nobody looks again and again.
    expect(lookAgainAt).toBeUndefined();
  });

const resources: readonly [sentence: string, resources: Container["resources"], feature: string | undefined][] = [
  ["a device", { limits: { "nvidia.com/gpu": "1" } }, "extended resources"],
  ["a device among what every node has", { limits: { cpu: "1", "example.com/tpm": "1" } }, "extended resources"],
  ["a device in its requests alone", { requests: { "example.com/tpm": "1" } }, "extended resources"],
  ["huge pages", { limits: { memory: "1Gi", "hugepages-2Mi": "2Mi" } }, "hugepages"],
  ["what every node has", { requests: { cpu: "1", memory: "1Gi", "ephemeral-storage": "1Gi" } }, undefined],
];
for (const [sentence, wanted, feature] of resources)
  test(`a container that asks for ${sentence} is ${feature === undefined ? "run" : "rejected"}`, () => {
    const asking = desired(pod({}, [{ name: "a", ...(wanted === undefined ? {} : { resources: wanted }) }]));
    const { status } = decidePod(asking, nothing, emptyMemory, settings, now);
    const rejected =
      feature === undefined
        ? undefined
        : `Pod was rejected: Pod requires node features that are not available: ${feature}`;
    expect(status.message).toBe(rejected);
  });

test("a container is told the addresses that the pod's status shows, in its order", () => {
  const { status, actions } = decidePod(
    desired(pod()),
    seen([sandbox({ ips: ["fd00::2", "10.0.0.2", "10.0.0.3"] })]),
    prepared,
    settings,
    now,
  );
  expect(actions).toMatchObject([{ kind: "createContainer", podIPs: ["10.0.0.2", "fd00::2"] }]);
  expect([status.podIP, status.podIPs]).toEqual(["10.0.0.2", [{ ip: "10.0.0.2" }, { ip: "fd00::2" }]]);
});

test("a container that is stopped to run again is told of in the kubelet's words", () => {
  const proxy: Container = { name: "proxy", image, restartPolicy: "Always" };
  const told = (of: Pod, instance: ObservedContainer, failed?: "liveness" | "startup") => {
    const health = new Map(failed && [[instance.id, { isStarted: true, isReady: false, failed }]]);
    const { actions } = decidePod(desired(of), seen([sandbox()], [instance], { health }), prepared, settings, now);
    return actions.map((action) => (action.kind === "stopContainer" ? action.event : action.kind));
  };
  const ruled = {
    restartPolicy: "Never",
    restartPolicyRules: [{ action: "Restart", exitCodes: { operator: "In", values: [137] } }],
  } as const;
  const sidecared = pod({ initContainers: [proxy] });
  expect({
    changed: told(pod(), running("a", 0, { hash: "other" })),
    unknown: told(pod(), unknown()),
    "not alive": told(pod(), running(), "liveness"),
    "never up": told(never, running(), "startup"),
    "Never, with a rule for 137": told(pod({}, [ruled]), running(), "liveness"),
    "sidecar changed": told(sidecared, running("proxy", 0, { hash: "other" })),
    "sidecar unknown": told(sidecared, unknown("proxy")),
    "sidecar not alive": told(sidecared, running("proxy"), "liveness"),
  }).toEqual({
    changed: ["Container a definition changed, will be restarted"],
    unknown: ['Container is in "unknown" state, try killing it before restart'],
    "not alive": ["Container a failed liveness probe, will be restarted"],
    "never up": ["Container a failed startup probe"],
    "Never, with a rule for 137": ["Container a failed liveness probe"],
    "sidecar changed": ["Init container proxy definition changed"],
    "sidecar unknown": ['Init container is in "unknown" state, try killing it before restart'],
    "sidecar not alive": ["Init container proxy failed liveness probe"],
  });
});
