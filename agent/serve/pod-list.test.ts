import { expect, test } from "bun:test";
import type { ContainerState, ContainerStatus, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { Stage } from "../decide/stage.ts";
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

const summaryOf = (status: PodStatus, stage: Stage = "syncing") =>
  summarize({ pod, status, stage, steps: [], obstacle: undefined });

const rows: readonly [sentence: string, status: PodStatus, stage: Stage, reason: string, message: string][] = [
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
  ["what ended says how", { phase: "Failed", containerStatuses: [running, failed] }, "syncing", "Error", "no disk"],
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
  expect(summarize({ pod, status, stage: "syncing", steps, obstacle: undefined })).toMatchObject({
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
  expect(summarize({ pod: nameless, status: {}, stage: "syncing", steps: [], obstacle: undefined })).toMatchObject({
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
  expect(summarize({ pod, status, stage: "terminating", steps: [], obstacle })).toMatchObject(obstacle);
  const well: PodStatus = { phase: "Running", containerStatuses: [running] };
  expect(summarize({ pod, status: well, stage: "syncing", steps: [], obstacle })).toMatchObject({ reason: "" });
});
