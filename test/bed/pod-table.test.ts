import { expect, test } from "bun:test";
import { describeSteps, isSettled, type PodRow, podTable } from "./pod-table.ts";

const pod: PodRow = {
  namespace: "default",
  name: "web-berth",
  phase: "Running",
  reason: "",
  ready: "1/1",
  restarts: 0,
  ip: "10.1.2.3",
  steps: [
    { what: "sandbox", ms: 81.7 },
    { what: "pull", container: "main", ms: 0.4 },
    { what: "start", container: "main", ms: 38.2 },
  ],
};

test("the table lines up and shows a reason in place of the phase", () => {
  const crashed = { ...pod, name: "crash", reason: "CrashLoopBackOff", ready: "0/1", restarts: 12, ip: "", steps: [] };
  expect(podTable([pod, crashed])).toBe(`\
POD        READY  STATE             RESTARTS  IP        START, MS A STEP
web-berth  1/1    Running           0         10.1.2.3  sandbox 82 · main: pull 0, start 38
crash      0/1    CrashLoopBackOff  12        -`);
});

test("steps are grouped by container in the order of their first step", () => {
  const steps = ["b", "a", "b"].map((container, at) => ({ what: `step${at}`, container, ms: at }));
  expect(describeSteps(steps)).toBe("b: step0 0, step2 2 · a: step1 1");
});

test.each<[string, Partial<PodRow>, boolean]>([
  ["all ready", {}, true],
  ["one of two ready", { ready: "1/2" }, false],
  ["nothing known of its containers", { ready: "0/0", phase: "Pending" }, false],
  ["waiting after a crash", { ready: "0/1", reason: "CrashLoopBackOff" }, true],
  ["cannot get its image", { ready: "0/1", phase: "Pending", reason: "ErrImagePull" }, false],
  ["done", { ready: "0/1", phase: "Succeeded", reason: "Completed" }, true],
  ["failed for good", { ready: "0/1", phase: "Failed" }, true],
])("a pod is settled or not: %s", (_, change, settled) => {
  expect(isSettled({ ...pod, ...change })).toBe(settled);
});
