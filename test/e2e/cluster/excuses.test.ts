import { expect, test } from "bun:test";
import type { ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { UnfinishedCall } from "../runtime-calls.ts";
import { barePod } from "./api-objects.ts";
import { judge } from "./expected-outcomes.ts";
import { type HookFailure, readHookFailures } from "./hook-failures.ts";
import type { Kill } from "./kills.ts";
import type { Notes } from "./random-workload.ts";

const createdAt = Date.parse("2026-01-01T00:00:00Z");
const neverStarted = "1970-01-01T00:00:00Z";
const containerStatus = (exitCode: number, reason: string, startedAt = "2026-01-01T00:00:01Z"): ContainerStatus => ({
  ...{ name: "main", ready: false, restartCount: 0, image: "", imageID: "", containerID: "containerd://1" },
  state: { terminated: { exitCode, reason, startedAt, finishedAt: "2026-01-01T00:00:20Z" } },
});
/** A pod that has failed 20 seconds after its creation. */
const failedPod = (exitCode?: number, reason = "Error", podReason?: string, startedAt?: string): Pod => ({
  metadata: { name: "p", namespace: "default", uid: "uid-p", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { containers: [] },
  status: {
    phase: "Failed",
    ...(podReason !== undefined && { reason: podReason }),
    ...(exitCode !== undefined && { containerStatuses: [containerStatus(exitCode, reason, startedAt)] }),
  },
});
const withStoppedSidecar = (pod: Pod): Pod => ({
  ...pod,
  spec: { ...pod.spec, initContainers: [{ name: "side", restartPolicy: "Always" }] },
  status: { ...pod.status, initContainerStatuses: [{ ...containerStatus(143, "Error"), name: "side" }] },
});
/** A kill, by seconds since the creation of the pod. */
const kill = (what: Kill["what"], from: number, until = from + 1): Kill => ({
  what,
  fromMs: createdAt + from * 1000,
  untilMs: createdAt + until * 1000,
});
const podUid = "uid-p";
/** A call of the failed container, by seconds since the creation of the pod. */
const call = (from: number, until: number, more: Partial<UnfinishedCall> = {}): UnfinishedCall => ({
  ...{ class: "start", name: 'StartContainer for "1"', podUid, container: "main", containerId: undefined },
  ...{ fromMs: createdAt + from * 1000, untilMs: createdAt + until * 1000 },
  ...more,
});
const noCalls = { interrupted: [], failed: [] };
/** Agent and runtime are killed again and again, so that a time alone is no excuse. */
const manyKills = Array.from({ length: 20 }, (_, at) => [kill("agent", at), kill("runtime", at)]).flat();
const noted = ["main began"];
const ended = ["main began", "main ended 0"];
const beganTwice = ["main began", ...ended];
/** A StartContainer for an instance of the container. */
const startOf = (containerId: string, from: number, until: number) => call(from, until, { containerId });
const succeeded: Pod = {
  ...failedPod(),
  status: { phase: "Succeeded", containerStatuses: [containerStatus(0, "Completed")] },
};
const notStarted = failedPod(128, "StartError");
const killed = failedPod(137);
const runtimeKill = kill("runtime", 19, 21);
const agentKill = kill("agent", 19, 21);

interface Row {
  readonly pod: Pod;
  readonly notes: Notes;
  readonly kills: readonly Kill[];
  readonly interrupted?: readonly UnfinishedCall[];
  readonly failed?: readonly UnfinishedCall[];
  readonly hookFailures?: readonly HookFailure[];
}

test.each<[life: string, outcome: string, evidence: Row]>([
  [
    "was interrupted without a call in flight",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: manyKills },
  ],
  [
    "never began, without a call in flight",
    "p: no kill explains that it never began",
    { pod: notStarted, notes: [], kills: manyKills },
  ],
  [
    "was interrupted without a kill",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [], interrupted: [call(18, 20)] },
  ],
  [
    "was interrupted in its start at a kill of the runtime",
    "interrupted",
    { pod: killed, notes: noted, kills: [runtimeKill], interrupted: [call(18, 20)] },
  ],
  [
    "was interrupted while the runtime stopped its pod",
    "interrupted",
    {
      ...{ pod: killed, notes: noted, kills: [runtimeKill] },
      interrupted: [call(18, 20, { class: "stop", container: undefined })],
    },
  ],
  [
    "was interrupted while the runtime started another container",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [runtimeKill], interrupted: [call(18, 20, { container: "side" })] },
  ],
  [
    "was interrupted while the runtime started another instance",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [runtimeKill], interrupted: [call(18, 20, { containerId: "2" })] },
  ],
  [
    "was interrupted while the runtime started another pod",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [runtimeKill], interrupted: [call(18, 20, { podUid: "uid-q" })] },
  ],
  [
    "never began, at a kill of the runtime in its creation",
    "p: no kill explains that it never began",
    {
      ...{ pod: failedPod(137, "ContainerStatusUnknown"), notes: [], kills: [runtimeKill] },
      interrupted: [call(18, 20, { class: "create", name: "CreateContainer within sandbox" })],
    },
  ],
  [
    "never began, at a kill of the runtime while it ran its sandbox",
    "p: no kill explains that it never began",
    {
      ...{ pod: failedPod(137, "ContainerStatusUnknown"), notes: [], kills: [runtimeKill] },
      interrupted: [call(18, 20, { class: "sandbox", name: "RunPodSandbox for", container: undefined })],
    },
  ],
  [
    "never began, with a sidecar that was stopped",
    "never began",
    {
      ...{ pod: withStoppedSidecar(failedPod(137, "ContainerStatusUnknown")), notes: [], kills: [runtimeKill] },
      interrupted: [call(18, 20)],
    },
  ],
  [
    "was interrupted before the kill",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [kill("runtime", 22, 24)], interrupted: [call(21, 23)] },
  ],
  [
    "could not start at a kill of the agent",
    "never began",
    { pod: notStarted, notes: [], kills: [agentKill], failed: [call(18, 20)] },
  ],
  [
    "could not start long after a kill of the agent",
    "p: no kill explains that it never began",
    { pod: notStarted, notes: [], kills: [kill("agent", 15)], failed: [call(17, 20)] },
  ],
  [
    "could not start before a kill of the agent",
    "p: no kill explains that it never began",
    { pod: notStarted, notes: [], kills: [agentKill], failed: [call(17, 18)] },
  ],
  [
    "failed with runc's code before its start",
    "never began",
    { pod: failedPod(1, "Error", undefined, neverStarted), notes: [], kills: [agentKill], failed: [call(18, 20)] },
  ],
  [
    "was killed at a kill of the agent alone",
    "p: no kill explains that it was interrupted",
    { pod: killed, notes: noted, kills: [agentKill], failed: [call(18, 20)] },
  ],
  [
    "has an unknown code after a kill of the agent alone",
    "p: no kill explains that it was interrupted",
    { pod: failedPod(255, "Unknown"), notes: noted, kills: [agentKill], failed: [call(18, 20)] },
  ],
  [
    "is missing after a kill of the agent in its start",
    "never began",
    { pod: failedPod(137, "ContainerStatusUnknown"), notes: [], kills: [agentKill], failed: [call(18, 20)] },
  ],
  [
    "lost its exit code while the runtime was away",
    "exit code lost",
    { pod: failedPod(255, "Unknown"), notes: ended, kills: [kill("runtime", 18, 24)] },
  ],
  [
    "lost its exit code long after the runtime was away",
    "p: no kill explains that it lost its exit code",
    { pod: failedPod(255, "Unknown"), notes: ended, kills: [kill("runtime", 15, 18)] },
  ],
  [
    "lost its exit code at a kill of the agent alone",
    "p: no kill explains that it lost its exit code",
    { pod: failedPod(255, "Unknown"), notes: ended, kills: [agentKill] },
  ],
  [
    "failed without a container",
    "p: its pod has failed without a container",
    { pod: failedPod(), notes: [], kills: manyKills, failed: [call(18, 20)], interrupted: [call(18, 20)] },
  ],
  [
    "was rejected",
    "p: its pod has failed with OutOfpods",
    {
      ...{ pod: failedPod(128, "StartError", "OutOfpods"), notes: [], kills: manyKills },
      ...{ failed: [call(18, 20)], interrupted: [call(18, 20)] },
    },
  ],
  [
    "failed with a code that no kill causes",
    "p: no kill causes its exit code 1",
    { pod: failedPod(1), notes: noted, kills: [runtimeKill], interrupted: [call(18, 20)] },
  ],
  [
    "was stopped at its deadline while its hook failed without the runtime",
    "interrupted",
    {
      ...{ pod: failedPod(137, "Error", "DeadlineExceeded"), notes: noted, kills: [kill("runtime", 9)] },
      hookFailures: readHookFailures("00:00:09.500 warn  the preStop hook has failed: gone  pod=default/p uid=uid-p\n"),
    },
  ],
  [
    "was stopped at its deadline and its hook failed later",
    "p: no kill explains that it was interrupted",
    {
      ...{ pod: failedPod(137, "Error", "DeadlineExceeded"), notes: noted, kills: [kill("runtime", 9)] },
      hookFailures: readHookFailures("00:00:12.000 warn  the preStop hook has failed: gone  pod=default/p uid=uid-p\n"),
    },
  ],
  [
    "was stopped at its deadline after a kill of the agent",
    "p: no kill explains that it was interrupted",
    { pod: failedPod(137, "Error", "DeadlineExceeded"), notes: noted, kills: [kill("agent", 9)] },
  ],
  [
    "began twice, with a kill of the runtime in its start",
    "ran twice",
    { pod: succeeded, notes: beganTwice, kills: [kill("runtime", 2)], interrupted: [startOf("1", 1.5, 2.5)] },
  ],
  [
    "began three times, with one kill of the runtime in its start",
    "p: no kill explains that it ran twice",
    {
      ...{ pod: succeeded, notes: ["main began", ...beganTwice], kills: [kill("runtime", 2)] },
      interrupted: [startOf("1", 1.5, 2.5)],
    },
  ],
  [
    "began twice, with a kill of the runtime in the start of another instance",
    "p: no kill explains that it ran twice",
    { pod: succeeded, notes: beganTwice, kills: [kill("runtime", 2)], interrupted: [startOf("2", 1.5, 2.5)] },
  ],
  [
    "began twice, with a kill of the runtime in its creation",
    "p: no kill explains that it ran twice",
    {
      pod: succeeded,
      notes: beganTwice,
      kills: [kill("runtime", 2)],
      interrupted: [call(1.5, 2.5, { class: "create" })],
    },
  ],
  [
    "began twice, with a kill of the agent in its start",
    "p: no kill explains that it ran twice",
    { pod: succeeded, notes: beganTwice, kills: [kill("agent", 2)], failed: [startOf("1", 1.5, 2.5)] },
  ],
  [
    "began twice and was interrupted, with a kill in its first start",
    "p: no kill explains that it was interrupted",
    {
      ...{ pod: failedPod(137, "Error", undefined, "2026-01-01T00:00:05Z"), notes: [...noted, ...noted] },
      ...{ kills: [kill("runtime", 2)], interrupted: [startOf("1", 1.5, 2.5)] },
    },
  ],
])("a random pod that %s: %s", (_, outcome, { kills, hookFailures = [], notes, pod, ...calls }) => {
  const randomPod = { name: "p", kind: "once", pod: barePod("p"), isStatic: false, change: undefined } as const;
  const interruptions = { kills, hookFailures, calls: { ...noCalls, ...calls } };
  const verdict = judge(randomPod, { pod, notes, interruptions, runningInstances: new Map() });
  if (verdict.outcome === "reached") throw new Error("the pod reached its outcome");
  expect(verdict.outcome === "excused" ? verdict.rule : verdict.sentence.split(";")[0]).toBe(outcome);
});
