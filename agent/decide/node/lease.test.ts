import { expect, test } from "bun:test";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { leaseOf, renewAfterMs } from "./lease.ts";

const settings = { nodeName: "node-a", nodeLeaseDurationSeconds: 40 };
const now = Date.parse("2026-01-01T00:00:00.250Z");

test("the Node owns its new lease", () => {
  expect(leaseOf(settings, "u1", undefined, now)).toMatchInlineSnapshot(`
    {
      "apiVersion": "coordination.k8s.io/v1",
      "kind": "Lease",
      "metadata": {
        "name": "node-a",
        "namespace": "kube-node-lease",
        "ownerReferences": [
          {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "node-a",
            "uid": "u1",
          },
        ],
      },
      "spec": {
        "holderIdentity": "node-a",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T00:00:00.250000Z",
      },
    }
  `);
});

test("a renewal changes only our fields", () => {
  const known = leaseOf(settings, "u1", undefined, now);
  const current = {
    ...known,
    metadata: {
      ...known.metadata,
      resourceVersion: "7",
      labels: { a: "b" },
      ownerReferences: [
        { apiVersion: "v1", kind: "Node", name: "node-a", uid: "u0" },
        { apiVersion: "x/v1", kind: "X", name: "x", uid: "x" },
      ],
    },
    spec: { ...known.spec, holderIdentity: "somebody", leaseDurationSeconds: 10, leaseTransitions: 3, later: "field" },
  };
  expect(leaseOf(settings, "u1", current as Lease, now + 10_000)).toMatchInlineSnapshot(`
    {
      "apiVersion": "coordination.k8s.io/v1",
      "kind": "Lease",
      "metadata": {
        "labels": {
          "a": "b",
        },
        "name": "node-a",
        "namespace": "kube-node-lease",
        "ownerReferences": [
          {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "node-a",
            "uid": "u1",
          },
          {
            "apiVersion": "x/v1",
            "kind": "X",
            "name": "x",
            "uid": "x",
          },
        ],
        "resourceVersion": "7",
      },
      "spec": {
        "holderIdentity": "node-a",
        "later": "field",
        "leaseDurationSeconds": 40,
        "leaseTransitions": 3,
        "renewTime": "2026-01-01T00:00:10.250000Z",
      },
    }
  `);
});

test("each renewal is later than the one before it, whatever the clock shows", () => {
  const before = (renewTime: string | undefined): Lease => {
    const lease = leaseOf(settings, "u1", undefined, now);
    return { ...lease, spec: { ...lease.spec, ...(renewTime === undefined ? {} : { renewTime }) } };
  };
  const rows = {
    "ten seconds ago": "2025-12-31T23:59:50.250000Z",
    "in this very millisecond": "2026-01-01T00:00:00.250999Z",
    "in an hour: the clock was set back": "2026-01-01T01:00:00.000001Z",
    "never to be surpassed": "9999-12-31T23:59:59.999999Z",
    "a malformed time": "soon",
  };
  const lines = Object.entries(rows).map(
    ([name, time]) => `${name}: ${time} → ${leaseOf(settings, "u1", before(time), now).spec.renewTime}`,
  );
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    ten seconds ago: 2025-12-31T23:59:50.250000Z → 2026-01-01T00:00:00.250000Z
    in this very millisecond: 2026-01-01T00:00:00.250999Z → 2026-01-01T00:00:00.251000Z
    in an hour: the clock was set back: 2026-01-01T01:00:00.000001Z → 2026-01-01T01:00:00.001000Z
    never to be surpassed: 9999-12-31T23:59:59.999999Z → 2026-01-01T00:00:00.250000Z
    a malformed time: soon → 2026-01-01T00:00:00.250000Z
    "
  `);
});

test("a lease is renewed after a quarter of its duration plus jitter", () => {
  expect([0, 0.5, 1].map((chance) => renewAfterMs(settings, chance))).toEqual([10_000, 10_200, 10_400]);
  expect(renewAfterMs({ ...settings, nodeLeaseDurationSeconds: 1 }, 0)).toBe(250);
});
