import { expect, test } from "bun:test";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { strategicMerge } from "../../../test/fakes/kube-patch.ts";
import { nodeSettings, observedMachine, observedNode, observedRuntime } from "../../../test/fakes/observed-node.ts";
import {
  answeredNode,
  createdNode,
  decideNode,
  emptyNodeMemory,
  initialNode,
  type NodeMemory,
  reconcileNode,
} from "./node-report.ts";
import type { NodeSettings } from "./node-settings.ts";
import { type ObservedNode, silentRuntime } from "./observed-node.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const second = 1000;

test("a Node is created with what the configuration says of it", () => {
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

test("a Node that was there before gets what is ours, and keeps what is its administrator's", () => {
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

/** One look after the other at a node, and what comes of each; `keep` is what the server makes of what it is told. */
function createStory(settings: NodeSettings = nodeSettings, keep: (node: Node) => Node = (same) => same) {
  const created = withUid(initialNode(observedNode, settings, start));
  const first = createdNode(created, settings, start, 0.5);
  const lines: string[] = [`created; ${first.events.map(({ reason }) => reason).join(" ")}`];
  let node: Node = created;
  let memory: NodeMemory = first.memory;
  return {
    look(
      name: string,
      atMs: number,
      observed: Partial<ObservedNode> = {},
      change: (node: Node) => Node = (same) => same,
      chance = 0.5,
    ) {
      node = change(node);
      const now = start + atMs;
      const decided = decideNode(node, { ...observedNode, ...observed }, memory, settings, now, chance);
      const { metadata = {}, status = {} } = (decided.patch ?? {}) as { metadata?: object; status?: object };
      const parts = [...Object.keys(metadata), ...Object.keys(status)].join(" ");
      const told = decided.events.map(({ type, reason, message }) => `${type} ${reason} "${message}"`).join(", ");
      const again = decided.lookAgainAt - start;
      lines.push(
        `${atMs / second}s ${name}: ${decided.patch === undefined ? "nothing" : `report ${parts}`}; again at ${again / second}s${told === "" ? "" : `; ${told}`}`,
      );
      memory = decided.memory;
      if (decided.patch === undefined) return;
      node = keep(strategicMerge({ ...node }, decided.patch) as unknown as Node);
      memory = answeredNode(decided, node);
    },
    forget: (what: Partial<NodeMemory>) => {
      memory = { ...memory, ...what };
    },
    tell: () => `\n${lines.join("\n")}\n`,
  };
}

test("when the node is reported, and what is told of it", () => {
  const runtime = { ...observedRuntime, isReady: false };
  const images = [{ id: "x", digests: [], tags: ["x:1"], sizeBytes: 1 }];
  const story = createStory();
  story.look("nothing has changed", 1 * second);
  story.look("an image has come", 4 * second, { images });
  story.look("the image is still to be told", 10 * second, { images });
  story.look("the address is another", 11 * second, { images, addresses: ["192.0.2.9"] });
  const settled = { images, addresses: ["192.0.2.9"] };
  story.look("nothing more", 12 * second, settled);
  story.look("five minutes have passed", 311 * second, settled);
  story.look("the runtime is silent", 320 * second, {
    ...settled,
    runtime: { ...runtime, readyAt: start + 315 * second },
  });
  story.look("the runtime is down", 345 * second, {
    ...settled,
    runtime: { ...runtime, readyAt: start + 315 * second },
  });
  story.look("the runtime is back", 346 * second, settled, undefined, 0.99);
  story.look("the clock is set back by five minutes", 46 * second, settled);
  story.look("and goes on from there", 47 * second, settled);
  story.look("memory runs short", 48 * second, { ...settled, pressure: { memory: true, disk: false, pid: false } });
  expect(story.tell()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    1s nothing has changed: nothing; again at 300s
    4s an image has come: nothing; again at 10s
    10s the image is still to be told: report conditions images; again at 310s
    11s the address is another: report addresses conditions; again at 311s
    12s nothing more: nothing; again at 311s
    311s five minutes have passed: report conditions; again at 611s
    320s the runtime is silent: nothing; again at 345s
    345s the runtime is down: report conditions; again at 645s; Normal NodeNotReady "Node node-a status is now: NodeNotReady"
    346s the runtime is back: report conditions; again at 793s; Normal NodeReady "Node node-a status is now: NodeReady"
    46s the clock is set back by five minutes: report conditions; again at 346s
    47s and goes on from there: nothing; again at 346s
    48s memory runs short: report conditions; again at 348s; Normal NodeHasInsufficientMemory "Node node-a status is now: NodeHasInsufficientMemory"
    "
  `);
});

test("what others do to the node", () => {
  const story = createStory();
  const spec = (unschedulable: boolean) => (node: Node) => ({ ...node, spec: { ...node.spec, unschedulable } });
  story.look("cordoned", 1 * second, {}, spec(true));
  story.look("still cordoned", 2 * second);
  story.look("uncordoned", 3 * second, {}, spec(false));
  story.look("its capacity is overwritten, soon after a report", 4 * second, {}, (node) => ({
    ...node,
    status: { ...node.status, capacity: { cpu: "1" } },
  }));
  story.look("and is put right with the next", 10 * second);
  story.look("called lost by the control plane", 11 * second, {}, (node) => ({
    ...node,
    status: {
      ...node.status,
      conditions: node.status!.conditions!.map((each) => ({ ...each, status: "Unknown" as const })),
    },
  }));
  story.look("its conditions are overwritten, soon after a report", 12 * second, {}, (node) => ({
    ...node,
    status: { ...node.status, conditions: [] },
  }));
  story.look("and are put right with the next", 21 * second);
  story.look("a label of ours is taken away", 40 * second, {}, (node) => ({
    ...node,
    metadata: { name: "node-a", uid: "u1" },
  }));
  story.look("another object has its name, and its devices are not ours", 42 * second, {}, (node) =>
    withUid(
      { ...node, status: { ...node.status, capacity: { ...node.status?.capacity, "example.com/x": "1" } } },
      "u2",
    ),
  );
  expect(story.tell()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    1s cordoned: nothing; again at 300s; Normal NodeNotSchedulable "Node node-a status is now: NodeNotSchedulable"
    2s still cordoned: nothing; again at 300s
    3s uncordoned: nothing; again at 300s; Normal NodeSchedulable "Node node-a status is now: NodeSchedulable"
    4s its capacity is overwritten, soon after a report: nothing; again at 10s
    10s and is put right with the next: report capacity conditions; again at 310s
    11s called lost by the control plane: nothing; again at 20s
    12s its conditions are overwritten, soon after a report: nothing; again at 20s
    21s and are put right with the next: report conditions; again at 321s; Normal NodeHasSufficientMemory "Node node-a status is now: NodeHasSufficientMemory", Normal NodeHasNoDiskPressure "Node node-a status is now: NodeHasNoDiskPressure", Normal NodeHasSufficientPID "Node node-a status is now: NodeHasSufficientPID", Normal NodeReady "Node node-a status is now: NodeReady"
    40s a label of ours is taken away: report labels conditions; again at 340s
    42s another object has its name, and its devices are not ours: report labels annotations allocatable capacity conditions; again at 342s
    "
  `);
});

test("what an API server of an older release does not keep is sent once, and again when it is another or a report is due", () => {
  const story = createStory(nodeSettings, (node) => {
    const { swap: _, ...nodeInfo } = node.status!.nodeInfo!;
    return { ...node, status: { ...node.status, nodeInfo } };
  });
  const machine = { ...observedMachine, swapBytes: 100 };
  const more = { ...observedMachine, swapBytes: 200 };
  story.look("there is swap", 20 * second, { machine });
  story.look("a moment later", 21 * second, { machine });
  story.look("a minute later", 80 * second, { machine });
  story.look("there is more of it", 90 * second, { machine: more });
  story.look("the address is another", 91 * second, { machine: more, addresses: ["192.0.2.9"] });
  story.look("a minute later", 150 * second, { machine: more, addresses: ["192.0.2.9"] });
  story.look("five minutes later", 391 * second, { machine: more, addresses: ["192.0.2.9"] });
  expect(story.tell()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    20s there is swap: report conditions nodeInfo; again at 320s
    21s a moment later: nothing; again at 320s
    80s a minute later: nothing; again at 320s
    90s there is more of it: report conditions nodeInfo; again at 390s
    91s the address is another: report addresses conditions nodeInfo; again at 391s
    150s a minute later: nothing; again at 391s
    391s five minutes later: report conditions nodeInfo; again at 691s
    "
  `);
});

test("a new agent reports at once, reconciles, and tells of a reboot", () => {
  const story = createStory();
  const machine = { ...observedMachine, bootID: "another" };
  story.forget(emptyNodeMemory);
  story.look("the first look", 60 * second, { machine }, (node) => ({
    ...node,
    status: { ...node.status, capacity: { ...node.status?.capacity, "example.com/dongle": "1" } },
  }));
  story.look("the next", 61 * second, { machine });
  expect(story.tell()).toMatchInlineSnapshot(`
    "
    created; NodeHasSufficientMemory NodeHasNoDiskPressure NodeHasSufficientPID NodeReady
    60s the first look: report allocatable capacity conditions nodeInfo; again at 360s; Warning Rebooted "Node node-a has been rebooted, boot id: another"
    61s the next: nothing; again at 360s
    "
  `);
});

test("the reports of nodes that changed together are spread, once", () => {
  const again = [0, 0.25, 0.99].map((chance) => {
    const created = withUid(initialNode(observedNode, nodeSettings, start));
    const { memory } = createdNode(created, nodeSettings, start, chance);
    const { lookAgainAt } = decideNode(created, observedNode, memory, nodeSettings, start + 1, 0);
    const due = decideNode(created, observedNode, memory, nodeSettings, lookAgainAt, 0);
    return `${(lookAgainAt - start) / second}s, then ${(due.lookAgainAt - lookAgainAt) / second}s later`;
  });
  expect(again).toEqual(["150s, then 300s later", "225s, then 300s later", "447s, then 300s later"]);
});

test("decisions are total: a server may answer with next to nothing", () => {
  const bare: Node = { metadata: {}, spec: {} };
  const blind: ObservedNode = { ...observedNode, runtime: silentRuntime, addresses: [], images: undefined };
  const { patch, events } = decideNode(bare, blind, emptyNodeMemory, nodeSettings, start, 0);
  expect(Object.keys(patch?.["status"] ?? {}).length).toBeGreaterThan(3);
  expect(events.map(({ reason }) => reason)).toEqual([
    "NodeHasSufficientMemory",
    "NodeHasNoDiskPressure",
    "NodeHasSufficientPID",
  ]);
});
