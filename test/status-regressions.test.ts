import { expect, test } from "bun:test";
import type { ContainerState, ContainerStatus, Pod, PodCondition, PodStatus } from "../proto/kubernetes/gen/types.ts";
import { statusRegressions } from "./status-regressions.ts";

const running: ContainerState = { running: { startedAt: "2026-01-01T00:00:01Z" } };
const over = (exitCode: number): ContainerState => ({
  terminated: { exitCode, reason: exitCode === 0 ? "Completed" : "Error", startedAt: "2026-01-01T00:00:01Z" },
});
const endOf = (containerID: string): ContainerState => ({
  terminated: { exitCode: 4, reason: "Error", startedAt: "2026-01-01T00:00:02Z", containerID },
});
const spanning = (from: string, to: string): ContainerState => ({
  terminated: { exitCode: 0, startedAt: `2026-01-01T00:00:${from}Z`, finishedAt: `2026-01-01T00:00:${to}Z` },
});
const waiting: ContainerState = { waiting: { reason: "CrashLoopBackOff" } };

const container = (more: Partial<ContainerStatus> = {}): ContainerStatus => ({
  name: "a",
  image: "busybox:1",
  imageID: "",
  containerID: `containerd://a-${more.restartCount ?? 0}`,
  ready: (more.state ?? running).running !== undefined,
  restartCount: 0,
  state: running,
  ...more,
});
const both = (second: Partial<ContainerStatus>): PodStatus => ({
  containerStatuses: [container(), container({ name: "b", ...second })],
});
const init = (more: Partial<ContainerStatus>): PodStatus => ({ initContainerStatuses: [container(more)] });
const only = (more: Partial<ContainerStatus>): PodStatus => ({ containerStatuses: [container(more)] });
const condition = (more: Partial<PodCondition>): PodStatus => ({
  conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:05Z", ...more }],
});

const unready = condition({ status: "False", lastTransitionTime: "2026-01-01T00:00:06Z" });
/** A ready pod with a sidecar, or with the init container that is given. */
const withInit = (more: Partial<ContainerStatus>): PodStatus => ({
  ...condition({}),
  ...init({ name: "side", ...more }),
});

const regressions: readonly (readonly [what: string, before: PodStatus, after: PodStatus])[] = [
  ["phase", { phase: "Running" }, { phase: "Pending" }],
  ["phase", { phase: "Pending" }, {}],
  ["final phase", { phase: "Succeeded" }, { phase: "Failed" }],
  ["reason of the end", { phase: "Failed", reason: "Evicted" }, { phase: "Failed" }],
  ["start time", { startTime: "2026-01-01T00:00:00Z" }, { startTime: "2026-01-01T00:00:01Z" }],
  ["QoS class", { qosClass: "Burstable" }, { qosClass: "BestEffort" }],
  ["address", { podIP: "192.0.2.1", podIPs: [{ ip: "192.0.2.1" }] }, { podIP: "192.0.2.1" }],
  ["address", { podIP: "192.0.2.1" }, { podIP: "192.0.2.2" }],
  ["address", { hostIP: "192.0.2.1" }, {}],
  ["observed generation", { observedGeneration: 2 }, { observedGeneration: 1 }],
  ["being ready", condition({}), unready],
  ["being ready", withInit({}), { ...withInit({}), ...unready }],
  [
    "being ready",
    withInit({ name: "setup", ready: true, state: over(0) }),
    { ...withInit({ name: "setup", ready: false, state: over(0) }), ...unready },
  ],
  ["a: status", only({}), {}],
  ["b: restart count", both({ restartCount: 3 }), both({ restartCount: 0 })],
  ["b: container id", both({}), both({ containerID: "containerd://other" })],
  ["a: being running", init({}), init({ state: { waiting: { reason: "PodInitializing" } } })],
  ["a: start", only({}), only({ state: { running: { startedAt: "2026-01-01T00:00:02Z" } } })],
  ["b: end", both({ state: over(0) }), both({})],
  ["a: order of start and end", only({}), only({ state: spanning("05", "03") })],
  ["a: order of start and end", init({}), init({ restartCount: 1, lastState: spanning("05", "03") })],
  ["b: end", both({ state: over(3) }), both({ state: over(4) })],
  [
    "a: end",
    { ephemeralContainerStatuses: [container({ state: over(3) })] },
    { ephemeralContainerStatuses: [container()] },
  ],
  ["a: end", init({ state: over(3) }), init({ state: waiting, lastState: over(4) })],
  ["a: end before the last start", only({ state: over(3) }), only({ restartCount: 1, lastState: over(137) })],
  [
    "a: end before the last start",
    only({ state: over(3) }),
    only({ restartCount: 1, state: waiting, lastState: endOf("containerd://a-7") }),
  ],
  ["a: lastState after a restart", only({ state: over(3) }), only({ restartCount: 1 })],
  ["a: lastState after a restart", only({}), only({ restartCount: 2 })],
  [
    "a: lastState after a restart",
    only({ restartCount: 1, lastState: over(3) }),
    only({ restartCount: 3, lastState: {} }),
  ],
  ["a: lastState after a restart", only({ state: over(3) }), only({ restartCount: 1, state: over(4) })],
  ["b: lastState after a restart", both({}), both({ restartCount: 1, state: waiting })],
  ["a: last end", only({ restartCount: 1, lastState: over(3) }), only({ restartCount: 1, lastState: {} })],
  ["a: readiness", only({}), only({ ready: false })],
  ["a: having started", only({ started: true }), only({ started: false })],
  ["PodScheduled: condition", condition({ type: "PodScheduled" }), {}],
  ["Initialized: being true", condition({ type: "Initialized" }), condition({ type: "Initialized", status: "False" })],
  ["Ready: time of the change", condition({}), condition({ lastTransitionTime: "2026-01-01T00:00:06Z" })],
  [
    "ContainersReady: time of the change",
    condition({ type: "ContainersReady", status: "False" }),
    condition({ type: "ContainersReady", lastTransitionTime: "2026-01-01T00:00:04Z" }),
  ],
  ["Ready: observed generation", condition({ observedGeneration: 2 }), condition({ observedGeneration: 1 })],
];

const allowed: readonly (readonly [what: string, before: PodStatus, after: PodStatus])[] = [
  ["a first start", {}, { phase: "Running", ...only({}) }],
  ["an end after a start", { phase: "Running", ...only({}) }, { phase: "Failed", ...only({ state: over(3) }) }],
  ["a back-off after an end", only({ state: over(3) }), only({ state: waiting, lastState: over(3) })],
  ["a back-off after an end that was missed", only({}), only({ state: waiting, lastState: over(3) })],
  ["a restart", only({ state: over(3) }), only({ restartCount: 1, lastState: over(3) })],
  ["an end after a restart", only({ restartCount: 1, lastState: over(3) }), only({ restartCount: 1, state: over(4) })],
  ["a restart and an end", only({ state: over(3) }), only({ restartCount: 1, state: over(4), lastState: over(3) })],
  [
    "a back-off after the end of a next instance that was missed",
    only({ state: over(3) }),
    only({ restartCount: 1, state: waiting, lastState: endOf("containerd://a-1") }),
  ],
  ["an end that the runtime has seen before the start", only({}), only({ state: spanning("05", "04") })],
  ["two restarts of which one was missed", only({ state: over(3) }), only({ restartCount: 2, lastState: over(4) })],
  [
    "a pod that becomes unready because its container ended",
    { ...condition({}), ...only({}) },
    { ...unready, ...only({ state: over(3) }) },
  ],
  [
    "a pod that becomes unready with its sidecar",
    withInit({}),
    { ...withInit({ ready: false, state: over(1) }), ...unready },
  ],
];

const podOf = (status: PodStatus, deletionTimestamp?: string): Pod => ({
  metadata: { name: "web", ...(deletionTimestamp !== undefined && { deletionTimestamp }) },
  spec: {
    initContainers: [{ name: "side", restartPolicy: "Always" }, { name: "setup" }],
    containers: [],
  },
  status,
});
const regressionsOf = (before: PodStatus, after: PodStatus) =>
  statusRegressions(podOf(before), podOf(after)).map((line) => line.replace(/^web: (.*) regressed: .*$/, "$1"));

test.each(regressions)("a regression of the %s is reported: %j → %j", (what, before, after) => {
  expect(regressionsOf(before, after)).toEqual([what]);
});

test.each(allowed)("no regression is reported for %s", (_, before, after) => {
  expect(regressionsOf(before, after)).toEqual([]);
});

test("no regression is reported for a terminating pod that becomes unready", () => {
  const leaving = podOf(unready, "2026-01-01T00:00:06Z");
  expect(statusRegressions(podOf(condition({})), leaving)).toEqual([]);
});
