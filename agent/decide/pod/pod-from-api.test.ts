import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { containerHash } from "../container/container-hash.ts";
import { describe } from "./action.ts";
import type { DesiredPodView } from "./desired.ts";
import { emptyMemory } from "./memory.ts";
import type { ObservedContainer, ObservedPod } from "./observed.ts";
import { decidePod } from "./pod.ts";

const uid = "u" as PodUid;
const acceptedAt = Date.parse("2026-01-01T10:00:00Z");
const now = acceptedAt + 60_000;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };

interface Fixture {
  readonly status?: PodStatus;
  readonly spec?: Partial<Pod["spec"]>;
  readonly containers?: readonly ObservedContainer[];
  readonly isDeleted?: boolean;
  readonly lastStatus?: PodStatus;
}

const sandboxOf = (ready: boolean) => ({
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: acceptedAt,
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
  createdAt: acceptedAt,
  image: "busybox:1",
  imageRef: "sha256:1",
  hash: undefined as string | undefined,
  crashes: attempt,
});
const running: ObservedContainer = { ...instance(0), state: "running", startedAt: acceptedAt };
const exited = (exitCode: number, more: Partial<ReturnType<typeof instance>> = {}, reason = ""): ObservedContainer => ({
  ...instance(0),
  ...more,
  state: "exited",
  startedAt: acceptedAt,
  finishedAt: now - 1000,
  exitCode,
  reason,
  message: "",
});
const reportedOf = (more: Partial<ContainerStatus>): PodStatus => ({
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
const reportedExited = reportedOf({
  state: { terminated: { exitCode: 3, reason: "Error", finishedAt: "2026-01-01T10:00:30Z" } },
});

const reportedDone = reportedOf({
  restartCount: 0,
  containerID: "containerd://a0",
  state: { terminated: { exitCode: 0, reason: "Completed", containerID: "containerd://a0" } },
});

function decide({ status, spec, containers = [], isDeleted = false, lastStatus }: Fixture) {
  const pod: Pod = {
    metadata: { uid, name: "web", namespace: "default", generation: 4 },
    spec: { containers: [{ name: "a", image: "busybox:1" }], restartPolicy: "Always", ...spec },
    ...(status === undefined ? {} : { status }),
  };
  const desired: DesiredPodView = {
    uid,
    pod,
    source: { kind: "api" },
    acceptedAt: acceptedAt,
    revision: 0,
    ...(isDeleted ? { termination: { requestedAt: now, gracePeriodSeconds: 9, why: "it was deleted" } } : {}),
    ...(lastStatus === undefined ? {} : { lastStatus }),
  };
  const observed: ObservedPod = {
    ...emptyObservedPod(uid, "default", "web"),
    sandboxes: containers.length === 0 ? [] : [sandboxOf(true)],
    containers,
  };
  return decidePod(
    desired,
    observed,
    { ...emptyMemory, madeResources: [{ of: "podDirs" }, { of: "logDir" }] },
    settings,
    now,
  );
}

/** `phase reason: message; state of the container; actions` */
function show({ status, actions, stage }: ReturnType<typeof decide>): string {
  const { phase, reason, containerStatuses: [a] = [] } = status;
  const { terminated, waiting } = a?.state ?? {};
  const state = terminated ? `exit ${terminated.exitCode} ${terminated.reason}` : (waiting?.reason ?? "running");
  const did = actions.map(describe).join(", ");
  return `${phase}${reason === undefined ? "" : ` ${reason}`}; a #${a?.restartCount} ${state}; ${stage.kind}${did === "" ? "" : `: ${did}`}`;
}

const rows: readonly [name: string, fixture: Fixture, says: string][] = [
  [
    "a pod that is terminal in the API is never started and keeps its reason",
    { status: { phase: "Failed", reason: "Evicted" } },
    "Failed Evicted; a #0 exit 137 ContainerStatusUnknown; terminated",
  ],
  [
    "a terminal pod that still runs here is stopped",
    { status: { phase: "Failed", reason: "Evicted" }, containers: [running] },
    "Running; a #0 running; terminating: stop container a within 30s: the API server reports it as Failed",
  ],
  [
    "a container with a new image does not wait for the back-off of the old one",
    { containers: [exited(1, { crashes: 3, hash: containerHash({ name: "a", image: "busybox:0" }) })] },
    "Running; a #0 ContainerCreating; syncing",
  ],
  [
    "a deleted pod whose containers all succeeded is Succeeded, whatever its restart policy",
    { isDeleted: true, containers: [exited(0)] },
    "Succeeded; a #0 exit 0 Completed; terminating: stop sandbox: it was deleted",
  ],
  [
    "a deleted pod whose container was killed is Failed",
    { isDeleted: true, containers: [exited(137)] },
    "Failed; a #0 exit 137 Error; terminating: stop sandbox: it was deleted",
  ],
  [
    "a deleted pod that never started is Failed",
    { isDeleted: true },
    "Failed; a #0 exit 137 ContainerStatusUnknown; finished",
  ],
  [
    "a reported exit is kept when no instance is left",
    { isDeleted: true, status: reportedExited },
    "Failed; a #2 exit 3 Error; finished",
  ],
  [
    "a container that was reported as running and is missing gets an inferred exit",
    { isDeleted: true, status: reportedOf({ state: { running: { startedAt: "2026-01-01T10:00:10Z" } } }) },
    "Failed; a #2 exit 137 ContainerStatusUnknown; finished",
  ],
  [
    "completed work does not run again after the runtime has lost it",
    { spec: { restartPolicy: "Never" }, status: reportedExited },
    "Failed; a #2 exit 3 Error; terminated",
  ],
  [
    "completed work does not run again after the runtime has lost its exit code",
    { spec: { restartPolicy: "OnFailure" }, status: reportedDone, containers: [exited(255, {}, "Unknown")] },
    "Succeeded; a #0 exit 0 Completed; terminating: stop sandbox: all its containers are done",
  ],
  [
    "the reported exit of another instance is not used",
    {
      spec: { restartPolicy: "OnFailure" },
      status: reportedDone,
      containers: [exited(255, { id: "other" as ContainerId }, "Unknown")],
    },
    "Running; a #0 exit 255 Unknown; syncing",
  ],
  [
    "a final status that was not sent is reported again",
    { isDeleted: true, lastStatus: { phase: "Succeeded" } },
    "Succeeded; a #undefined running; finished",
  ],
];
for (const [name, input, expected] of rows)
  test(name, () => {
    expect(show(decide(input))).toBe(expected);
  });

test("a container that restarts continues the reported restartCount", () => {
  const { actions } = decide({ status: reportedExited });
  expect(actions.map(describe)).toEqual(["run sandbox (attempt 0): the pod has none"]);
  const after = decide({ status: reportedExited });
  expect(after.status.containerStatuses?.[0]?.restartCount).toBe(2);
});

test("a status and its conditions have the generation of the pod", () => {
  const { status } = decide({ containers: [running] });
  expect([status, ...(status.conditions ?? [])].map(({ observedGeneration }) => observedGeneration)).toEqual(
    Array(6).fill(4),
  );
});

const gates: readonly [name: string, conditions: NonNullable<PodStatus["conditions"]>, says: string][] = [
  [
    "a missing readiness gate condition keeps the pod unready",
    [],
    'False ReadinessGatesNotReady corresponding condition of pod readiness gate "lb" does not exist.',
  ],
  [
    "a False readiness gate keeps the pod unready",
    [{ type: "lb", status: "False" }],
    'False ReadinessGatesNotReady the status of pod readiness gate "lb" is not "True", but False',
  ],
  ["a True readiness gate does not", [{ type: "lb", status: "True" }], "True  "],
];
for (const [name, conditions, expected] of gates)
  test(name, () => {
    const { status } = decide({
      spec: { readinessGates: [{ conditionType: "lb" }] },
      containers: [running],
      status: { conditions },
    });
    const ready = status.conditions?.find(({ type }) => type === "Ready");
    expect(`${ready?.status} ${ready?.reason ?? ""} ${ready?.message ?? ""}`).toBe(expected);
    expect(status.conditions?.find(({ type }) => type === "ContainersReady")?.status).toBe("True");
  });
