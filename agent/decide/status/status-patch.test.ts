import { expect, test } from "bun:test";
import type {
  ContainerState,
  ContainerStatus,
  ObjectMeta,
  Pod,
  PodCondition,
  PodStatus,
} from "../../../proto/kubernetes/gen/types.ts";
import type { StageKind } from "../pod/stage.ts";
import { isDeletionDue, isEndProgress, isStartProgress, phaseOnlyPatch, statusPatch } from "./status-patch.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const at = (time: string) => `2026-01-01T${time}Z`;

type Reported = PodCondition & { readonly lastProbeTime?: null };
const condition = (
  type: string,
  status: "True" | "False",
  since: string,
  more: Partial<PodCondition> = {},
): PodCondition => ({
  type,
  status,
  lastTransitionTime: at(since),
  ...more,
});
const container = (state: ContainerState, restartCount = 0, name = "a"): ContainerStatus => ({
  name,
  image: "busybox:1",
  imageID: "sha256:1",
  ready: state.running !== undefined,
  started: state.running !== undefined,
  restartCount,
  state,
});
const one = { cpu: "1" };
const two = { cpu: "2", memory: "1Gi" };
const running: ContainerState = { running: { startedAt: at("10:00:01") } };
const waiting: ContainerState = { waiting: { reason: "ContainerCreating" } };
const refused: ContainerState = { waiting: { reason: "RunContainerError" } };
const made = (state: ContainerState): ContainerStatus => ({
  ...container(state),
  containerID: "containerd://made",
  imageID: "sha256:made",
});
const unseen: ContainerState = { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } };
/** What containerd reports of a container whose exit it had not recorded when it was killed. */
const forgotten: ContainerState = { terminated: { exitCode: 255, reason: "Unknown" } };
const exited = (exitCode: number): ContainerState => ({ terminated: { exitCode, reason: "Error" } });

const decided: PodStatus = {
  phase: "Running",
  conditions: [condition("Ready", "True", "10:00:05"), condition("ContainersReady", "True", "10:00:05")],
  hostIP: "192.0.2.1",
  hostIPs: [{ ip: "192.0.2.1" }],
  podIP: "10.0.0.2",
  podIPs: [{ ip: "10.0.0.2" }],
  startTime: at("10:00:00"),
  containerStatuses: [container(running)],
  qosClass: "BestEffort",
  observedGeneration: 2,
};
/** What the API server returns for a reported status, with its empty fields. */
const reported = {
  ...decided,
  conditions: (decided.conditions ?? []).map(
    (each): Reported => ({ ...each, lastProbeTime: null }) as unknown as Reported,
  ),
  containerStatuses: [{ ...container(running), lastState: {}, resources: {}, volumeMounts: [] }],
} as unknown as PodStatus;
const terminal: PodStatus = {
  ...decided,
  phase: "Failed",
  reason: "DeadlineExceeded",
  message: "too long",
  conditions: [
    condition("Ready", "False", "11:00:00", { reason: "PodFailed" }),
    condition("ContainersReady", "False", "11:00:00", { reason: "PodFailed" }),
  ],
  containerStatuses: [container(exited(137))],
};
const podOf = (
  status: PodStatus,
  metadata: ObjectMeta = {},
  restartPolicy: "Always" | "Never" | "OnFailure" = "Always",
): Pod => ({
  metadata: { uid: "u", name: "web", namespace: "shop", ...metadata },
  spec: { containers: [{ name: "a" }], restartPolicy },
  status,
});
const patch = (before: PodStatus, after: PodStatus, restartPolicy?: "Always" | "Never" | "OnFailure") =>
  statusPatch(podOf(before, {}, restartPolicy), after, now)?.status;
const withConditions = (status: PodStatus, ...conditions: readonly PodCondition[]): PodStatus => ({
  ...status,
  conditions,
});
const withContainer = (status: PodStatus, ...containerStatuses: readonly ContainerStatus[]): PodStatus => ({
  ...status,
  containerStatuses,
});
const order = (...types: readonly string[]) => ({ "$setElementOrder/conditions": types.map((type) => ({ type })) });
const without = (status: PodStatus, ...fields: readonly (keyof PodStatus)[]): PodStatus =>
  Object.fromEntries(Object.entries(status).filter(([field]) => !fields.includes(field as keyof PodStatus)));
const foreign = condition("example.com/lb", "False", "09:00:00");
const disruption = condition("DisruptionTarget", "True", "09:30:00", { reason: "TerminationByKubelet" });
const [ready = foreign, containersReady = foreign] = terminal.conditions ?? [];

const rows: readonly [name: string, patch: ReturnType<typeof patch>, is: ReturnType<typeof patch>][] = [
  ["an unchanged status is not sent", patch(reported, decided), undefined],
  ["only differences are sent", patch(reported, { ...decided, phase: "Pending" }), { phase: "Pending" }],
  [
    "a field without a value is removed",
    patch({ ...reported, phase: "Pending", reason: "Because" }, decided),
    { phase: "Running", reason: null },
  ],
  [
    "another writer's reason for the same phase is kept",
    patch({ ...reported, reason: "NodeLost", message: "gone" }, decided),
    undefined,
  ],
  [
    "the first status of a new pod is sent as a whole",
    patch(
      { phase: "Pending", qosClass: "Burstable", conditions: [condition("PodScheduled", "True", "09:59:59")] },
      {
        ...withConditions(decided, condition("PodScheduled", "True", "10:00:00")),
        phase: "Pending",
      },
    ),
    {
      startTime: at("10:00:00"),
      hostIP: "192.0.2.1",
      podIP: "10.0.0.2",
      observedGeneration: 2,
      containerStatuses: [container(running)],
      hostIPs: [{ ip: "192.0.2.1" }, { $patch: "replace" }],
      podIPs: [{ ip: "10.0.0.2" }, { $patch: "replace" }],
    },
  ],
  [
    "the resources of the pod are sent with null for each amount that is gone",
    patch(
      { ...reported, allocatedResources: two, resources: { requests: two, limits: two } },
      { ...decided, allocatedResources: one, resources: { requests: one } },
    ),
    { allocatedResources: { ...one, memory: null }, resources: { requests: { ...one, memory: null }, limits: null } },
  ],
  [
    "the first resources of the pod are sent as they are",
    patch(reported, { ...decided, allocatedResources: one, resources: { requests: one } }),
    { allocatedResources: one, resources: { requests: one } },
  ],
  ["a startTime never changes", patch({ ...reported, startTime: at("08:00:00") }, decided), undefined],
  ["an observedGeneration never decreases", patch({ ...reported, observedGeneration: 3 }, decided), undefined],
  [
    "a mirror pod has no observedGeneration",
    patch(without(reported, "observedGeneration"), without(decided, "observedGeneration")),
    undefined,
  ],
  [
    "the addresses of a pod without a sandbox are kept",
    patch(reported, without(decided, "podIP", "podIPs")),
    undefined,
  ],
  [
    "a new sandbox replaces the addresses",
    patch(reported, { ...decided, podIP: "10.0.0.3", podIPs: [{ ip: "10.0.0.3" }] }),
    { podIP: "10.0.0.3", podIPs: [{ ip: "10.0.0.3" }, { $patch: "replace" }] },
  ],
  [
    "conditions of other writers are left alone",
    patch(withConditions(reported, foreign, ...(decided.conditions ?? [])), decided),
    undefined,
  ],
  [
    "a changed condition is sent with its time, after those of other writers",
    patch(
      withConditions(reported, foreign, ...(decided.conditions ?? [])),
      withConditions(decided, ready, ...(decided.conditions ?? []).slice(1)),
    ),
    { ...order("example.com/lb", "Ready", "ContainersReady"), conditions: [ready] },
  ],
  [
    "a condition that changes back loses its reason",
    patch(
      withConditions(reported, ready, ...(decided.conditions ?? []).slice(1)),
      withConditions(decided, condition("Ready", "True", "11:30:00"), ...(decided.conditions ?? []).slice(1)),
    ),
    {
      ...order("Ready", "ContainersReady"),
      conditions: [{ ...condition("Ready", "True", "11:30:00"), reason: null }],
    },
  ],
  [
    "an unchanged condition keeps its time",
    patch(
      reported,
      withConditions(
        decided,
        ...(decided.conditions ?? []).map((each) => ({ ...each, lastTransitionTime: at("11:00:00") })),
      ),
    ),
    undefined,
  ],
  [
    "a transition time never decreases",
    patch(
      withConditions(reported, condition("Ready", "False", "11:00:00")),
      withConditions(decided, condition("Ready", "True", "10:00:05")),
    ),
    { ...order("Ready"), conditions: [condition("Ready", "True", "11:00:00")] },
  ],
  [
    "our condition that is no longer reported is deleted",
    patch(
      withConditions(reported, condition("PodResizePending", "True", "10:00:00"), ...(decided.conditions ?? [])),
      decided,
    ),
    { ...order("Ready", "ContainersReady"), conditions: [{ $patch: "delete", type: "PodResizePending" }] },
  ],
  [
    "a terminal phase is sent when nothing runs",
    patch(reported, terminal),
    {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "too long",
      containerStatuses: [container(exited(137))],
      ...order("Ready", "ContainersReady"),
      conditions: [ready, containersReady],
    },
  ],
  [
    "a terminal phase is not sent while a container runs",
    patch(reported, withContainer(terminal, container(running))),
    { ...order("Ready", "ContainersReady"), conditions: [ready, containersReady] },
  ],
  [
    "DisruptionTarget is sent with the terminal phase, with its time",
    patch(withConditions(reported), withConditions(terminal, disruption)),
    {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "too long",
      containerStatuses: [container(exited(137))],
      ...order("DisruptionTarget"),
      conditions: [{ ...disruption, lastTransitionTime: at("12:00:00") }],
    },
  ],
  [
    "DisruptionTarget is not sent before the terminal phase",
    patch(withConditions(reported), withConditions(decided, disruption)),
    undefined,
  ],
  [
    "DisruptionTarget of another writer is kept",
    patch(withConditions(reported, disruption), withConditions(decided)),
    undefined,
  ],
  [
    "a terminal phase is never withdrawn",
    patch(terminal, { ...terminal, phase: "Running", reason: "x", message: "y" }),
    undefined,
  ],
  ["a terminal phase never becomes another one", patch(terminal, { ...terminal, phase: "Succeeded" }), undefined],
  [
    "a pod that another client has ended is not ready",
    patch({ ...reported, phase: "Failed", reason: "Evicted" }, decided),
    {
      ...order("Ready", "ContainersReady"),
      conditions: [
        condition("Ready", "False", "12:00:00", { reason: "PodFailed" }),
        condition("ContainersReady", "False", "12:00:00", { reason: "PodFailed" }),
      ],
    },
  ],
  [
    "a container that must not restart stays terminated",
    patch(withContainer(reported, container(exited(1))), withContainer(decided, container(waiting)), "Never"),
    undefined,
  ],
  [
    "a container that succeeded stays terminated with OnFailure",
    patch(withContainer(reported, container(exited(0))), withContainer(decided, container(waiting)), "OnFailure"),
    undefined,
  ],
  [
    "a later instance replaces a terminated one, such as that of a new image",
    patch(withContainer(reported, container(exited(1))), withContainer(decided, container(running, 1)), "Never"),
    { containerStatuses: [container(running, 1)] },
  ],
  [
    "a terminated container may wait if it restarts",
    patch(withContainer(reported, container(exited(1))), withContainer(decided, container(waiting))),
    { containerStatuses: [container(waiting)] },
  ],
  [
    "an inferred exit does not replace the reported one",
    patch(withContainer(reported, container(exited(143))), withContainer(decided, container(unseen)), "Never"),
    undefined,
  ],
  [
    "an inferred exit of a later instance is reported",
    patch(withContainer(reported, container(exited(143))), withContainer(decided, container(unseen, 1))),
    { containerStatuses: [container(unseen, 1)] },
  ],
  [
    "a synthetic exit does not replace the reported one",
    patch(withContainer(reported, made(exited(143))), withContainer(decided, made(forgotten)), "Never"),
    undefined,
  ],
  [
    "a synthetic exit of another instance is reported",
    patch(withContainer(reported, container(exited(143))), withContainer(decided, made(forgotten)), "Never"),
    { containerStatuses: [made(forgotten)] },
  ],
  [
    "a created instance stays reported while the agent has not observed it",
    patch(withContainer(reported, made(refused)), withContainer(decided, container(waiting))),
    { containerStatuses: [made(waiting)] },
  ],
  [
    "the next instance takes nothing from the reported one",
    patch(withContainer(reported, made(refused)), withContainer(decided, container(waiting, 1))),
    { containerStatuses: [container(waiting, 1)] },
  ],
  [
    "container statuses that were not decided stay as they are",
    patch(reported, without(decided, "containerStatuses")),
    undefined,
  ],
];
for (const [name, sent, is] of rows)
  test(name, () => {
    expect(sent).toEqual(is);
  });

const deleted = { deletionTimestamp: at("11:00:30"), deletionGracePeriodSeconds: 30 };
const mirror = { annotations: { "kubernetes.io/config.mirror": "0a" } };
const deletions: readonly [name: string, status: PodStatus, metadata: ObjectMeta, stage: StageKind, isDue: boolean][] =
  [
    [
      "a deleted pod without anything left, whose end was reported, is removed from the API",
      terminal,
      deleted,
      "finished",
      true,
    ],
    ["a pod that is not deleted stays in the API", terminal, {}, "finished", false],
    ["a deleted pod with something left stays in the API", terminal, deleted, "terminated", false],
    ["a deleted pod whose end was not reported stays in the API", decided, deleted, "finished", false],
    ["a mirror pod stays in the API", terminal, { ...deleted, ...mirror }, "finished", false],
    [
      "a pod that only waits for its finalizers stays in the API",
      terminal,
      { ...deleted, deletionGracePeriodSeconds: 0, finalizers: ["example.com/hold"] },
      "finished",
      false,
    ],
    [
      "a pod whose removal was interrupted is removed again",
      terminal,
      { ...deleted, deletionGracePeriodSeconds: 0 },
      "finished",
      true,
    ],
  ];
for (const [name, status, metadata, stage, isDue] of deletions)
  test(name, () => {
    expect(isDeletionDue(podOf(status, metadata), stage)).toBe(isDue);
  });

const starting = (first: ContainerStatus, second: ContainerStatus, more: Partial<PodStatus> = {}): PodStatus => ({
  phase: "Pending",
  conditions: [condition("Initialized", "True", "10:00:05"), condition("Ready", "False", "10:00:05")],
  containerStatuses: [first, second],
  ...more,
});
const [waitingA, waitingB] = [container(waiting), container(waiting, 0, "b")];
const [runningA, runningB] = [container(running), container(running, 0, "b")];
const initWith = (state: ContainerState) => ({ initContainerStatuses: [container(state, 0, "init")] });
const progress: readonly [name: string, before: PodStatus, after: PodStatus, isProgress: boolean, stage?: StageKind][] =
  [
    ["the start of one of two containers", starting(waitingA, waitingB), starting(runningA, waitingB), true],
    [
      "the start of one of two containers with a new message of a condition",
      starting(waitingA, waitingB),
      starting(runningA, waitingB, {
        conditions: [
          condition("Initialized", "True", "10:00:05"),
          condition("Ready", "False", "10:00:05", { message: "containers with unready status: [b]" }),
          condition("PodReadyToStartContainers", "True", "10:00:05"),
        ],
      }),
      true,
    ],
    [
      "the start of the last container",
      starting(runningA, waitingB),
      starting(runningA, runningB, { phase: "Running" }),
      false,
    ],
    [
      "a changed condition",
      starting(waitingA, waitingB, { conditions: [condition("Initialized", "False", "10:00:05")] }),
      starting(runningA, waitingB),
      false,
    ],
    ["the first statuses of containers", { phase: "Pending" }, starting(runningA, waitingB), false],
    ["a container that cannot start", starting(waitingA, waitingB), starting(container(refused), waitingB), false],
    ["a container that has failed", starting(runningA, waitingB), starting(container(exited(1)), waitingB), false],
    ["a restarted container", starting(waitingA, waitingB), starting(container(running, 1), waitingB), false],
    [
      "the start of an init container",
      starting(waitingA, waitingB, initWith(waiting)),
      starting(waitingA, waitingB, initWith(running)),
      false,
    ],
    [
      "a container of a terminating pod",
      starting(waitingA, waitingB),
      starting(runningA, waitingB),
      false,
      "terminating",
    ],
  ];
for (const [name, before, after, isProgress, stage = "syncing"] of progress)
  test(`${name} is ${isProgress ? "" : "not "}only progress of the start`, () => {
    const api = podOf(before);
    const change = statusPatch(api, after, now) ?? { status: {} };
    expect(isStartProgress(api, change, after, stage)).toBe(isProgress);
  });

const ending = (first: ContainerStatus, second: ContainerStatus, more: Partial<PodStatus> = {}): PodStatus => ({
  phase: "Running",
  conditions: [condition("Initialized", "True", "10:00:05"), condition("Ready", "False", "10:00:05")],
  containerStatuses: [first, second],
  ...more,
});
const [exitedA, exitedB] = [container(exited(0)), container(exited(0), 0, "b")];
const wasReady = { conditions: [condition("Ready", "True", "10:00:05")] };
const endProgress: readonly [
  name: string,
  before: PodStatus,
  after: PodStatus,
  isProgress: boolean,
  stage?: StageKind,
][] = [
  ["the end of one of two containers", ending(runningA, runningB), ending(exitedA, runningB), true],
  ["the end of the last container", ending(exitedA, runningB), ending(exitedA, exitedB), false],
  ["the end of readiness", ending(runningA, runningB, wasReady), ending(exitedA, runningB), false],
  [
    "the end of a container of a pod that stays",
    ending(runningA, runningB),
    ending(exitedA, runningB),
    false,
    "syncing",
  ],
];
for (const [name, before, after, isProgress, stage = "terminating"] of endProgress)
  test(`${name} is ${isProgress ? "" : "not "}only progress of the end`, () => {
    const api = podOf(before);
    const change = statusPatch(api, after, now) ?? { status: {} };
    expect(isEndProgress(api, change, after, stage)).toBe(isProgress);
  });

const beingDeleted: ObjectMeta = { deletionTimestamp: at("11:59:00") };
const phaseOnlyRows: readonly [
  name: string,
  status: Readonly<Record<string, unknown>>,
  more?: { readonly metadata?: ObjectMeta; readonly stage?: StageKind },
][] = [
  ["a failed pod with one more field", { phase: "Failed", reason: "Evicted" }],
  ["a succeeded pod with two more fields", { phase: "Succeeded", conditions: [], containerStatuses: [] }],
  ["nothing but the phase", { phase: "Failed" }],
  ["a pod that runs", { phase: "Running", reason: "" }],
  ["a pod that is not deleted", { phase: "Failed", reason: "Evicted" }, { metadata: {} }],
  ["a pod with something on the node", { phase: "Failed", reason: "Evicted" }, { stage: "terminating" }],
];
test("a server that rejects the status of a deleted pod without anything left gets its phase alone", () => {
  const lines = phaseOnlyRows.map(([name, status, { metadata = beingDeleted, stage = "finished" } = {}]) => {
    const patch = phaseOnlyPatch({ metadata, spec: { containers: [] } }, { status }, stage as StageKind);
    return `${name}: ${patch === undefined ? "no patch" : JSON.stringify(patch)}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "a failed pod with one more field: {"status":{"phase":"Failed"}}",
      "a succeeded pod with two more fields: {"status":{"phase":"Succeeded"}}",
      "nothing but the phase: no patch",
      "a pod that runs: no patch",
      "a pod that is not deleted: no patch",
      "a pod with something on the node: no patch",
    ]
  `);
});
