import { expect, test } from "bun:test";
import type {
  ContainerState,
  ContainerStateTerminated,
  ContainerStatus,
  Pod,
  PodStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { summarize } from "./pod-list.ts";

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

const summaryOf = (status: PodStatus, stage: StageKind = "syncing", isTakenAway = stage === "terminating") =>
  summarize({ pod, status, stage, isTakenAway, steps: [], obstacle: undefined });

const rows: readonly [sentence: string, status: PodStatus, stage: StageKind, reason: string, message: string][] = [
  ["a pod that is well has no reason", { phase: "Running", containerStatuses: [running] }, "syncing", "", ""],
  ["a pod of which nothing is known yet has none", { phase: "Pending" }, "syncing", "", ""],
  [
    "a pod that nobody could look at yet says so",
    { phase: "Pending", message: "the runtime is away" },
    "syncing",
    "",
    "the runtime is away",
  ],
  [
    "what waits says why, whatever else ended",
    { phase: "Running", containerStatuses: [completed, waiting] },
    "syncing",
    "CrashLoopBackOff",
    "back-off 10s",
  ],
  [
    "what ended says how",
    { phase: "Failed", containerStatuses: [running, failed] },
    "syncing",
    "Error",
    "it exited with code 1: no disk",
  ],
  [
    "the first that ended speaks",
    { phase: "Failed", containerStatuses: [completed, failed] },
    "syncing",
    "Completed",
    "",
  ],
  [
    "the pod's own reason goes before its containers'",
    { phase: "Failed", reason: "DeadlineExceeded", message: "too long", containerStatuses: [waiting] },
    "syncing",
    "DeadlineExceeded",
    "too long",
  ],
  [
    "a pod that has to end is Terminating",
    { phase: "Running", containerStatuses: [waiting] },
    "terminating",
    "Terminating",
    "",
  ],
  [
    "a pod that failed and has to end says why it failed",
    { phase: "Failed", reason: "DeadlineExceeded", message: "too long" },
    "terminating",
    "DeadlineExceeded",
    "too long",
  ],
  [
    "a pod that has ended says how",
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

test("a pod that comes to its end by itself is what it is, and nobody's termination", () => {
  const byItself = (status: PodStatus) => summaryOf(status, "terminating", false);
  const phase = "Succeeded";
  expect(byItself({ phase, containerStatuses: [completed] })).toMatchObject({ phase, reason: "Completed" });
  expect(byItself({ phase: "Running", containerStatuses: [running] })).toMatchObject({ phase: "Running", reason: "" });
});

const runcWords =
  "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: ";
const lastEnds: readonly [sentence: string, last: ContainerStateTerminated, message: string][] = [
  ["an exit code", { exitCode: 3, reason: "Error" }, "back-off 10s; it exited with code 3"],
  ["an exit without a fault", { exitCode: 0, reason: "Completed" }, "back-off 10s; it exited with code 0"],
  ["too little memory", { exitCode: 137, reason: "OOMKilled" }, "back-off 10s; OOMKilled (137)"],
  [
    "a program that is not there",
    {
      exitCode: 128,
      reason: "StartError",
      message: `${runcWords}exec: "/nope": stat /nope: no such file or directory: unknown`,
    },
    'back-off 10s; it could not start: exec: "/nope": stat /nope: no such file or directory',
  ],
  [
    "a start that failed for other reasons",
    { exitCode: 128, reason: "StartError", message: "the disk\nis full" },
    "back-off 10s; it could not start: the disk is full",
  ],
  [
    "a start of which nothing is said",
    { exitCode: 128, reason: "ContainerCannotRun" },
    "back-off 10s; it could not start: the runtime does not say why",
  ],
  [
    "an end that nobody saw",
    { exitCode: 137, reason: "ContainerStatusUnknown" },
    "back-off 10s; nobody saw how it ended",
  ],
];
for (const [sentence, terminated, message] of lastEnds)
  test(`a crash loop says what it is about: ${sentence}`, () => {
    const containerStatuses = [running, { ...waiting, lastState: { terminated } }];
    expect(summaryOf({ phase: "Running", containerStatuses })).toMatchObject({ reason: "CrashLoopBackOff", message });
  });

test("what waits for something else than the end of a crash loop says no more than that", () => {
  const lastState = { terminated: { exitCode: 3, reason: "Error" } };
  const pulling = containerOf("b", { waiting: { reason: "ErrImagePull", message: "no such image" } }, { lastState });
  expect(summaryOf({ containerStatuses: [pulling] })).toMatchObject({ message: "no such image" });
});

test("containers that are ready are counted among all that the pod asks for, and restarts add up", () => {
  const containerStatuses = [
    { ...running, restartCount: 2 },
    { ...waiting, restartCount: 3 },
  ];
  expect(summaryOf({ containerStatuses })).toMatchObject({ ready: "1/2", restarts: 5 });
  expect(summaryOf({})).toMatchObject({ ready: "0/2", restarts: 0 });
});

test("the rest is taken over, and what is absent is empty", () => {
  const status: PodStatus = { phase: "Running", podIP: "10.0.0.7", startTime: "2026-01-01T00:00:00Z" };
  const steps = [{ what: "sandbox", ms: 85 }] as const;
  expect(summarize({ pod, status, stage: "syncing", isTakenAway: false, steps, obstacle: undefined })).toMatchObject({
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
    summarize({ pod: nameless, status: {}, stage: "syncing", isTakenAway: false, steps: [], obstacle: undefined }),
  ).toMatchObject({
    namespace: "",
    name: "",
    ip: "",
    phase: "",
    ready: "0/0",
  });
});

test("a pod that cannot end says why, and one that lives keeps quiet about what it cannot remove", () => {
  const obstacle = { reason: "KillPodSandboxError", message: "no such network" };
  const status: PodStatus = { phase: "Failed", reason: "DeadlineExceeded", message: "too long" };
  expect(summarize({ pod, status, stage: "terminating", isTakenAway: true, steps: [], obstacle })).toMatchObject(
    obstacle,
  );
  const well: PodStatus = { phase: "Running", containerStatuses: [running] };
  expect(summarize({ pod, status: well, stage: "syncing", isTakenAway: false, steps: [], obstacle })).toMatchObject({
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
  ["which has the turn", [first({ running: {} }), proxy(false)], "Init:0/2", "0/3"],
  ["that one is done", [first({ terminated: { exitCode: 0 } }, true), proxy(false)], "Init:1/2", "0/3"],
  [
    "why one does not get on",
    [first({ waiting: { reason: "ErrImagePull" } }), proxy(false)],
    "Init:ErrImagePull",
    "0/3",
  ],
  ["that one has failed", [first({ terminated: { exitCode: 1, reason: "Error" } }), proxy(false)], "Init:Error", "0/3"],
  [
    "a sidecar that is ready counts",
    [first({ terminated: { exitCode: 0 } }, true), proxy(true)],
    "PodInitializing",
    "1/3",
  ],
];
test("of a pod that has failed while it initialized, what its init container has ended with is told", () => {
  const terminated = { exitCode: 128, reason: "StartError", message: "no such file" };
  const next = containerOf("a", { waiting: { reason: "PodInitializing" } });
  const whyIs = (isInitialized: boolean) => {
    const conditions = [{ type: "Initialized", status: isInitialized ? "True" : "False" } as const];
    const initContainerStatuses = [first({ terminated }), proxy(false)];
    const status: PodStatus = { phase: "Failed", conditions, initContainerStatuses, containerStatuses: [next] };
    const report = { stage: "finished", isTakenAway: false, steps: [], obstacle: undefined } as const;
    return summarize({ pod: withInit, status, ...report });
  };
  expect(whyIs(false)).toMatchObject({ reason: "Init:StartError", message: "no such file" });
  expect(whyIs(true)).toMatchObject({ reason: "PodInitializing" });
});

for (const [sentence, initContainerStatuses, reason, ready] of initRows)
  test(`of a pod that initializes: ${sentence}`, () => {
    const next = containerOf("a", { waiting: { reason: "PodInitializing" } });
    const status: PodStatus = { phase: "Pending", initContainerStatuses, containerStatuses: [next] };
    const summary = summarize({
      pod: withInit,
      status,
      stage: "syncing",
      isTakenAway: false,
      steps: [],
      obstacle: undefined,
    });
    expect(summary).toMatchObject({ reason, ready });
  });

test("restarts of init containers count until the pod is initialized, as kubectl counts them", () => {
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
    const report = { stage: "syncing", isTakenAway: false, steps: [], obstacle: undefined } as const;
    return summarize({ pod: withInit, status, ...report }).restarts;
  };
  expect([restartsWhen(false), restartsWhen(true)]).toEqual([4, 3]);
});

test("a sidecar in a crash loop is told of a pod whose containers run, in kubectl's word", () => {
  const back = { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } };
  const lastState = { terminated: { exitCode: 3, reason: "Error" } };
  const initContainerStatuses = [
    first({ terminated: { exitCode: 0 } }, true),
    containerOf("proxy", back, { lastState, started: false }),
  ];
  const status: PodStatus = { phase: "Running", initContainerStatuses, containerStatuses: [running] };
  const report = { stage: "syncing", isTakenAway: false, steps: [], obstacle: undefined } as const;
  expect(summarize({ pod: withInit, status, ...report })).toMatchObject({
    reason: "Init:CrashLoopBackOff",
    message: "back-off 10s; it exited with code 3",
  });
});

const unwell = [
  { container: "a", kind: "readiness", message: "Readiness probe failed: no route" },
  { container: "b", kind: "liveness", message: "Liveness probe failed: bad disk" },
] as const;
const back = { exitCode: 143, reason: "Error" };
const probed: readonly [sentence: string, status: PodStatus, message: string][] = [
  [
    "a container that is not ready says what its probe says",
    { phase: "Running", containerStatuses: [{ ...running, ready: false }] },
    "a is not ready: Readiness probe failed: no route",
  ],
  ["one that is ready again says nothing", { phase: "Running", containerStatuses: [running] }, ""],
  [
    "one that was stopped for its probe says so",
    { phase: "Running", containerStatuses: [{ ...waiting, lastState: { terminated: back } }] },
    "back-off 10s; it exited with code 143 (Liveness probe failed: bad disk)",
  ],
  [
    "one that ended by itself is not said to have ended for not being ready",
    { phase: "Running", containerStatuses: [{ ...waiting, name: "a", lastState: { terminated: back } }] },
    "back-off 10s; it exited with code 143",
  ],
  [
    "an init container that has failed for good says how",
    {
      phase: "Failed",
      initContainerStatuses: [containerOf("i", { terminated: { exitCode: 4, reason: "Error", message: "no way\n" } })],
    },
    "it exited with code 4: no way",
  ],
  [
    "one that was killed for want of memory says so",
    { phase: "Failed", containerStatuses: [containerOf("a", { terminated: { exitCode: 137, reason: "OOMKilled" } })] },
    "OOMKilled (137)",
  ],
];
for (const [sentence, status, message] of probed)
  test(sentence, () => {
    const report = {
      pod,
      status,
      stage: "syncing",
      isTakenAway: false,
      steps: [],
      obstacle: undefined,
      unwell,
    } as const;
    expect(summarize(report).message).toBe(message);
  });
