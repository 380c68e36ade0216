import { expect, test } from "bun:test";
import { nodeSettings, observedMachine, observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import { conditionEvent, nodeConditions, ownConditions } from "./node-conditions.ts";
import { machineCapacity } from "./node-resources.ts";
import { type ObservedNode, type ObservedRuntime, silentRuntime } from "./observed-node.ts";

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
const saying = (type: string, reason: string, message: string): Partial<ObservedRuntime> => ({
  conditions: (observedRuntime.conditions ?? []).map((condition) =>
    condition.type === type ? { ...condition, status: false, reason, message } : condition,
  ),
});

test("why a node is not ready", () => {
  const plugin = "Network plugin returns error: cni plugin not initialized";
  const { cpu: _, "ephemeral-storage": __, ...little } = capacity;
  const rows = {
    "all is well": ready({}),
    "the runtime was never heard": ready({ runtime: silentRuntime }),
    "the runtime has been silent for 29 s": ready(runtime({ isReady: false }), start + 29_000),
    "the runtime has been silent for 30 s": ready(runtime({ isReady: false }), start + 30_000),
    "it was heard long ago, and answers": ready({}, start + 3_600_000),
    "the network is not ready": ready(runtime(saying("NetworkReady", "NetworkPluginNotReady", plugin))),
    "the runtime says that it is not": ready(
      runtime({ ...saying("RuntimeReady", "Booting", "wait"), isReady: false }),
      start + 31_000,
    ),
    "the runtime has never been ready": ready(
      runtime({ ...saying("RuntimeReady", "Booting", "wait"), isReady: false, readyAt: undefined }),
    ),
    "the runtime says nothing of either": ready(runtime({ conditions: [] })),
    "the machine is being switched off": ready({ isShuttingDown: true }),
    "its capacity is not known": ready({}, start, little),
  };
  const told = Object.entries(rows).map(([name, text]) => `${name}:\n  ${text}`);
  expect(`\n${told.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    all is well:
      Ready=True KubeletReady: kubelet is posting ready status
    the runtime was never heard:
      Ready=False KubeletNotReady: [container runtime status check may not have completed yet, network state unknown]
    the runtime has been silent for 29 s:
      Ready=True KubeletReady: kubelet is posting ready status
    the runtime has been silent for 30 s:
      Ready=False KubeletNotReady: container runtime is down
    it was heard long ago, and answers:
      Ready=True KubeletReady: kubelet is posting ready status
    the network is not ready:
      Ready=False KubeletNotReady: container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized
    the runtime says that it is not:
      Ready=False KubeletNotReady: [container runtime is down, container runtime not ready: RuntimeReady=false reason:Booting message:wait]
    the runtime has never been ready:
      Ready=False KubeletNotReady: [container runtime status check may not have completed yet, container runtime not ready: RuntimeReady=false reason:Booting message:wait]
    the runtime says nothing of either:
      Ready=False KubeletNotReady: [container runtime not ready: <nil>, container runtime network not ready: <nil>]
    the machine is being switched off:
      Ready=False KubeletNotReady: node is shutting down
    its capacity is not known:
      Ready=False KubeletNotReady: missing node capacity for resources: cpu, ephemeral-storage
    "
  `);
});

test("conditions stand in the kubelet's order, keep others in their places, and change their time with their status alone", () => {
  const print = (node: ObservedNode, before: ReturnType<typeof nodeConditions>, seconds: number) =>
    nodeConditions(node, capacity, before, nodeSettings, start + seconds * 1000).map(
      ({ type, status, reason, lastHeartbeatTime, lastTransitionTime }) =>
        `${type}=${status} ${reason} since ${lastTransitionTime?.slice(14)} heard ${lastHeartbeatTime?.slice(14)}`,
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
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heard 00:10Z",
        "Ready=True KubeletReady since 00:00Z heard 00:10Z",
        "NetworkUnavailable=False RouteCreated since undefined heard undefined",
        "MemoryPressure=False KubeletHasSufficientMemory since 00:10Z heard 00:10Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:10Z heard 00:10Z",
      ],
      "at first": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:00Z heard 00:00Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:00Z heard 00:00Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heard 00:00Z",
        "Ready=True KubeletReady since 00:00Z heard 00:00Z",
      ],
      "called lost by the control plane": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:30Z heard 00:30Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:30Z heard 00:30Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:30Z heard 00:30Z",
        "Ready=True KubeletReady since 00:30Z heard 00:30Z",
      ],
      "ten seconds later": [
        "MemoryPressure=False KubeletHasSufficientMemory since 00:00Z heard 00:10Z",
        "DiskPressure=False KubeletHasNoDiskPressure since 00:00Z heard 00:10Z",
        "PIDPressure=False KubeletHasSufficientPID since 00:00Z heard 00:10Z",
        "Ready=True KubeletReady since 00:00Z heard 00:10Z",
      ],
      "under pressure": [
        "MemoryPressure=True KubeletHasInsufficientMemory since 00:20Z heard 00:20Z",
        "DiskPressure=True KubeletHasDiskPressure since 00:20Z heard 00:20Z",
        "PIDPressure=True KubeletHasInsufficientPID since 00:20Z heard 00:20Z",
        "Ready=True KubeletReady since 00:00Z heard 00:20Z",
      ],
    }
  `);
});

test("the words of pressure, and the events of a change", () => {
  const pressed = { ...observedNode, pressure: { memory: true, disk: true, pid: true } };
  const both = [observedNode, pressed].flatMap((node) => nodeConditions(node, capacity, [], nodeSettings, start));
  const told = both.map(
    ({ type, status, reason, message }) =>
      `${type}=${status} ${reason} ${JSON.stringify(message)} ${conditionEvent(type, status === "True", true)}`,
  );
  const unready = `never known and not ready: ${conditionEvent("Ready", false, false)}`;
  const rest = [
    `Ready=False ${conditionEvent("Ready", false, true)}`,
    unready,
    `of others: ${conditionEvent("X", true, true)}`,
  ];
  expect(`\n${[...told, ...rest].join("\n")}\n`).toMatchInlineSnapshot(`
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
