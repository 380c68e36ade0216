import { expect, test } from "bun:test";
import type { ContainerId } from "../../../proto/ids.ts";
import type { ContainerStatus, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { previousStatusOf, previousStatusOfInstance } from "./previous-status.ts";

const container = (name: string, more: Partial<ContainerStatus> = {}): ContainerStatus => ({
  name,
  image: "i",
  imageID: "",
  ready: false,
  restartCount: 0,
  ...more,
});

test("a pod without a status has an empty one", () => {
  expect(previousStatusOf({})).toEqual({
    completion: undefined,
    startTime: undefined,
    containers: new Map(),
    conditions: new Map(),
  });
});

const phases: readonly [phase: PodStatus["phase"], completion: string | undefined][] = [
  ["Pending", undefined],
  ["Running", undefined],
  ["Unknown", undefined],
  ["Succeeded", "Succeeded"],
  ["Failed", "Failed"],
];
for (const [phase, completion] of phases)
  test(`the phase ${phase} ${completion === undefined ? "does not complete" : "completes"} a pod`, () => {
    expect(previousStatusOf({ status: { ...(phase && { phase }) } }).completion?.phase).toBe(completion as never);
  });

test("a completion has its reason and message, which may be empty", () => {
  const completionOf = (status: PodStatus) => previousStatusOf({ status }).completion;
  expect(completionOf({ phase: "Failed", reason: "Evicted", message: "low on memory" })).toEqual({
    phase: "Failed",
    reason: "Evicted",
    message: "low on memory",
  });
  expect(completionOf({ phase: "Succeeded" })).toEqual({ phase: "Succeeded", reason: "", message: "" });
});

test("containers of all kinds are found by name and by instance", () => {
  const status: PodStatus = {
    containerStatuses: [container("app", { containerID: "containerd://a1", restartCount: 3 })],
    initContainerStatuses: [container("init")],
    ephemeralContainerStatuses: [container("debug", { containerID: "cri-o://d1" })],
  };
  const previous = previousStatusOf({ status });
  expect([...previous.containers.keys()].toSorted()).toEqual(["app", "debug", "init"]);
  expect(previous.containers.get("app")?.restartCount).toBe(3);
  const nameOf = (id: string) => previousStatusOfInstance(previous, id as ContainerId)?.name;
  expect([nameOf("a1"), nameOf("d1"), nameOf("1"), nameOf("a2")]).toEqual(["app", "debug", undefined, undefined]);
});

test("a condition has its status and its last transition, if that is a time", () => {
  const { conditions } = previousStatusOf({
    status: {
      conditions: [
        { type: "Ready", status: "True", lastTransitionTime: "1970-01-01T00:00:05Z" },
        { type: "example.com/gate", status: "False" },
        { type: "Initialized", status: "True", lastTransitionTime: "yesterday" },
        { type: "Ready", status: "False" },
      ],
    },
  });
  expect(conditions.get("Ready")).toEqual({ status: "True", since: 5000 });
  expect(conditions.get("example.com/gate")).toEqual({ status: "False", since: undefined });
  expect(conditions.get("Initialized")).toEqual({ status: "True", since: undefined });
});
