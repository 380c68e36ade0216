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
import { deletionDue, statusPatch } from "./status-patch.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const at = (time: string) => `2026-01-01T${time}Z`;

type Told = PodCondition & { readonly lastProbeTime?: null };
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
const running: ContainerState = { running: { startedAt: at("10:00:01") } };
const waiting: ContainerState = { waiting: { reason: "ContainerCreating" } };
const refused: ContainerState = { waiting: { reason: "RunContainerError" } };
const made = (state: ContainerState): ContainerStatus => ({
  ...container(state),
  containerID: "containerd://made",
  imageID: "sha256:made",
});
const unseen: ContainerState = { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } };
/** As containerd has it of one whose end it had not written down when it was killed. */
const forgotten: ContainerState = { terminated: { exitCode: 255, reason: "Unknown" } };
const exited = (exitCode: number): ContainerState => ({ terminated: { exitCode, reason: "Error" } });

const wanted: PodStatus = {
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
/** As the API server prints what it was told: with the fields that say nothing. */
const told = {
  ...wanted,
  conditions: (wanted.conditions ?? []).map((each): Told => ({ ...each, lastProbeTime: null }) as unknown as Told),
  containerStatuses: [{ ...container(running), lastState: {}, resources: {}, volumeMounts: [] }],
} as unknown as PodStatus;
const ended: PodStatus = {
  ...wanted,
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
const [ready = foreign, containersReady = foreign] = ended.conditions ?? [];

const rows: readonly [name: string, patch: ReturnType<typeof patch>, is: ReturnType<typeof patch>][] = [
  ["what the API server has already is not sent", patch(told, wanted), undefined],
  ["only what differs is sent", patch(told, { ...wanted, phase: "Pending" }), { phase: "Pending" }],
  [
    "what is over is taken back",
    patch({ ...told, phase: "Pending", reason: "Because" }, wanted),
    { phase: "Running", reason: null },
  ],
  [
    "what somebody else says of the same phase stays",
    patch({ ...told, reason: "NodeLost", message: "gone" }, wanted),
    undefined,
  ],
  [
    "the first status of a new pod is all of it",
    patch(
      { phase: "Pending", qosClass: "Burstable", conditions: [condition("PodScheduled", "True", "09:59:59")] },
      {
        ...withConditions(wanted, condition("PodScheduled", "True", "10:00:00")),
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
  ["a start never changes", patch({ ...told, startTime: at("08:00:00") }, wanted), undefined],
  ["a generation never falls back", patch({ ...told, observedGeneration: 3 }, wanted), undefined],
  [
    "a mirror pod has none",
    patch(without(told, "observedGeneration"), without(wanted, "observedGeneration")),
    undefined,
  ],
  ["addresses of a pod that has none any more stay", patch(told, without(wanted, "podIP", "podIPs")), undefined],
  [
    "a new sandbox has new ones",
    patch(told, { ...wanted, podIP: "10.0.0.3", podIPs: [{ ip: "10.0.0.3" }] }),
    { podIP: "10.0.0.3", podIPs: [{ ip: "10.0.0.3" }, { $patch: "replace" }] },
  ],
  [
    "conditions of others are left alone",
    patch(withConditions(told, foreign, ...(wanted.conditions ?? [])), wanted),
    undefined,
  ],
  [
    "a condition that changes is sent with its time, behind those of others",
    patch(
      withConditions(told, foreign, ...(wanted.conditions ?? [])),
      withConditions(wanted, ready, ...(wanted.conditions ?? []).slice(1)),
    ),
    { ...order("example.com/lb", "Ready", "ContainersReady"), conditions: [ready] },
  ],
  [
    "one that changes back loses its reason",
    patch(
      withConditions(told, ready, ...(wanted.conditions ?? []).slice(1)),
      withConditions(wanted, condition("Ready", "True", "11:30:00"), ...(wanted.conditions ?? []).slice(1)),
    ),
    {
      ...order("Ready", "ContainersReady"),
      conditions: [{ ...condition("Ready", "True", "11:30:00"), reason: null }],
    },
  ],
  [
    "one that stays as it is keeps its time",
    patch(
      told,
      withConditions(
        wanted,
        ...(wanted.conditions ?? []).map((each) => ({ ...each, lastTransitionTime: at("11:00:00") })),
      ),
    ),
    undefined,
  ],
  [
    "no change comes before the one before it",
    patch(
      withConditions(told, condition("Ready", "False", "11:00:00")),
      withConditions(wanted, condition("Ready", "True", "10:00:05")),
    ),
    { ...order("Ready"), conditions: [condition("Ready", "True", "11:00:00")] },
  ],
  [
    "one of ours that we do not have is dropped",
    patch(
      withConditions(told, condition("PodResizePending", "True", "10:00:00"), ...(wanted.conditions ?? [])),
      wanted,
    ),
    { ...order("Ready", "ContainersReady"), conditions: [{ $patch: "delete", type: "PodResizePending" }] },
  ],
  [
    "an end is told when nothing runs",
    patch(told, ended),
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
    "and not before",
    patch(told, withContainer(ended, container(running))),
    { ...order("Ready", "ContainersReady"), conditions: [ready, containersReady] },
  ],
  [
    "what a disruption was is told with the end that it explains, with its time",
    patch(withConditions(told), withConditions(ended, disruption)),
    {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "too long",
      containerStatuses: [container(exited(137))],
      ...order("DisruptionTarget"),
      conditions: [{ ...disruption, lastTransitionTime: at("12:00:00") }],
    },
  ],
  ["and not before", patch(withConditions(told), withConditions(wanted, disruption)), undefined],
  [
    "a disruption that somebody else has told stays",
    patch(withConditions(told, disruption), withConditions(wanted)),
    undefined,
  ],
  ["an end is never withdrawn", patch(ended, { ...ended, phase: "Running", reason: "x", message: "y" }), undefined],
  ["nor does it become another one", patch(ended, { ...ended, phase: "Succeeded" }), undefined],
  [
    "who has ended is not ready, whoever ended it",
    patch({ ...told, phase: "Failed", reason: "Evicted" }, wanted),
    {
      ...order("Ready", "ContainersReady"),
      conditions: [
        condition("Ready", "False", "12:00:00", { reason: "PodFailed" }),
        condition("ContainersReady", "False", "12:00:00", { reason: "PodFailed" }),
      ],
    },
  ],
  [
    "a container that must not run again stays ended",
    patch(withContainer(told, container(exited(1))), withContainer(wanted, container(waiting)), "Never"),
    undefined,
  ],
  [
    "so does one that has succeeded, where only failures are repeated",
    patch(withContainer(told, container(exited(0))), withContainer(wanted, container(waiting)), "OnFailure"),
    undefined,
  ],
  [
    "a later instance is another one, such as that of a new image",
    patch(withContainer(told, container(exited(1))), withContainer(wanted, container(running, 1)), "Never"),
    { containerStatuses: [container(running, 1)] },
  ],
  [
    "where containers run again, one that has ended waits",
    patch(withContainer(told, container(exited(1))), withContainer(wanted, container(waiting))),
    { containerStatuses: [container(waiting)] },
  ],
  [
    "how it ended is not forgotten by one who has not seen it",
    patch(withContainer(told, container(exited(143))), withContainer(wanted, container(unseen)), "Never"),
    undefined,
  ],
  [
    "of a later instance nobody may have seen it",
    patch(withContainer(told, container(exited(143))), withContainer(wanted, container(unseen, 1))),
    { containerStatuses: [container(unseen, 1)] },
  ],
  [
    "how it ended is not taken back by a runtime that was killed before it had written it down",
    patch(withContainer(told, made(exited(143))), withContainer(wanted, made(forgotten)), "Never"),
    undefined,
  ],
  [
    "of another instance its word is all there is",
    patch(withContainer(told, container(exited(143))), withContainer(wanted, made(forgotten)), "Never"),
    { containerStatuses: [made(forgotten)] },
  ],
  [
    "who has not heard of an instance that waits to be started does not unmake it",
    patch(withContainer(told, made(refused)), withContainer(wanted, container(waiting))),
    { containerStatuses: [made(waiting)] },
  ],
  [
    "the next one has nothing of it",
    patch(withContainer(told, made(refused)), withContainer(wanted, container(waiting, 1))),
    { containerStatuses: [container(waiting, 1)] },
  ],
  ["containers that nobody speaks of stay as they are", patch(told, without(wanted, "containerStatuses")), undefined],
];
for (const [name, sent, is] of rows)
  test(name, () => {
    expect(sent).toEqual(is);
  });

const deleted = { deletionTimestamp: at("11:00:30"), deletionGracePeriodSeconds: 30 };
const mirror = { annotations: { "kubernetes.io/config.mirror": "0a" } };
const deletions: readonly [name: string, status: PodStatus, metadata: ObjectMeta, stage: StageKind, isDue: boolean][] =
  [
    ["a deleted pod of which nothing is left, and whose end was told, is removed", ended, deleted, "finished", true],
    ["one that nobody has deleted is not", ended, {}, "finished", false],
    ["nor one of which something is left", ended, deleted, "terminated", false],
    ["nor one whose end was not told yet", wanted, deleted, "finished", false],
    ["nor a mirror pod", ended, { ...deleted, ...mirror }, "finished", false],
    [
      "nor one that waits for its finalizers alone",
      ended,
      { ...deleted, deletionGracePeriodSeconds: 0, finalizers: ["example.com/hold"] },
      "finished",
      false,
    ],
    [
      "one whose removal was cut off in the midst is removed again",
      ended,
      { ...deleted, deletionGracePeriodSeconds: 0 },
      "finished",
      true,
    ],
  ];
for (const [name, status, metadata, stage, isDue] of deletions)
  test(name, () => {
    expect(deletionDue(podOf(status, metadata), stage)).toBe(isDue);
  });
