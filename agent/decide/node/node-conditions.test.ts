import { expect, test } from "bun:test";
import { nodeSettings, observedMachine, observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import { conditionEvent, nodeConditions, ownConditions, runtimeProblemOf } from "./node-conditions.ts";
import { machineCapacity } from "./node-resources.ts";
import { type ObservedNode, type ObservedRuntime, unknownRuntime } from "./observed-node.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const capacity = machineCapacity(observedMachine, nodeSettings);

function ready(
  change: Partial<ObservedNode>,
  now = start,
  resources: Readonly<Record<string, string>> = capacity,
): string {
  const found = nodeConditions({ ...observedNode, ...change }, resources, [], nodeSettings, now).at(-1);
  return `${found?.type}=${found?.status} ${found?.reason}: ${found?.message}`;
}
const runtime = (change: Partial<ObservedRuntime>): Partial<ObservedNode> => ({
  runtime: { ...observedRuntime, ...change },
});
const shown = (name: "cgroupfs" | "systemd") => ({ name, isReported: false });
const saying = (type: string, reason: string, message: string): Partial<ObservedRuntime> => ({
  conditions: (observedRuntime.conditions ?? []).map((condition) =>
    condition.type === type ? { ...condition, status: false, reason, message } : condition,
  ),
});

test("the Ready condition has the kubelet's messages for each problem", () => {
  const plugin = "Network plugin returns error: cni plugin not initialized";
  const { cpu: _, "ephemeral-storage": __, ...little } = capacity;
  const rows = {
    "no problem": ready({}),
    "the runtime has never responded": ready({ runtime: unknownRuntime }),
    "the runtime has not responded for 29 s": ready(runtime({ isReady: false }), start + 29_000),
    "the runtime has not responded for 30 s": ready(runtime({ isReady: false }), start + 30_000),
    "the runtime was ready long ago, and responds": ready({}, start + 3_600_000),
    "the network is not ready": ready(runtime(saying("NetworkReady", "NetworkPluginNotReady", plugin))),
    "the runtime reports that it is not ready": ready(
      runtime({ ...saying("RuntimeReady", "Booting", "wait"), isReady: false }),
      start + 31_000,
    ),
    "the runtime has never been ready": ready(
      runtime({ ...saying("RuntimeReady", "Booting", "wait"), isReady: false, readyAt: undefined }),
    ),
    "the runtime reports no conditions": ready(runtime({ conditions: [] })),
    "the machine is shutting down": ready({ isShuttingDown: true }),
    "the runtime refuses every sandbox": ready({ ...runtime({ cgroupDriver: shown("systemd") }), ownCgroups: "none" }),
    "the capacity is unknown": ready({}, start, little),
  };
  const lines = Object.entries(rows).map(([name, text]) => `${name}:\n  ${text}`);
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    no problem:
      Ready=True KubeletReady: kubelet is posting ready status
    the runtime has never responded:
      Ready=False KubeletNotReady: [container runtime status check may not have completed yet, network state unknown]
    the runtime has not responded for 29 s:
      Ready=True KubeletReady: kubelet is posting ready status
    the runtime has not responded for 30 s:
      Ready=False KubeletNotReady: container runtime is down
    the runtime was ready long ago, and responds:
      Ready=True KubeletReady: kubelet is posting ready status
    the network is not ready:
      Ready=False KubeletNotReady: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized
    the runtime reports that it is not ready:
      Ready=False KubeletNotReady: [container runtime is down, container runtime not ready: RuntimeReady=false reason:Booting message:wait]
    the runtime has never been ready:
      Ready=False KubeletNotReady: [container runtime status check may not have completed yet, container runtime not ready: RuntimeReady=false reason:Booting message:wait]
    the runtime reports no conditions:
      Ready=False KubeletNotReady: [container runtime not ready: <nil>, container runtime network not ready: <nil>]
    the machine is shutting down:
      Ready=False KubeletNotReady: node is shutting down
    the runtime refuses every sandbox:
      Ready=False KubeletNotReady: the container runtime uses the cgroup driver systemd, which needs a slice for each pod, and cgroupsPerQOS is false, so no pod can start: set cgroupsPerQOS: true and restart this agent, or set SystemdCgroup = false in the runtime's configuration and restart the runtime
    the capacity is unknown:
      Ready=False KubeletNotReady: missing node capacity for resources: cpu, ephemeral-storage
    "
  `);
});

test("conditions are in the kubelet's order, keep others in their places, and change their time only with their status", () => {
  const print = (node: ObservedNode, before: ReturnType<typeof nodeConditions>, seconds: number) =>
    nodeConditions(node, capacity, before, nodeSettings, start + seconds * 1000).map(
      ({ type, status, reason, lastHeartbeatTime, lastTransitionTime }) =>
        `${type}=${status} ${reason} since ${lastTransitionTime?.slice(14)} heartbeat ${lastHeartbeatTime?.slice(14)}`,
    );
  const first = nodeConditions(observedNode, capacity, [], nodeSettings, start);
  const foreign = { type: "NetworkUnavailable", status: "False", reason: "RouteCreated" } as const;
  const pressed = { ...observedNode, pressure: { memory: true, disk: true, pid: true } };
  expect({
    "at first": print(observedNode, [], 0),
    "ten seconds later": print(observedNode, first, 10),
    "among those of others": print(observedNode, [...first.slice(2), foreign], 10),
    "under pressure": print(pressed, first, 20),
    "called lost by the control plane": print(
      observedNode,
      first.map((condition) => ({ ...condition, status: "Unknown" as const, reason: "NodeStatusUnknown" })),
      30,
    ),
  }).toMatchInlineSnapshot(`
    {
      "among those of others": [
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heartbeat 00:10Z",
        "Ready=True KubeletReady since 00:00Z heartbeat 00:10Z",
        "NetworkUnavailable=False RouteCreated since undefined heartbeat undefined",
        "MemoryPressure=False KubeletHasSufficientMemory since 00:10Z heartbeat 00:10Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:10Z heartbeat 00:10Z",
      ],
      "at first": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:00Z heartbeat 00:00Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:00Z heartbeat 00:00Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heartbeat 00:00Z",
        "Ready=True KubeletReady since 00:00Z heartbeat 00:00Z",
      ],
      "called lost by the control plane": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:30Z heartbeat 00:30Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:30Z heartbeat 00:30Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:30Z heartbeat 00:30Z",
        "Ready=True KubeletReady since 00:30Z heartbeat 00:30Z",
      ],
      "ten seconds later": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:00Z heartbeat 00:10Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:00Z heartbeat 00:10Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heartbeat 00:10Z",
        "Ready=True KubeletReady since 00:00Z heartbeat 00:10Z",
      ],
      "under pressure": [
        "MemoryPressure=True KubeletHasInsufficientMemory since 00:20Z heartbeat 00:20Z",
        "DiskPressure=True KubeletHasDiskPressure since 00:20Z heartbeat 00:20Z",
        "PIDPressure=True KubeletHasInsufficientPID since 00:20Z heartbeat 00:20Z",
        "Ready=True KubeletReady since 00:00Z heartbeat 00:20Z",
      ],
    }
  `);
});

const problems: readonly (readonly [
  sentence: string,
  change: Partial<ObservedRuntime>,
  problem: string | undefined,
  own?: Partial<ObservedNode>,
])[] = [
  ["a ready runtime", {}, undefined],
  ["a runtime that does not respond", { isReady: false, noResponse: "Status: no answer" }, "Status: no answer"],
  [
    "a runtime that reports that it is not ready",
    { ...saying("RuntimeReady", "Booting", "wait"), isReady: false },
    "RuntimeReady=false reason:Booting message:wait",
  ],
  ["a runtime without a network", saying("NetworkReady", "NetworkPluginNotReady", "no CNI"), undefined],
  ["a runtime before its first response", unknownRuntime, undefined],
  [
    "a runtime that puts containers elsewhere",
    { cgroupDriver: shown("cgroupfs") },
    undefined,
    { ownCgroups: "systemd" },
  ],
  [
    "a runtime that refuses every sandbox",
    { cgroupDriver: shown("systemd") },
    expect.stringContaining("no pod can start"),
    { ownCgroups: "cgroupfs" },
  ],
];
for (const [sentence, change, problem, own = {}] of problems)
  test(`the problem of ${sentence}`, () => {
    expect(runtimeProblemOf({ ...observedNode, ...runtime(change), ...own })).toEqual(problem);
  });

test("each pressure has the kubelet's messages, and each change the kubelet's event", () => {
  const pressed = { ...observedNode, pressure: { memory: true, disk: true, pid: true } };
  const both = [observedNode, pressed].flatMap((node) => nodeConditions(node, capacity, [], nodeSettings, start));
  const lines = both.map(
    ({ type, status, reason, message }) =>
      `${type}=${status} ${reason} ${JSON.stringify(message)} ${conditionEvent(type, status === "True", true)}`,
  );
  const unready = `never known and not ready: ${conditionEvent("Ready", false, false)}`;
  const rest = [
    `Ready=False ${conditionEvent("Ready", false, true)}`,
    unready,
    `of others: ${conditionEvent("X", true, true)}`,
  ];
  expect(`\n${[...lines, ...rest].join("\n")}\n`).toMatchInlineSnapshot(`
    "
    MemoryPressure=False KubeletHasSufficientMemory "kubelet has sufficient memory available" NodeHasSufficientMemory
    DiskPressure=False KubeletHasNoDiskPressure "kubelet has no disk pressure" NodeHasNoDiskPressure
    PIDPressure=False KubeletHasSufficientPID "kubelet has sufficient PID available" NodeHasSufficientPID
    Ready=True KubeletReady "kubelet is posting ready status" NodeReady
    MemoryPressure=True KubeletHasInsufficientMemory "kubelet has insufficient memory available" NodeHasInsufficientMemory
    DiskPressure=True KubeletHasDiskPressure "kubelet has disk pressure" NodeHasDiskPressure
    PIDPressure=True KubeletHasInsufficientPID "kubelet has insufficient PID available" NodeHasInsufficientPID
    Ready=True KubeletReady "kubelet is posting ready status" NodeReady
    Ready=False NodeNotReady
    never known and not ready: undefined
    of others: undefined
    "
  `);
  expect(ownConditions.at(-1)).toBe("Ready");
});

test("a mismatch of cgroup drivers is a condition from its first time on, and keeps its state while a side is unknown", () => {
  const print = (own: ObservedNode["ownCgroups"], driver: "cgroupfs" | "systemd" | undefined, before = conditions) => {
    const cgroupDriver = driver && shown(driver);
    const node = { ...observedNode, ...runtime({ cgroupDriver }), ownCgroups: own };
    conditions = nodeConditions(node, capacity, before, nodeSettings, start);
    const found = conditions.find(({ type }) => type === "CgroupDriverMismatch");
    return found && `${found.status} ${found.reason}: ${found.message}`;
  };
  let conditions: ReturnType<typeof nodeConditions> = [];
  expect(print("systemd", "systemd")).toBeUndefined();
  expect(print("systemd", "cgroupfs")).toStartWith("True CgroupDriverMismatch: the container runtime uses");
  expect(conditions.at(-1)?.type).toBe("CgroupDriverMismatch");
  expect(print("systemd", undefined)).toStartWith("True");
  expect(print(undefined, "systemd")).toStartWith("True");
  expect(print("systemd", "systemd")).toBe(
    "False CgroupDriversMatch: the container runtime uses the cgroup driver systemd, which fits this agent",
  );
});
