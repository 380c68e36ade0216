import { expect, test } from "bun:test";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { strategicMerge } from "../../../test/fakes/kube-patch.ts";
import { nodeSettings, observedMachine, observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import {
  afterNodeCreated,
  afterPatchAccepted,
  decideNodeReport,
  emptyNodeReportMemory,
  initialNode,
  type NodeReportMemory,
  reconcileNode,
} from "./node-report.ts";
import type { NodeSettings } from "./node-settings.ts";
import { type ObservedNode, unknownRuntime } from "./observed-node.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const second = 1000;

test("a Node is created from the configuration", () => {
  const print = (settings: Partial<NodeSettings>) => {
    const { metadata, spec } = initialNode(observedNode, { ...nodeSettings, ...settings }, start);
    return { ...metadata, ...spec };
  };
  const taint = { key: "example.com/role", value: "edge", effect: "NoSchedule" } as const;
  expect({
    "by default": print({}),
    "with everything": print({
      labels: { "example.com/a": "b", "kubernetes.io/hostname": "other" },
      registerWithTaints: [taint],
      providerID: "cloud://1",
      isCloudExternal: true,
      nodeIPs: ["192.0.2.1", "2001:db8::1"],
      enableControllerAttachDetach: false,
    }),
    "its address is left to the cloud": print({ isCloudExternal: true, nodeIPs: ["::"] }).annotations,
  }).toMatchInlineSnapshot(`
    {
      "by default": {
        "annotations": {
          "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        },
        "labels": {
          "beta.kubernetes.io/arch": "amd64",
          "beta.kubernetes.io/os": "linux",
          "kubernetes.io/arch": "amd64",
          "kubernetes.io/hostname": "node-a",
          "kubernetes.io/os": "linux",
        },
        "name": "node-a",
      },
      "its address is left to the cloud": {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
      },
      "with everything": {
        "annotations": {
          "alpha.kubernetes.io/provided-node-ip": "192.0.2.1,2001:db8::1",
        },
        "labels": {
          "beta.kubernetes.io/arch": "amd64",
          "beta.kubernetes.io/os": "linux",
          "example.com/a": "b",
          "kubernetes.io/arch": "amd64",
          "kubernetes.io/hostname": "other",
          "kubernetes.io/os": "linux",
        },
        "name": "node-a",
        "providerID": "cloud://1",
        "taints": [
          {
            "effect": "NoSchedule",
            "key": "example.com/role",
            "value": "edge",
          },
          {
            "effect": "NoSchedule",
            "key": "node.cloudprovider.kubernetes.io/uninitialized",
            "value": "true",
          },
        ],
      },
    }
  `);
});

test("an existing Node gets our fields and keeps the administrator's", () => {
  const existing: Node = {
    metadata: {
      name: "node-a",
      uid: "u",
      labels: {
        "kubernetes.io/hostname": "old",
        "kubernetes.io/arch": "arm64",
        team: "x",
        "node.kubernetes.io/instance-type": "m",
      },
      annotations: {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": "{}",
      },
    },
    spec: { taints: [{ key: "a", effect: "NoSchedule" }], unschedulable: true },
    status: {
      capacity: { cpu: "2", "hugepages-2Mi": "0", "hugepages-16Gi": "0", "example.com/dongle": "2" },
      allocatable: { cpu: "2", "hugepages-2Mi": "0", "hugepages-16Gi": "0", "example.com/dongle": "1" },
    },
  };
  const machine = { ...observedMachine, hugePages: [{ pageBytes: 2 ** 21, totalBytes: 0 }] };
  const settings = {
    ...nodeSettings,
    enableControllerAttachDetach: false,
    labels: {
      "topology.kubernetes.io/zone": "z1",
      "example.com/later": "is not set",
      "node.kubernetes.io/instance-type": "",
    },
    registerWithTaints: [{ key: "b", effect: "NoSchedule" }] as const,
  };
  expect(reconcileNode(existing, { ...observedNode, machine }, settings)).toMatchInlineSnapshot(`
    {
      "metadata": {
        "annotations": {
          "csi.volume.kubernetes.io/nodeid": "{}",
        },
        "labels": {
          "beta.kubernetes.io/arch": "amd64",
          "beta.kubernetes.io/os": "linux",
          "kubernetes.io/arch": "amd64",
          "kubernetes.io/hostname": "node-a",
          "kubernetes.io/os": "linux",
          "team": "x",
          "topology.kubernetes.io/zone": "z1",
        },
        "name": "node-a",
        "uid": "u",
      },
      "spec": {
        "taints": [
          {
            "effect": "NoSchedule",
            "key": "a",
          },
        ],
        "unschedulable": true,
      },
      "status": {
        "allocatable": {
          "cpu": "2",
          "example.com/dongle": "0",
          "hugepages-2Mi": "0",
        },
        "capacity": {
          "cpu": "2",
          "example.com/dongle": "0",
          "hugepages-2Mi": "0",
        },
      },
    }
  `);
});

const withUid = (node: Node, uid = "u1"): Node => ({ ...node, metadata: { ...node.metadata, uid } });

/** Successive decisions for a node and their results; `keep` is what the server makes of a patch. */
function createNodeRun(settings: NodeSettings = nodeSettings, keep: (node: Node) => Node = (same) => same) {
  const created = withUid(initialNode(observedNode, settings, start));
  const first = afterNodeCreated(created, settings, start, 0.5);
  const lines: string[] = [`created; ${first.events.map(({ reason }) => reason).join(" ")}`];
  let node: Node = created;
  let memory: NodeReportMemory = first.memory;
  return {
    decide(
      name: string,
      atMs: number,
      observed: Partial<ObservedNode> = {},
      change: (node: Node) => Node = (same) => same,
      random = 0.5,
    ) {
      node = change(node);
      const now = start + atMs;
      const decided = decideNodeReport(node, { ...observedNode, ...observed }, memory, settings, now, random);
      const { metadata = {}, status = {} } = (decided.patch ?? {}) as { metadata?: object; status?: object };
      const parts = [...Object.keys(metadata), ...Object.keys(status)].join(" ");
      const eventLines = decided.events.map(({ type, reason, message }) => `${type} ${reason} "${message}"`).join(", ");
      const again = decided.lookAgainAt - start;
      lines.push(
        `${atMs / second}s ${name}: ${decided.patch === undefined ? "nothing" : `report ${parts}`}; again at ${again / second}s${eventLines === "" ? "" : `; ${eventLines}`}`,
      );
      memory = decided.memory;
      if (decided.patch === undefined) return;
      node = keep(strategicMerge({ ...node }, decided.patch) as unknown as Node);
      memory = afterPatchAccepted(decided, node);
    },
    forget: (what: Partial<NodeReportMemory>) => {
      memory = { ...memory, ...what };
    },
    log: () => `\n${lines.join("\n")}\n`,
  };
}

test("a node is reported at once after an urgent change, later after others, and with events", () => {
  const runtime = { ...observedRuntime, isReady: false };
  const images = [{ id: "x", digests: [], tags: ["x:1"], sizeBytes: 1 }];
  const run = createNodeRun();
  run.decide("nothing has changed", 1 * second);
  run.decide("a new image", 4 * second, { images });
  run.decide("the image is not reported yet", 10 * second, { images });
  run.decide("the address has changed", 11 * second, { images, addresses: ["192.0.2.9"] });
  const settled = { images, addresses: ["192.0.2.9"] };
  run.decide("no further change", 12 * second, settled);
  run.decide("five minutes have passed", 311 * second, settled);
  run.decide("the runtime does not respond", 320 * second, {
    ...settled,
    runtime: { ...runtime, readyAt: start + 315 * second },
  });
  run.decide("the runtime is down", 345 * second, {
    ...settled,
    runtime: { ...runtime, readyAt: start + 315 * second },
  });
  run.decide("the runtime is back", 346 * second, settled, undefined, 0.99);
  run.decide("the clock is set back by five minutes", 46 * second, settled);
  run.decide("the clock continues from there", 47 * second, settled);
  run.decide("memory pressure starts", 48 * second, {
    ...settled,
    pressure: { memory: true, disk: false, pid: false },
  });
  expect(run.log()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    1s nothing has changed: nothing; again at 300s
    4s a new image: nothing; again at 10s
    10s the image is not reported yet: report conditions images; again at 310s
    11s the address has changed: report addresses conditions; again at 311s
    12s no further change: nothing; again at 311s
    311s five minutes have passed: report conditions; again at 611s
    320s the runtime does not respond: nothing; again at 345s
    345s the runtime is down: report conditions; again at 645s; Normal NodeNotReady "Node node-a status is now: NodeNotReady"
    346s the runtime is back: report conditions; again at 793s; Normal NodeReady "Node node-a status is now: NodeReady"
    46s the clock is set back by five minutes: report conditions; again at 346s
    47s the clock continues from there: nothing; again at 346s
    48s memory pressure starts: report conditions; again at 348s; Normal NodeHasInsufficientMemory "Node node-a status is now: NodeHasInsufficientMemory"
    "
  `);
});

test("changes that others make to the Node are reverted or kept", () => {
  const run = createNodeRun();
  const spec = (unschedulable: boolean) => (node: Node) => ({ ...node, spec: { ...node.spec, unschedulable } });
  run.decide("cordoned", 1 * second, {}, spec(true));
  run.decide("still cordoned", 2 * second);
  run.decide("uncordoned", 3 * second, {}, spec(false));
  run.decide("its capacity is overwritten, soon after a report", 4 * second, {}, (node) => ({
    ...node,
    status: { ...node.status, capacity: { cpu: "1" } },
  }));
  run.decide("the capacity is restored by the next report", 10 * second);
  run.decide("the control plane sets Ready to Unknown", 11 * second, {}, (node) => ({
    ...node,
    status: {
      ...node.status,
      conditions: node.status!.conditions!.map((each) => ({ ...each, status: "Unknown" as const })),
    },
  }));
  run.decide("its conditions are overwritten, soon after a report", 12 * second, {}, (node) => ({
    ...node,
    status: { ...node.status, conditions: [] },
  }));
  run.decide("the conditions are restored by the next report", 21 * second);
  run.decide("one of our labels is removed", 40 * second, {}, (node) => ({
    ...node,
    metadata: { name: "node-a", uid: "u1" },
  }));
  run.decide("the Node was replaced by one with devices", 42 * second, {}, (node) =>
    withUid(
      { ...node, status: { ...node.status, capacity: { ...node.status?.capacity, "example.com/x": "1" } } },
      "u2",
    ),
  );
  expect(run.log()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    1s cordoned: nothing; again at 300s; Normal NodeNotSchedulable "Node node-a status is now: NodeNotSchedulable"
    2s still cordoned: nothing; again at 300s
    3s uncordoned: nothing; again at 300s; Normal NodeSchedulable "Node node-a status is now: NodeSchedulable"
    4s its capacity is overwritten, soon after a report: nothing; again at 10s
    10s the capacity is restored by the next report: report capacity conditions; again at 310s
    11s the control plane sets Ready to Unknown: nothing; again at 20s
    12s its conditions are overwritten, soon after a report: nothing; again at 20s
    21s the conditions are restored by the next report: report conditions; again at 321s; Normal NodeHasSufficientMemory "Node node-a status is now: NodeHasSufficientMemory", Normal NodeHasNoDiskPressure "Node node-a status is now: NodeHasNoDiskPressure", Normal NodeHasSufficientPID "Node node-a status is now: NodeHasSufficientPID", Normal NodeReady "Node node-a status is now: NodeReady"
    40s one of our labels is removed: report labels conditions; again at 340s
    42s the Node was replaced by one with devices: report labels annotations allocatable capacity conditions; again at 342s
    "
  `);
});

test("fields that an older API server drops are sent once, and again after a change or when a report is due", () => {
  const run = createNodeRun(nodeSettings, (node) => {
    const { swap: _, ...nodeInfo } = node.status!.nodeInfo!;
    return { ...node, status: { ...node.status, nodeInfo } };
  });
  const machine = { ...observedMachine, swapBytes: 100 };
  const more = { ...observedMachine, swapBytes: 200 };
  run.decide("swap was added", 20 * second, { machine });
  run.decide("a moment later", 21 * second, { machine });
  run.decide("a minute later", 80 * second, { machine });
  run.decide("more swap was added", 90 * second, { machine: more });
  run.decide("the address has changed", 91 * second, { machine: more, addresses: ["192.0.2.9"] });
  run.decide("a minute later", 150 * second, { machine: more, addresses: ["192.0.2.9"] });
  run.decide("five minutes later", 391 * second, { machine: more, addresses: ["192.0.2.9"] });
  expect(run.log()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    20s swap was added: report conditions nodeInfo; again at 320s
    21s a moment later: nothing; again at 320s
    80s a minute later: nothing; again at 320s
    90s more swap was added: report conditions nodeInfo; again at 390s
    91s the address has changed: report addresses conditions nodeInfo; again at 391s
    150s a minute later: nothing; again at 391s
    391s five minutes later: report conditions nodeInfo; again at 691s
    "
  `);
});

test("a new agent reports at once, reconciles, and records a reboot", () => {
  const run = createNodeRun();
  const machine = { ...observedMachine, bootID: "another" };
  run.forget(emptyNodeReportMemory);
  run.decide("the first decision", 60 * second, { machine }, (node) => ({
    ...node,
    status: { ...node.status, capacity: { ...node.status?.capacity, "example.com/dongle": "1" } },
  }));
  run.decide("the next decision", 61 * second, { machine });
  expect(run.log()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    60s the first decision: report allocatable capacity conditions nodeInfo; again at 360s; Warning Rebooted "Node node-a has been rebooted, boot id: another"
    61s the next decision: nothing; again at 360s
    "
  `);
});

test("nodes that changed at the same time report at different times, once", () => {
  const again = [0, 0.25, 0.99].map((random) => {
    const created = withUid(initialNode(observedNode, nodeSettings, start));
    const { memory } = afterNodeCreated(created, nodeSettings, start, random);
    const { lookAgainAt } = decideNodeReport(created, observedNode, memory, nodeSettings, start + 1, 0);
    const due = decideNodeReport(created, observedNode, memory, nodeSettings, lookAgainAt, 0);
    return `${(lookAgainAt - start) / second}s, then ${(due.lookAgainAt - lookAgainAt) / second}s later`;
  });
  expect(again).toEqual(["150s, then 300s later", "225s, then 300s later", "447s, then 300s later"]);
});

test("decisions are total: a server may return a nearly empty object", () => {
  const bare: Node = { metadata: {}, spec: {} };
  const unobserved: ObservedNode = { ...observedNode, runtime: unknownRuntime, addresses: [], images: undefined };
  const { patch, events } = decideNodeReport(bare, unobserved, emptyNodeReportMemory, nodeSettings, start, 0);
  expect(Object.keys(patch?.["status"] ?? {}).length).toBeGreaterThan(3);
  expect(events.map(({ reason }) => reason)).toEqual([
    "NodeHasSufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
  ]);
});
