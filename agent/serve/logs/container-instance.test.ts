import { expect, test } from "bun:test";
import type { ContainerStatus } from "../../../proto/kubernetes/gen/types.ts";
import { instanceWithLogs } from "./container-instance.ts";

const status = (state: Partial<ContainerStatus>): ContainerStatus => ({
  ...{ name: "c", image: "i", imageID: "", ready: false, restartCount: 0 },
  ...state,
});
const terminated = (containerID?: string) => ({ terminated: { exitCode: 1, ...(containerID && { containerID }) } });
const running = { running: { startedAt: "2026-01-01T00:00:00Z" } };
const waiting = (reason: string) => ({ waiting: { reason } });

const rows: readonly (readonly [
  sentence: string,
  found: Partial<ContainerStatus>,
  previous: boolean,
  result: string,
])[] = [
  ["a running container", { state: running, containerID: "containerd://a" }, false, "a"],
  ["an ended one", { state: terminated("containerd://a") }, false, "a"],
  ["one that ended without an instance", { state: terminated(), lastState: terminated("containerd://b") }, false, "b"],
  ["one that never ran", { state: terminated() }, false, 'container "c" in pod "p" is terminated'],
  ["one that backs off", { state: waiting("CrashLoopBackOff"), lastState: terminated("containerd://b") }, false, "b"],
  [
    "one that lost its last instance",
    { state: waiting("x"), lastState: terminated() },
    false,
    'container "c" in pod "p" is terminated',
  ],
  [
    "one that is created",
    { state: waiting("ContainerCreating") },
    false,
    'container "c" in pod "p" is waiting to start: ContainerCreating',
  ],
  [
    "a failed pull",
    { state: waiting("ErrImagePull") },
    false,
    `container "c" in pod "p" is waiting to start: image can't be pulled`,
  ],
  [
    "a pull that backs off",
    { state: waiting("ImagePullBackOff") },
    false,
    'container "c" in pod "p" is waiting to start: trying and failing to pull image',
  ],
  ["one without a state", {}, false, 'container "c" in pod "p" is waiting to start - no logs yet'],
  [
    "the instance before",
    { state: running, containerID: "containerd://a", lastState: terminated("containerd://b") },
    true,
    "b",
  ],
  [
    "no instance before",
    { state: running, containerID: "containerd://a" },
    true,
    'previous terminated container "c" in pod "p" not found',
  ],
];
for (const [sentence, found, previous, result] of rows)
  test(`the log of ${sentence}`, () => {
    const kinds = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] as const;
    for (const kind of kinds) {
      const instance = instanceWithLogs("p", { [kind]: [status({ ...found })] }, "c", previous);
      expect("problem" in instance ? instance.problem : String(instance.id)).toBe(result);
    }
  });

test("a container that the status does not have yet", () => {
  expect(instanceWithLogs("p", undefined, "c", false)).toEqual({
    problem: 'container "c" in pod "p" is not available',
  });
});
