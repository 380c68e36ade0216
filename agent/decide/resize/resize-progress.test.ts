import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { allocationOf, type PodAllocation } from "./allocation.ts";
import { type Actuation, resizeConditions, withActuation, withVerdict } from "./resize-progress.ts";
import type { ResizeVerdict } from "./resize-verdict.ts";

const podOf = (generation: number, cpu: string): Pod => ({
  metadata: { name: "web", generation },
  spec: {
    initContainers: [{ name: "init", resources: { requests: { memory: "1Mi", cpu: "10m" }, limits: { cpu: "1" } } }],
    containers: [{ name: "app", resources: { requests: { cpu } } }, { name: "plain" }],
  },
});

type Change = readonly [at: number, pod: Pod, what: ResizeVerdict | Actuation];

const isActuation = (what: Change[2]): what is Actuation => ["complete", "inProgress", "error"].includes(what.kind);

/** Prints what happens to a pod that was admitted with one CPU: the events and the conditions after each change. */
function play(steps: readonly Change[]): string {
  let allocation: PodAllocation = allocationOf(podOf(1, "1"));
  const lines = steps.flatMap(([at, pod, what]) => {
    const progress = isActuation(what)
      ? withActuation(pod, allocation, what, at)
      : withVerdict(pod, allocation, what, at);
    allocation = progress.allocation;
    return [
      `${at} ${what.kind}${"message" in what ? ` (${what.message})` : ""}`,
      ...progress.events.map(({ type, reason, message }) => `  event ${type} ${reason}: ${message}`),
      ...resizeConditions(allocation).map(
        ({ type, reason, message, observedGeneration, since }) =>
          `  ${type} ${reason ?? "-"}${message === undefined ? "" : ` "${message}"`} of ${observedGeneration} since ${since}`,
      ),
    ];
  });
  return `\n${lines.join("\n")}\n`;
}

const noRoom = (used: number) =>
  ({ kind: "Deferred", message: `Node didn't have enough resource: cpu, used: ${used}` }) as const;

test("a resize that is accepted at once", () => {
  const pod = podOf(2, "2");
  expect(
    play([
      [10, pod, { kind: "accepted" }],
      [11, pod, { kind: "inProgress" }],
      [12, pod, { kind: "none" }],
      [13, pod, { kind: "complete" }],
      [14, pod, { kind: "complete" }],
    ]),
  ).toMatchInlineSnapshot(`
    "
    10 accepted
      event Normal ResizeStarted: Pod resize started: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}},{"name":"plain","resources":{}}],"generation":2}
      PodResizeInProgress - of 2 since 10
    11 inProgress
      PodResizeInProgress - of 2 since 10
    12 none
      PodResizeInProgress - of 2 since 10
    13 complete
      event Normal ResizeCompleted: Pod resize completed: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}},{"name":"plain","resources":{}}],"generation":2}
    14 complete
    "
  `);
});

test("a resize is Deferred, then Infeasible, then withdrawn", () => {
  expect(
    play([
      [10, podOf(2, "3"), noRoom(1)],
      [20, podOf(2, "3"), noRoom(2)],
      [30, podOf(3, "4"), noRoom(2)],
      [40, podOf(3, "4"), { kind: "wait" }],
      [50, podOf(4, "9"), { kind: "Infeasible", message: "<too much>" }],
      [60, podOf(4, "9"), { kind: "Infeasible", message: "<too much>" }],
      [70, podOf(5, "1"), { kind: "none" }],
    ]),
  ).toMatchInlineSnapshot(`
    "
    10 Deferred (Node didn't have enough resource: cpu, used: 1)
      event Warning ResizeDeferred: Pod resize Deferred: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}},{"name":"plain","resources":{}}],"generation":2,"error":"Node didn't have enough resource: cpu, used: 1"}
      PodResizePending Deferred "Node didn't have enough resource: cpu, used: 1" of 2 since 10
    20 Deferred (Node didn't have enough resource: cpu, used: 2)
      PodResizePending Deferred "Node didn't have enough resource: cpu, used: 2" of 2 since 10
    30 Deferred (Node didn't have enough resource: cpu, used: 2)
      event Warning ResizeDeferred: Pod resize Deferred: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"4"}}},{"name":"plain","resources":{}}],"generation":3,"error":"Node didn't have enough resource: cpu, used: 2"}
      PodResizePending Deferred "Node didn't have enough resource: cpu, used: 2" of 3 since 10
    40 wait
      PodResizePending Deferred "Node didn't have enough resource: cpu, used: 2" of 3 since 10
    50 Infeasible (<too much>)
      event Warning ResizeInfeasible: Pod resize Infeasible: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"9"}}},{"name":"plain","resources":{}}],"generation":4,"error":"\\u003ctoo much\\u003e"}
      PodResizePending Infeasible "<too much>" of 4 since 50
    60 Infeasible (<too much>)
      PodResizePending Infeasible "<too much>" of 4 since 50
    70 none
    "
  `);
});

test("an error stays until the resize is complete, and another resize replaces it", () => {
  const [second, third] = [podOf(2, "2"), podOf(3, "3")];
  expect(
    play([
      [10, second, { kind: "accepted" }],
      [11, second, { kind: "error", message: "the runtime refuses" }],
      [12, second, { kind: "error", message: "the runtime refuses" }],
      [13, second, { kind: "error", message: "the kernel refuses" }],
      [14, second, { kind: "inProgress" }],
      [15, third, noRoom(1)],
      [16, third, { kind: "accepted" }],
      [17, third, { kind: "error", message: "the runtime refuses" }],
      [18, third, { kind: "complete" }],
    ]),
  ).toMatchInlineSnapshot(`
    "
    10 accepted
      event Normal ResizeStarted: Pod resize started: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}},{"name":"plain","resources":{}}],"generation":2}
      PodResizeInProgress - of 2 since 10
    11 error (the runtime refuses)
      event Warning ResizeError: Pod resize error: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}},{"name":"plain","resources":{}}],"generation":2,"error":"the runtime refuses"}
      PodResizeInProgress Error "the runtime refuses" of 2 since 11
    12 error (the runtime refuses)
      PodResizeInProgress Error "the runtime refuses" of 2 since 11
    13 error (the kernel refuses)
      event Warning ResizeError: Pod resize error: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"2"}}},{"name":"plain","resources":{}}],"generation":2,"error":"the kernel refuses"}
      PodResizeInProgress Error "the kernel refuses" of 2 since 11
    14 inProgress
      PodResizeInProgress Error "the kernel refuses" of 2 since 11
    15 Deferred (Node didn't have enough resource: cpu, used: 1)
      event Warning ResizeDeferred: Pod resize Deferred: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}},{"name":"plain","resources":{}}],"generation":3,"error":"Node didn't have enough resource: cpu, used: 1"}
      PodResizePending Deferred "Node didn't have enough resource: cpu, used: 1" of 3 since 15
      PodResizeInProgress Error "the kernel refuses" of 2 since 11
    16 accepted
      event Normal ResizeStarted: Pod resize started: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}},{"name":"plain","resources":{}}],"generation":3}
      PodResizeInProgress - of 3 since 16
    17 error (the runtime refuses)
      event Warning ResizeError: Pod resize error: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}},{"name":"plain","resources":{}}],"generation":3,"error":"the runtime refuses"}
      PodResizeInProgress Error "the runtime refuses" of 3 since 17
    18 complete
      event Normal ResizeCompleted: Pod resize completed: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"3"}}},{"name":"plain","resources":{}}],"generation":3}
    "
  `);
});

test("a pod that runs with other resources than the record has is resized without a verdict", () => {
  expect(
    play([
      [10, podOf(7, "1"), { kind: "inProgress" }],
      [11, podOf(7, "1"), { kind: "complete" }],
    ]),
  ).toMatchInlineSnapshot(`
    "
    10 inProgress
      PodResizeInProgress - of 7 since 10
    11 complete
      event Normal ResizeCompleted: Pod resize completed: {"initContainers":[{"name":"init","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"10m","memory":"1Mi"}}}],"containers":[{"name":"app","resources":{"requests":{"cpu":"1"}}},{"name":"plain","resources":{}}],"generation":7}
    "
  `);
});

test("what the runtime has accepted outlasts an error and another resize, until the resize is complete", () => {
  const sandboxLimits = { cpuWeight: 39, cpuMax: { quotaUs: "max", periodUs: 100_000 }, memoryMax: "max" } as const;
  const [second, third] = [podOf(2, "2"), podOf(3, "3")];
  const started = { generation: 2, since: 10, sandboxLimits };
  const inProgress: PodAllocation = { ...allocationOf(second), started };
  const failed = withActuation(second, inProgress, { kind: "error", message: "no" }, 11).allocation;
  expect(failed.started).toEqual({ generation: 2, since: 11, error: "no", sandboxLimits });
  const replaced = withVerdict(third, failed, { kind: "accepted" }, 12).allocation;
  expect(replaced.started).toEqual({ generation: 3, since: 12, sandboxLimits });
  expect(withActuation(third, replaced, { kind: "complete" }, 13).allocation.started).toBeUndefined();
});
