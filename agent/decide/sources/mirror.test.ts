import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type MirrorScene, mirrorOwnerOf, planMirrors } from "./mirror.ts";

const node = { name: "n", uid: "node-uid" };
const wanted = (name: string, uid: string, more: Partial<DesiredPod> = {}): DesiredPod => ({
  uid: uid as PodUid,
  pod: {
    metadata: {
      uid,
      name,
      namespace: "shop",
      labels: { app: name },
      annotations: { "kubernetes.io/config.hash": uid },
    },
    spec: { containers: [], nodeName: "n" },
    status: { phase: "Pending" },
  },
  source: { kind: "file", path: "/m" },
  acceptedAt: 1,
  revision: 0,
  ...more,
});
const termination = { requestedAt: 1, gracePeriodSeconds: 1, why: "" };
const mirror = (name: string, hash: string, metadata: Partial<Pod["metadata"]> = {}): Pod => ({
  metadata: {
    uid: `m-${hash}`,
    name,
    namespace: "shop",
    annotations: { "kubernetes.io/config.mirror": hash },
    ...metadata,
  },
  spec: { containers: [] },
});

/** `+name#hash` made, `-name#hash` removed. */
function show(scene: Partial<MirrorScene>): string {
  const { create, remove } = planMirrors({ desired: [], mirrors: [], node, isComplete: true, ...scene });
  const name = ({ metadata }: Pod) => `${metadata.name}#${metadata.annotations?.["kubernetes.io/config.mirror"]}`;
  return [...create.map((pod) => `+${name(pod)}`), ...remove.map((pod) => `-${name(pod)}`)].join(" ");
}

const rows: readonly [name: string, scene: Partial<MirrorScene>, says: string][] = [
  ["a static pod gets its mirror", { desired: [wanted("web", "1")] }, "+web#1"],
  ["not before the node is in the API", { desired: [wanted("web", "1")], node: undefined }, ""],
  ["what has its mirror needs nothing", { desired: [wanted("web", "1")], mirrors: [mirror("web", "1")] }, ""],
  ["a pod of the API has none", { desired: [wanted("web", "1", { source: { kind: "api" } })] }, ""],
  [
    "a mirror of what the pod was is removed, and made anew when it is gone",
    { desired: [wanted("web", "2")], mirrors: [mirror("web", "1")] },
    "-web#1",
  ],
  [
    "so is one that somebody deletes",
    { desired: [wanted("web", "1")], mirrors: [mirror("web", "1", { deletionTimestamp: "2026-01-01T00:00:00Z" })] },
    "-web#1",
  ],
  [
    "one that goes by itself is left alone until it is gone",
    {
      desired: [wanted("web", "1")],
      mirrors: [mirror("web", "1", { deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0 })],
    },
    "",
  ],
  ["a mirror of nothing is removed", { mirrors: [mirror("web", "1")] }, "-web#1"],
  ["unless somebody may still ask for its pod", { mirrors: [mirror("web", "1")], isComplete: false }, ""],
  [
    "while a pod ends its mirror stays",
    { desired: [wanted("web", "1", { termination })], mirrors: [mirror("web", "1")] },
    "",
  ],
  ["a pod that ends gets none any more", { desired: [wanted("web", "1", { termination })] }, ""],
  [
    "and the next one of its name waits for it",
    { desired: [wanted("web", "1", { termination }), wanted("web", "2")], mirrors: [mirror("web", "1")] },
    "",
  ],
  ["which gets none before that either", { desired: [wanted("web", "1", { termination }), wanted("web", "2")] }, ""],
  ["of two of one name the first is mirrored", { desired: [wanted("web", "1"), wanted("web", "2")] }, "+web#1"],
  ["mirrors are made in the order of their pods", { desired: [wanted("b", "1"), wanted("a", "2")] }, "+b#1 +a#2"],
];
for (const [name, scene, says] of rows)
  test(name, () => {
    expect(show(scene)).toBe(says);
  });

test("a node owns mirrors until it is being deleted", () => {
  const metadata = { name: "n", uid: "node-uid" };
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  const of = {
    none: undefined,
    one: { metadata, spec: {} },
    "one that goes": { metadata: { ...metadata, deletionTimestamp }, spec: {} },
  };
  expect(Object.entries(of).map(([what, each]) => `${what}: ${mirrorOwnerOf(each)}`)).toEqual([
    "none: undefined",
    "one: node-uid",
    "one that goes: undefined",
  ]);
});

test("a mirror is the pod as it was asked for, owned by the node, without uid and status of its own", () => {
  expect(planMirrors({ desired: [wanted("web", "1")], mirrors: [], node, isComplete: true }).create).toEqual([
    {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: "web",
        namespace: "shop",
        labels: { app: "web" },
        annotations: { "kubernetes.io/config.hash": "1", "kubernetes.io/config.mirror": "1" },
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: "n", uid: "node-uid", controller: true }],
      },
      spec: { containers: [], nodeName: "n" },
    },
  ]);
});
