import { expect, test } from "bun:test";
import type { Node, NodeStatus } from "../../../proto/kubernetes/gen/types.ts";
import { nodeSettings, observedNode } from "../../../test/fakes/observed-node.ts";
import { differences, nodeStatusPatch } from "./node-patch.ts";
import { initialNode } from "./node-report.ts";

const start = Date.parse("2026-01-01T00:00:00Z");
const before = initialNode(observedNode, nodeSettings, start);
const changed = (status: Partial<NodeStatus>): Node => ({ ...before, status: { ...before.status, ...status } });

/** The patch without the conditions, which are in every patch. */
function patch(after: Node, of = before): string {
  const body = nodeStatusPatch(of, after, false);
  if (body === undefined) return "nothing";
  const { conditions: _, ...status } = body["status"] as Record<string, unknown>;
  return JSON.stringify({ ...body, status });
}

test("a patch has exactly the differences", () => {
  const { status = {} } = before;
  const conditions = status.conditions ?? [];
  const dual = [
    { type: "InternalIP", address: "192.0.2.1" },
    { type: "InternalIP", address: "2001:db8::1" },
    { type: "Hostname", address: "node-a" },
  ] as const;
  const lists = {
    declaredFeatures: ["A"],
    runtimeHandlers: [{ name: "runc" }],
    features: { supplementalGroupsPolicy: true },
  };
  const rows = {
    "nothing has changed": patch(before),
    "heartbeats alone": patch(changed({ conditions: conditions.map((each) => ({ ...each, lastHeartbeatTime: "x" })) })),
    "the conditions stand in another order": patch(changed({ conditions: conditions.toReversed() })),
    "a condition has changed": patch(
      changed({ conditions: conditions.map((each) => ({ ...each, status: "Unknown" })) }),
    ),
    "a second address": patch(changed({ addresses: dual })),
    "the first address": patch(changed({ addresses: dual }), changed({ addresses: [] })),
    "a resource more, one less, one different": patch(
      changed({ capacity: { ...status.capacity, cpu: "8", "example.com/x": "1" } }),
      changed({ capacity: { ...status.capacity, "hugepages-2Mi": "0" } }),
    ),
    "a new kernel, and swap": patch(
      changed({ nodeInfo: { ...status.nodeInfo!, kernelVersion: "7.0", swap: { capacity: 1 } } }),
    ),
    "swap is off": patch(before, changed({ nodeInfo: { ...status.nodeInfo!, swap: { capacity: 1 } } })),
    "lists are replaced whole": patch(changed({ ...lists, images: [] })),
    "lists of an earlier agent are removed": patch(before, changed(lists)),
    "a label of ours is wrong, another's stands": patch(
      { ...before, metadata: { ...before.metadata, labels: { "kubernetes.io/os": "linux", x: "y" } } },
      { ...before, metadata: { ...before.metadata, labels: { x: "y" } } },
    ),
    "an annotation of ours goes": patch(before, {
      ...before,
      metadata: { ...before.metadata, annotations: { ...before.metadata.annotations, a: "b" } },
    }),
  };
  const lines = Object.entries(rows).map(([name, text]) => `${name}:\n  ${text}`);
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing has changed:
      nothing
    heartbeats alone:
      nothing
    the conditions stand in another order:
      nothing
    a condition has changed:
      {"status":{}}
    a second address:
      {"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"},{"type":"InternalIP","address":"2001:db8::1"},{"type":"Hostname","address":"node-a"},{"$patch":"replace"}]}}
    the first address:
      {"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"},{"type":"InternalIP","address":"2001:db8::1"},{"type":"Hostname","address":"node-a"}]}}
    a resource more, one less, one different:
      {"status":{"capacity":{"cpu":"8","hugepages-2Mi":null,"example.com/x":"1"}}}
    a new kernel, and swap:
      {"status":{"nodeInfo":{"kernelVersion":"7.0","swap":{"capacity":1}}}}
    swap is off:
      {"status":{"nodeInfo":{"swap":null}}}
    lists are replaced whole:
      {"status":{"declaredFeatures":["A"],"features":{"supplementalGroupsPolicy":true},"images":[],"runtimeHandlers":[{"name":"runc"}]}}
    lists of an earlier agent are removed:
      {"status":{"declaredFeatures":["InPlacePodLevelResourcesVerticalScaling","RestartAllContainersOnContainerExits"],"features":null,"runtimeHandlers":[]}}
    a label of ours is wrong, another's stands:
      {"metadata":{"labels":{"kubernetes.io/os":"linux"}},"status":{}}
    an annotation of ours goes:
      {"metadata":{"annotations":{"a":null}},"status":{}}
    "
  `);
});

test("a report that is due has our conditions with their heartbeats, and no others", () => {
  const foreign = { type: "NetworkUnavailable", status: "False" } as const;
  const with_ = (conditions: NodeStatus["conditions"] = []) => changed({ conditions: [foreign, ...conditions] });
  const heartbeatTime = "2026-01-01T00:05:00Z";
  const later = before.status?.conditions?.map((each) => ({ ...each, lastHeartbeatTime: heartbeatTime }));
  const body = nodeStatusPatch(with_(before.status?.conditions), with_(later), true);
  const { conditions } = body!["status"] as { conditions: NonNullable<NodeStatus["conditions"]> };
  expect(conditions.map(({ type, lastHeartbeatTime }) => `${type} ${lastHeartbeatTime}`)).toEqual(
    ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map((type) => `${type} ${heartbeatTime}`),
  );
  expect(nodeStatusPatch(with_(before.status?.conditions), with_(later), false)).toBeUndefined();
});

test("a condition with another message alone is reported, so that it never names an old cause", () => {
  const notReady = (message: string) => changed({ conditions: [{ type: "Ready", status: "False", message }] });
  const body = nodeStatusPatch(notReady("no network configuration"), notReady("bridge is missing"), false);
  expect(body?.["status"]).toEqual({ conditions: [{ type: "Ready", status: "False", message: "bridge is missing" }] });
});

test("differences are total: a server may leave out everything", () => {
  const bare: Node = { metadata: { name: "node-a" }, spec: {} };
  expect([...differences(bare, bare)]).toEqual([]);
  expect([...differences(bare, before)].toSorted()).toMatchInlineSnapshot(`
    [
      "addresses",
      "allocatable",
      "annotations",
      "capacity",
      "conditions",
      "daemonEndpoints",
      "declaredFeatures",
      "images",
      "labels",
      "nodeInfo",
    ]
  `);
});
