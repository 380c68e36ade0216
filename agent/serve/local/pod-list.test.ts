import { expect, test } from "bun:test";
import type {
  ContainerState,
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  PodStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { summarizePod } from "./pod-list.ts";

const pod: Pod = {
  metadata: { name: "web-node", namespace: "shop", uid: "u" },
  spec: { containers: [{ name: "a" }, { name: "b" }] },
};
const containerOf = (name: string, state: ContainerState, more: Partial<ContainerStatus> = {}): ContainerStatus => ({
  name,
  state,
  ready: false,
  restartCount: 0,
  image: "",
  imageID: "",
  ...more,
});
const running = containerOf("a", { running: {} }, { ready: true });
const waiting = containerOf("b", { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } });
const completed = containerOf("a", { terminated: { exitCode: 0, reason: "Completed" } });
const failed = containerOf("b", { terminated: { exitCode: 1, reason: "Error", message: "no disk" } });

type Report = Parameters<typeof summarizePod>[0];

const summaryOf = (status: PodStatus, stage: StageKind = "syncing", isTerminationRequested = stage === "terminating") =>
  summarizePod({ pod, status, stage, isTerminationRequested, steps: [], blockedReason: undefined });

const rows: readonly [sentence: string, status: PodStatus, stage: StageKind, reason: string, message: string][] = [
  ["a ready pod has no reason", { phase: "Running", containerStatuses: [running] }, "syncing", "", ""],
  ["a pod without container statuses has no reason", { phase: "Pending" }, "syncing", "", ""],
  [
    "a pod that could not be observed yet shows the message",
    { phase: "Pending", message: "the runtime is away" },
    "syncing",
    "",
    "the runtime is away",
  ],
  [
    "a waiting container's reason precedes that of an ended one",
    { phase: "Running", containerStatuses: [completed, waiting] },
    "syncing",
    "CrashLoopBackOff",
    "back-off 10s",
  ],
  [
    "an ended container shows its reason and exit code",
    { phase: "Failed", containerStatuses: [running, failed] },
    "syncing",
    "Error",
    "it exited with code 1: no disk",
  ],
  [
    "the first ended container's reason is shown",
    { phase: "Failed", containerStatuses: [completed, failed] },
    "syncing",
    "Completed",
    "",
  ],
  [
    "the pod's own reason precedes that of its containers",
    { phase: "Failed", reason: "DeadlineExceeded", message: "too long", containerStatuses: [waiting] },
    "syncing",
    "DeadlineExceeded",
    "too long",
  ],
  [
    "a pod that is being terminated is Terminating",
    { phase: "Running", containerStatuses: [waiting] },
    "terminating",
    "Terminating",
    "",
  ],
  [
    "a failed pod that is being terminated shows why it failed",
    { phase: "Failed", reason: "DeadlineExceeded", message: "too long" },
    "terminating",
    "DeadlineExceeded",
    "too long",
  ],
  [
    "an ended pod shows its container's reason",
    { phase: "Succeeded", containerStatuses: [completed] },
    "terminated",
    "Completed",
    "",
  ],
];
for (const [sentence, status, stage, reason, message] of rows)
  test(sentence, () => {
    expect(summaryOf(status, stage)).toMatchObject({ reason, message });
  });

test("a pod that completes by itself is not shown as Terminating", () => {
  const byItself = (status: PodStatus) => summaryOf(status, "terminating", false);
  const phase = "Succeeded";
  expect(byItself({ phase, containerStatuses: [completed] })).toMatchObject({ phase, reason: "Completed" });
  expect(byItself({ phase: "Running", containerStatuses: [running] })).toMatchObject({ phase: "Running", reason: "" });
});

const runcPrefix =
  "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: ";
const lastEnds: readonly [sentence: string, last: ContainerStateTerminated, message: string][] = [
  ["an exit code", { exitCode: 3, reason: "Error" }, "back-off 10s; it exited with code 3"],
  ["exit code 0", { exitCode: 0, reason: "Completed" }, "back-off 10s; it exited with code 0"],
  ["an OOM kill", { exitCode: 137, reason: "OOMKilled" }, "back-off 10s; OOMKilled (137)"],
  [
    "a missing program",
    {
      exitCode: 128,
      reason: "StartError",
      message: `${runcPrefix}exec: "/nope": stat /nope: no such file or directory: unknown`,
    },
    'back-off 10s; it could not start: exec: "/nope": stat /nope: no such file or directory',
  ],
  [
    "a start that failed for another reason",
    { exitCode: 128, reason: "StartError", message: "the disk\nis full" },
    "back-off 10s; it could not start: the disk is full",
  ],
  [
    "a failed start without a message",
    { exitCode: 128, reason: "ContainerCannotRun" },
    "back-off 10s; it could not start: the runtime does not say why",
  ],
  [
    "an exit that was not observed",
    { exitCode: 137, reason: "ContainerStatusUnknown" },
    "back-off 10s; its exit was not observed",
  ],
];
for (const [sentence, terminated, message] of lastEnds)
  test(`a crash loop shows how the container last ended: ${sentence}`, () => {
    const containerStatuses = [running, { ...waiting, lastState: { terminated } }];
    expect(summaryOf({ phase: "Running", containerStatuses })).toMatchObject({ reason: "CrashLoopBackOff", message });
  });

test("a container that waits for another reason does not show its last exit", () => {
  const lastState = { terminated: { exitCode: 3, reason: "Error" } };
  const pulling = containerOf("b", { waiting: { reason: "ErrImagePull", message: "no such image" } }, { lastState });
  expect(summaryOf({ containerStatuses: [pulling] })).toMatchObject({ message: "no such image" });
});

test("ready counts the pod's ready containers among all of them, and restarts are summed up", () => {
  const containerStatuses = [
    { ...running, restartCount: 2 },
    { ...waiting, restartCount: 3 },
  ];
  expect(summaryOf({ containerStatuses })).toMatchObject({ ready: "1/2", restarts: 5 });
  expect(summaryOf({})).toMatchObject({ ready: "0/2", restarts: 0 });
});

test("the other fields are copied, and absent ones are empty", () => {
  const status: PodStatus = { phase: "Running", podIP: "10.0.0.7", startTime: "2026-01-01T00:00:00Z" };
  const steps = [{ what: "sandbox", ms: 85 }] as const;
  expect(
    summarizePod({ pod, status, stage: "syncing", isTerminationRequested: false, steps, blockedReason: undefined }),
  ).toMatchObject({
    namespace: "shop",
    name: "web-node",
    uid: "u",
    phase: "Running",
    ip: "10.0.0.7",
    startTime: "2026-01-01T00:00:00Z",
    steps,
    status,
  });
  const nameless: Pod = { metadata: {}, spec: { containers: [] } };
  expect(
    summarizePod({
      pod: nameless,
      status: {},
      stage: "syncing",
      isTerminationRequested: false,
      steps: [],
      blockedReason: undefined,
    }),
  ).toMatchObject({
    namespace: "",
    name: "",
    ip: "",
    phase: "",
    ready: "0/0",
  });
});

test("a pod that does not fit the node keeps the kubelet's message and has an explanation beside it", () => {
  const message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 250, capacity: 2000";
  const status: PodStatus = { phase: "Failed", reason: "OutOfcpu", message };
  const { explanation, ...summary } = summaryOf(status);
  expect(summary).toMatchObject({ reason: "OutOfcpu", message, status });
  expect(explanation).toEndWith(": the pod requests 4 CPUs, and the node has 1.75 of 2 free");
  expect(summaryOf({ phase: "Running" })).not.toHaveProperty("explanation");
});

test("a pod that does not start has kubectl's reason, and that of the failure beside it", () => {
  const blockedReason = { reason: "FailedMount", message: "not found" };
  const waiting = { reason: "ContainerCreating", message: "not found" };
  const status: PodStatus = { phase: "Pending", containerStatuses: [{ ...running, ready: false, state: { waiting } }] };
  const summary = { pod, status, stage: "syncing", isTerminationRequested: false, steps: [] } as const;
  expect(summarizePod({ ...summary, blockedReason })).toMatchObject({ ...waiting, failure: "FailedMount" });
  expect(summarizePod({ ...summary, blockedReason: undefined })).not.toHaveProperty("failure");
});

test("the reason that blocks a pod's end is shown for a terminating pod, not for a running one", () => {
  const blockedReason = { reason: "KillPodSandboxError", message: "no such network" };
  const status: PodStatus = { phase: "Failed", reason: "DeadlineExceeded", message: "too long" };
  expect(
    summarizePod({ pod, status, stage: "terminating", isTerminationRequested: true, steps: [], blockedReason }),
  ).toMatchObject(blockedReason);
  const well: PodStatus = { phase: "Running", containerStatuses: [running] };
  expect(
    summarizePod({ pod, status: well, stage: "syncing", isTerminationRequested: false, steps: [], blockedReason }),
  ).toMatchObject({
    reason: "",
  });
});

const withInit: Pod = {
  ...pod,
  spec: { ...pod.spec, initContainers: [{ name: "first" }, { name: "proxy", restartPolicy: "Always" }] },
};
const first = (state: ContainerState, ready = false) => containerOf("first", state, { ready, started: false });
const proxy = (isUp: boolean) =>
  containerOf("proxy", isUp ? { running: {} } : { waiting: { reason: "PodInitializing" } }, {
    ready: isUp,
    started: isUp,
  });
const initRows: readonly [sentence: string, init: readonly ContainerStatus[], reason: string, ready: string][] = [
  ["the number of completed init containers is shown", [first({ running: {} }), proxy(false)], "Init:0/2", "0/3"],
  [
    "a completed init container is counted",
    [first({ terminated: { exitCode: 0 } }, true), proxy(false)],
    "Init:1/2",
    "0/3",
  ],
  [
    "the reason of a waiting init container is shown",
    [first({ waiting: { reason: "ErrImagePull" } }), proxy(false)],
    "Init:ErrImagePull",
    "0/3",
  ],
  [
    "the reason of a failed init container is shown",
    [first({ terminated: { exitCode: 1, reason: "Error" } }), proxy(false)],
    "Init:Error",
    "0/3",
  ],
  [
    "a ready sidecar counts as ready",
    [first({ terminated: { exitCode: 0 } }, true), proxy(true)],
    "PodInitializing",
    "1/3",
  ],
];
test("a pod that failed during initialization shows its init container's reason", () => {
  const terminated = { exitCode: 128, reason: "StartError", message: "no such file" };
  const next = containerOf("a", { waiting: { reason: "PodInitializing" } });
  const whyIs = (isInitialized: boolean) => {
    const conditions = [{ type: "Initialized", status: isInitialized ? "True" : "False" } as const];
    const initContainerStatuses = [first({ terminated }), proxy(false)];
    const status: PodStatus = { phase: "Failed", conditions, initContainerStatuses, containerStatuses: [next] };
    return summarizePod({
      pod: withInit,
      status,
      stage: "finished",
      isTerminationRequested: false,
      steps: [],
      blockedReason: undefined,
    });
  };
  expect(whyIs(false)).toMatchObject({ reason: "Init:StartError", message: "no such file" });
  expect(whyIs(true)).toMatchObject({ reason: "PodInitializing" });
});

for (const [sentence, initContainerStatuses, reason, ready] of initRows)
  test(`an initializing pod: ${sentence}`, () => {
    const next = containerOf("a", { waiting: { reason: "PodInitializing" } });
    const status: PodStatus = { phase: "Pending", initContainerStatuses, containerStatuses: [next] };
    const summary = summarizePod({
      pod: withInit,
      status,
      stage: "syncing",
      isTerminationRequested: false,
      steps: [],
      blockedReason: undefined,
    });
    expect(summary).toMatchObject({ reason, ready });
  });

test("restarts of init containers count only until the pod is initialized, as in kubectl", () => {
  const restartsWhen = (isInitialized: boolean) => {
    const conditions = [{ type: "Initialized", status: isInitialized ? "True" : "False" } as const];
    const initContainerStatuses = [
      { ...first({ waiting: { reason: "CrashLoopBackOff" } }), restartCount: 4 },
      { ...proxy(isInitialized), restartCount: 2 },
    ];
    const status: PodStatus = {
      conditions,
      initContainerStatuses,
      containerStatuses: [{ ...running, restartCount: 1 }],
    };
    const report: Report = {
      pod: withInit,
      status,
      stage: "syncing",
      isTerminationRequested: false,
      steps: [],
      blockedReason: undefined,
    };
    return summarizePod(report).restarts;
  };
  expect([restartsWhen(false), restartsWhen(true)]).toEqual([4, 3]);
});

test("a sidecar in a crash loop is shown for a running pod, as in kubectl", () => {
  const back = { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } };
  const lastState = { terminated: { exitCode: 3, reason: "Error" } };
  const initContainerStatuses = [
    first({ terminated: { exitCode: 0 } }, true),
    containerOf("proxy", back, { lastState, started: false }),
  ];
  const status: PodStatus = { phase: "Running", initContainerStatuses, containerStatuses: [running] };
  const report: Report = {
    pod: withInit,
    status,
    stage: "syncing",
    isTerminationRequested: false,
    steps: [],
    blockedReason: undefined,
  };
  expect(summarizePod(report)).toMatchObject({
    reason: "Init:CrashLoopBackOff",
    message: "back-off 10s; it exited with code 3",
  });
});

const probeFailures = [
  { container: "a", kind: "readiness", message: "Readiness probe failed: no route" },
  { container: "b", kind: "liveness", message: "Liveness probe failed: bad disk" },
  { container: "c", kind: "startup", message: "Startup probe failed: no file yet", isEarly: true },
] as const;
const back = { exitCode: 143, reason: "Error" };
const probeCases: readonly [sentence: string, status: PodStatus, message: string][] = [
  [
    "a container that is not ready shows its probe's message",
    { phase: "Running", containerStatuses: [{ ...running, ready: false }] },
    "a is not ready: Readiness probe failed: no route",
  ],
  ["a container that is ready again shows no message", { phase: "Running", containerStatuses: [running] }, ""],
  [
    "a container that was stopped for its probe shows the probe's message",
    { phase: "Running", containerStatuses: [{ ...waiting, lastState: { terminated: back } }] },
    "back-off 10s; it exited with code 143 (Liveness probe failed: bad disk)",
  ],
  [
    "a container that ended by itself does not show its readiness failure",
    { phase: "Running", containerStatuses: [{ ...waiting, name: "a", lastState: { terminated: back } }] },
    "back-off 10s; it exited with code 143",
  ],
  [
    "a container within the first period of its probe shows the last early try",
    { phase: "Running", containerStatuses: [{ ...running, name: "c", ready: false }] },
    "c is not ready: Startup probe failed: no file yet",
  ],
  [
    "a container that ended by itself does not show an early try, which cannot have stopped it",
    { phase: "Running", containerStatuses: [{ ...waiting, name: "c", lastState: { terminated: back } }] },
    "back-off 10s; it exited with code 143",
  ],
  [
    "an init container that failed for good shows how",
    {
      phase: "Failed",
      initContainerStatuses: [containerOf("i", { terminated: { exitCode: 4, reason: "Error", message: "no way\n" } })],
    },
    "it exited with code 4: no way",
  ],
  [
    "an OOM-killed container shows it",
    { phase: "Failed", containerStatuses: [containerOf("a", { terminated: { exitCode: 137, reason: "OOMKilled" } })] },
    "OOMKilled (137)",
  ],
];
for (const [sentence, status, message] of probeCases)
  test(sentence, () => {
    const report: Report = {
      pod,
      status,
      stage: "syncing",
      isTerminationRequested: false,
      steps: [],
      blockedReason: undefined,
      probeFailures,
    };
    expect(summarizePod(report).message).toBe(message);
  });
