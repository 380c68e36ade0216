import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { type MirrorInput, mirrorOwnerOf, planMirrors } from "./mirror.ts";

const node = { name: "n", uid: "node-uid" };
const desiredPod = (name: string, uid: string, more: Partial<DesiredPod> = {}): DesiredPod => ({
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

/** `+name#hash` created, `-name#hash` removed. */
function show(input: Partial<MirrorInput>): string {
  const { create, remove } = planMirrors({ desired: [], mirrors: [], node, areSourcesReady: true, ...input });
  const name = ({ metadata }: Pod) => `${metadata.name}#${metadata.annotations?.["kubernetes.io/config.mirror"]}`;
  return [...create.map((pod) => `+${name(pod)}`), ...remove.map((pod) => `-${name(pod)}`)].join(" ");
}

const rows: readonly [name: string, fixture: Partial<MirrorInput>, says: string][] = [
  ["a static pod gets a mirror pod", { desired: [desiredPod("web", "1")] }, "+web#1"],
  [
    "no mirror pod is created before the Node exists in the API",
    { desired: [desiredPod("web", "1")], node: undefined },
    "",
  ],
  ["an existing mirror pod is unchanged", { desired: [desiredPod("web", "1")], mirrors: [mirror("web", "1")] }, ""],
  ["a pod of the API gets no mirror pod", { desired: [desiredPod("web", "1", { source: { kind: "api" } })] }, ""],
  [
    "an outdated mirror pod is removed, and created again after it is gone",
    { desired: [desiredPod("web", "2")], mirrors: [mirror("web", "1")] },
    "-web#1",
  ],
  [
    "a mirror pod that a user deletes is removed too",
    { desired: [desiredPod("web", "1")], mirrors: [mirror("web", "1", { deletionTimestamp: "2026-01-01T00:00:00Z" })] },
    "-web#1",
  ],
  [
    "a mirror pod that waits for its finalizers is left alone",
    {
      desired: [desiredPod("web", "1")],
      mirrors: [mirror("web", "1", { deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0 })],
    },
    "",
  ],
  ["a mirror pod without a static pod is removed", { mirrors: [mirror("web", "1")] }, "-web#1"],
  [
    "a mirror pod without a static pod is kept until all sources are ready",
    { mirrors: [mirror("web", "1")], areSourcesReady: false },
    "",
  ],
  [
    "a terminating static pod keeps its mirror pod",
    { desired: [desiredPod("web", "1", { termination })], mirrors: [mirror("web", "1")] },
    "",
  ],
  ["a terminating static pod gets no new mirror pod", { desired: [desiredPod("web", "1", { termination })] }, ""],
  [
    "a static pod gets no mirror pod while a terminating one of its name has one",
    { desired: [desiredPod("web", "1", { termination }), desiredPod("web", "2")], mirrors: [mirror("web", "1")] },
    "",
  ],
  [
    "a static pod gets no mirror pod while one of its name terminates",
    { desired: [desiredPod("web", "1", { termination }), desiredPod("web", "2")] },
    "",
  ],
  [
    "the first of two static pods of one name gets the mirror pod",
    { desired: [desiredPod("web", "1"), desiredPod("web", "2")] },
    "+web#1",
  ],
  [
    "mirror pods are created in the order of their pods",
    { desired: [desiredPod("b", "1"), desiredPod("a", "2")] },
    "+b#1 +a#2",
  ],
];
for (const [name, input, expected] of rows)
  test(name, () => {
    expect(show(input)).toBe(expected);
  });

test("a node owns new mirror pods until it is deleted", () => {
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

test("a mirror pod has the static pod's spec and metadata, without its uid and status, and the node as owner", () => {
  expect(planMirrors({ desired: [desiredPod("web", "1")], mirrors: [], node, areSourcesReady: true }).create).toEqual([
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
