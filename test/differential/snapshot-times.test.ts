import { expect, test } from "bun:test";
import type { ContainerStatus, Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import { describeTimes } from "./snapshot-times.ts";

const at = (second: number) => `2026-01-01T10:00:0${second}Z`;
const idOf = (digit: string) => `containerd://${digit.repeat(64)}`;
const snapshot = (name: string, status: PodStatus) => {
  const pod: Pod = { metadata: { name: "p" }, spec: { containers: [] }, status };
  return { name, pod, takenAtMs: Date.parse(at(8)) };
};
const statusOf = (container: Partial<ContainerStatus>, startTime = at(1)): PodStatus => ({
  startTime,
  containerStatuses: [
    { name: "main", image: "i", imageID: "", ready: false, restartCount: 0, state: {}, ...container },
  ],
});
const describe = (status: PodStatus, before: PodStatus = { startTime: status.startTime ?? at(1) }) =>
  describeTimes(snapshot("gone", status), snapshot("settled", before));

const span = (startedAt: string, finishedAt: string, id = "a") => ({
  terminated: { exitCode: 0, startedAt, finishedAt, containerID: idOf(id) },
});
/** A container that runs, and what the status says of its start. */
const running = (startedAt: string, id = "b"): Partial<ContainerStatus> => ({
  containerID: idOf(id),
  state: { running: { startedAt } },
});
const never = "1970-01-01T00:00:00Z";

test.each<[expected: string, row: string]>([
  ["in order", describe(statusOf({ ...running(at(2)), lastState: span(at(1), at(2)) }))],
  ["in order", describe(statusOf(running(at(1))))],
  ["in order", describe(statusOf({ state: span(never, at(2)) }))],
  ["in order", describe(statusOf({ ...running(at(8)) }), statusOf(running(at(2), "a")))],
  [
    "in order",
    describe(statusOf({ containerID: idOf("b"), state: span(at(3), at(5), "b") }), statusOf(running(at(3)))),
  ],
  ["main has finished before it started", describe(statusOf({ state: span(at(3), at(2)) }))],
  ["main has started before its pod", describe(statusOf({ lastState: span(at(0), at(2)) }))],
  ["main has started before its pod", describe(statusOf(running(at(0))))],
  [
    "main has started before its last instance finished",
    describe(statusOf({ ...running(at(3)), lastState: span(at(1), at(4)) })),
  ],
  [
    "main has started before its last instance finished",
    describe(statusOf({ lastState: span(at(1), at(4), "a"), state: span(at(3), at(5), "b") })),
  ],
  ["main runs and has no start", describe(statusOf(running(never)))],
  ["main runs and has no start", describe(statusOf(running("0001-01-01T00:00:00Z")))],
  ["main runs and has no start", describe(statusOf({ state: { running: {} } }))],
  ["main has another start than before", describe(statusOf(running(at(4))), statusOf(running(at(3))))],
  [
    "main has another start than before",
    describe(statusOf({ ...running(at(6), "c"), lastState: span(at(4), at(5), "b") }), statusOf(running(at(3)))),
  ],
  ["the start of main is in the future", describe(statusOf(running(at(9))))],
  ["the end of main is in the future", describe(statusOf({ state: span(at(3), at(9)) }))],
  ["startTime is in the future", describe(statusOf({}, at(9)))],
  ["startTime has changed", describe(statusOf({}, at(2)), { startTime: at(1) })],
])("the row of times says: %s", (expected, row) => {
  expect(row).toBe(expected);
});

type Times = readonly [time: string, value?: "True" | "False"];
const conditionRow = (type: string, before: Times, now: Times, instance = "a") => {
  const withCondition = ([time, value = "True"]: Times, container: string): PodStatus => ({
    ...statusOf({ containerID: idOf(container) }, at(2)),
    conditions: [{ type, status: value, lastTransitionTime: time }],
  });
  return describe(withCondition(now, instance), withCondition(before, "a"));
};

test.each<[expected: string, row: string]>([
  ["in order", conditionRow("Ready", [at(3)], [at(3)])],
  ["in order", conditionRow("Ready", [at(3)], [at(4), "False"])],
  ["in order", conditionRow("Ready", [at(3)], [at(5)], "b")],
  ["in order", conditionRow("PodScheduled", [at(1)], [at(1)])],
  ["Ready is as before, at another time", conditionRow("Ready", [at(3)], [at(4)])],
  ["PodScheduled is as before, at another time", conditionRow("PodScheduled", [at(1)], [at(2)], "b")],
  ["Ready has changed before its last change", conditionRow("Ready", [at(4)], [at(3), "False"])],
  ["Ready has changed before the pod started", conditionRow("Ready", [at(1)], [at(1)])],
  ["Ready is in the future", conditionRow("Ready", [at(3)], [at(9), "False"])],
])("the row of times says of a condition: %s", (expected, row) => {
  expect(row).toBe(expected);
});

test("several faults of a status make one row", () => {
  expect(describe(statusOf({ ...running(at(0)), lastState: span(at(3), at(2)) }))).toBe(
    "main has finished before it started; main has started before its pod; main has started before its last instance finished",
  );
});
