import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { type DesiredPod, needsReferencedObjects } from "./desired.ts";

const base: DesiredPod = {
  uid: "web-1" as PodUid,
  pod: { metadata: { name: "web" }, spec: { containers: [] } },
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
};
const termination = { requestedAt: 0, gracePeriodSeconds: 30, why: "it was deleted" };

const rows: readonly (readonly [name: string, pod: DesiredPod, needed: boolean])[] = [
  ["an admitted pod of the API needs its references", base, true],
  ["a static pod may not have references", { ...base, source: { kind: "file", path: "/web.yaml" } }, false],
  ["a pod that waits for admission does not need them yet", { ...base, admission: { kind: "awaited" } }, false],
  [
    "a rejected pod does not need them",
    { ...base, admission: { kind: "rejected", reason: "OutOfcpu", message: "" } },
    false,
  ],
  ["a terminating pod needs them no longer", { ...base, termination }, false],
  ["a pod that has ended needs them no longer", { ...base, hasReleasedResources: true }, false],
  ["a restored pod may have ended", { ...base, isRestored: true }, false],
];
for (const [name, pod, needed] of rows) test(name, () => expect(needsReferencedObjects(pod)).toBe(needed));
