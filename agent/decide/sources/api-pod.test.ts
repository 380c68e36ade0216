import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { containerHash } from "../container/container-hash.ts";
import { describe } from "../pod/action.ts";
import type { DesiredNow } from "../pod/desired.ts";
import { emptyMemory } from "../pod/memory.ts";
import { nothingObserved, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";
import { decidePod } from "../pod/pod.ts";
import { isLater } from "./api-pod.ts";

const uid = "u" as PodUid;
const taken = Date.parse("2026-01-01T10:00:00Z");
const now = taken + 60_000;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };

interface Scene {
  readonly status?: PodStatus;
  readonly spec?: Partial<Pod["spec"]>;
  readonly containers?: readonly ObservedContainer[];
  readonly isDeleted?: boolean;
  readonly lastStatus?: PodStatus;
}

const sandboxOf = (ready: boolean) => ({
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: taken,
  ready,
  ips: ["10.0.0.2"],
  hostNetwork: false,
  crashes: 0,
});
const instance = (attempt: number) => ({
  id: `a${attempt}` as ContainerId,
  name: "a",
  sandboxId: "s" as SandboxId,
  attempt,
  createdAt: taken,
  image: "busybox:1",
  imageRef: "sha256:1",
  hash: undefined as string | undefined,
  crashes: attempt,
});
const running: ObservedContainer = { ...instance(0), state: "running", startedAt: taken };
const exited = (exitCode: number, more: Partial<ReturnType<typeof instance>> = {}, reason = ""): ObservedContainer => ({
  ...instance(0),
  ...more,
  state: "exited",
  startedAt: taken,
  finishedAt: now - 1000,
  exitCode,
  reason,
  message: "",
});
const toldOf = (more: Partial<ContainerStatus>): PodStatus => ({
  phase: "Running",
  containerStatuses: [
    {
      name: "a",
      image: "busybox:1",
      imageID: "sha256:1",
      ready: false,
      restartCount: 2,
      containerID: "c://x",
      ...more,
    },
  ],
});
const toldExited = toldOf({
  state: { terminated: { exitCode: 3, reason: "Error", finishedAt: "2026-01-01T10:00:30Z" } },
});

const toldDone = toldOf({
  restartCount: 0,
  containerID: "containerd://a0",
  state: { terminated: { exitCode: 0, reason: "Completed", containerID: "containerd://a0" } },
});

function decide({ status, spec, containers = [], isDeleted = false, lastStatus }: Scene) {
  const pod: Pod = {
    metadata: { uid, name: "web", namespace: "default", generation: 4 },
    spec: { containers: [{ name: "a", image: "busybox:1" }], restartPolicy: "Always", ...spec },
    ...(status === undefined ? {} : { status }),
  };
  const desired: DesiredNow = {
    uid,
    pod,
    source: { kind: "api" },
    acceptedAt: taken,
    revision: 0,
    ...(isDeleted ? { termination: { requestedAt: now, gracePeriodSeconds: 9, why: "it was deleted" } } : {}),
    ...(lastStatus === undefined ? {} : { lastStatus }),
  };
  const observed: ObservedPod = {
    ...nothingObserved(uid, "default", "web"),
    sandboxes: containers.length === 0 ? [] : [sandboxOf(true)],
    containers,
  };
  return decidePod(desired, observed, { ...emptyMemory, volumesPrepared: true }, settings, now);
}

/** `phase reason: message; state of the container; actions` */
function show({ status, actions, stage }: ReturnType<typeof decide>): string {
  const { phase, reason, containerStatuses: [a] = [] } = status;
  const { terminated, waiting } = a?.state ?? {};
  const state = terminated ? `exit ${terminated.exitCode} ${terminated.reason}` : (waiting?.reason ?? "running");
  const did = actions.map(describe).join(", ");
  return `${phase}${reason === undefined ? "" : ` ${reason}`}; a #${a?.restartCount} ${state}; ${stage.kind}${did === "" ? "" : `: ${did}`}`;
}

const rows: readonly [name: string, scene: Scene, says: string][] = [
  [
    "a pod that has ended in the API is never started, and keeps its reason",
    { status: { phase: "Failed", reason: "Evicted" } },
    "Failed Evicted; a #0 exit 137 ContainerStatusUnknown; terminated",
  ],
  [
    "one that still runs here is ended",
    { status: { phase: "Failed", reason: "Evicted" }, containers: [running] },
    "Running; a #0 running; terminating: stop container a within 30s: all its containers are done",
  ],
  [
    "another image does not wait for the crashes of the one before",
    { containers: [exited(1, { crashes: 3, hash: containerHash({ name: "a", image: "busybox:0" }) })] },
    "Running; a #0 exit 1 Error; syncing",
  ],
  [
    "a deleted pod whose containers all succeeded has succeeded, whatever its restart policy",
    { isDeleted: true, containers: [exited(0)] },
    "Succeeded; a #0 exit 0 Completed; terminating: stop sandbox: it was deleted",
  ],
  [
    "one whose container was killed has failed",
    { isDeleted: true, containers: [exited(137)] },
    "Failed; a #0 exit 137 Error; terminating: stop sandbox: it was deleted",
  ],
  ["one that never began has failed", { isDeleted: true }, "Failed; a #0 exit 137 ContainerStatusUnknown; finished"],
  [
    "an exit that was told stays what it was when nothing is left to tell it",
    { isDeleted: true, status: toldExited },
    "Failed; a #2 exit 3 Error; finished",
  ],
  [
    "a container that was told to run and is nowhere has ended, nobody saw how",
    { isDeleted: true, status: toldOf({ state: { running: { startedAt: "2026-01-01T10:00:10Z" } } }) },
    "Failed; a #2 exit 137 ContainerStatusUnknown; finished",
  ],
  [
    "work that has ended does not run twice because the runtime lost it",
    { spec: { restartPolicy: "Never" }, status: toldExited },
    "Failed; a #2 exit 3 Error; terminated",
  ],
  [
    "nor because the runtime has forgotten how it has ended",
    { spec: { restartPolicy: "OnFailure" }, status: toldDone, containers: [exited(255, {}, "Unknown")] },
    "Succeeded; a #0 exit 0 Completed; terminating: stop sandbox: all its containers are done",
  ],
  [
    "what was told of another instance is not its end",
    {
      spec: { restartPolicy: "OnFailure" },
      status: toldDone,
      containers: [exited(255, { id: "other" as ContainerId }, "Unknown")],
    },
    "Running; a #0 exit 255 Unknown; syncing",
  ],
  [
    "a last word that could not be told is said again",
    { isDeleted: true, lastStatus: { phase: "Succeeded" } },
    "Succeeded; a #undefined running; finished",
  ],
];
for (const [name, scene, says] of rows)
  test(name, () => {
    expect(show(decide(scene))).toBe(says);
  });

test("a container that runs again goes on counting from what was told", () => {
  const { actions } = decide({ status: toldExited });
  expect(actions.map(describe)).toEqual(["run sandbox (attempt 0): the pod has none"]);
  const after = decide({ status: toldExited });
  expect(after.status.containerStatuses?.[0]?.restartCount).toBe(2);
});

test("a status says which generation of the pod it tells of, and so does each condition", () => {
  const { status } = decide({ containers: [running] });
  expect([status, ...(status.conditions ?? [])].map(({ observedGeneration }) => observedGeneration)).toEqual(
    Array(6).fill(4),
  );
});

const gates: readonly [name: string, conditions: NonNullable<PodStatus["conditions"]>, says: string][] = [
  [
    "a gate that nobody has set keeps a pod from being ready",
    [],
    'False ReadinessGatesNotReady corresponding condition of pod readiness gate "lb" does not exist.',
  ],
  [
    "so does one that is not true",
    [{ type: "lb", status: "False" }],
    'False ReadinessGatesNotReady the status of pod readiness gate "lb" is not "True", but False',
  ],
  ["a gate that is true does not", [{ type: "lb", status: "True" }], "True  "],
];
for (const [name, conditions, says] of gates)
  test(name, () => {
    const { status } = decide({
      spec: { readinessGates: [{ conditionType: "lb" }] },
      containers: [running],
      status: { conditions },
    });
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    expect(`${ready?.status} ${ready?.reason ?? ""} ${ready?.message ?? ""}`).toBe(says);
    expect(status.conditions?.find(({ type }) => type === "ContainersReady")?.status).toBe("True");
  });

const versions: readonly [version: string | undefined, than: string | undefined, later: boolean][] = [
  ["10", "9", true],
  ["9", "10", false],
  ["10", "10", false],
  ["11", "10", true],
  ["99999999999999999999", "99999999999999999998", true],
  ["1", undefined, true],
  ["abc", "10", true],
  ["abc", "abc", false],
];
for (const [version, than, later] of versions)
  test(`version ${version} is ${later ? "" : "not "}later than ${than}`, () => {
    expect(isLater(version, than)).toBe(later);
  });
