import { expect, test } from "bun:test";
import type { PersistentVolume, PersistentVolumeClaim } from "../../../proto/kubernetes/gen/types.ts";
import { bindingProblem, claimProblem } from "./claim-binding.ts";

const claim: PersistentVolumeClaim = {
  metadata: { name: "data", namespace: "shop", uid: "c-1" },
  spec: { volumeName: "pv-1" },
  status: { phase: "Bound" },
};
const volume: PersistentVolume = { metadata: { name: "pv-1" }, spec: { claimRef: { uid: "c-1" } } };

const claims: readonly [sentence: string, changes: Partial<PersistentVolumeClaim>, problem: string | undefined][] = [
  ["a bound claim can be used", {}, undefined],
  ["a claim without a status is not bound", { status: {} }, "PVC is not bound"],
  ["a pending claim is not bound", { status: { phase: "Pending" } }, "PVC is not bound"],
  ["a claim that has lost its volume is not bound", { status: { phase: "Lost" } }, "PVC is not bound"],
  ["a bound claim without a volume's name", { spec: {} }, "PVC has empty pvc.Spec.VolumeName"],
  ["a bound claim with an empty name", { spec: { volumeName: "" } }, "PVC has empty pvc.Spec.VolumeName"],
  [
    "a claim that is being deleted starts no pod, though it is bound",
    { metadata: { ...claim.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } },
    "PVC is being deleted",
  ],
];
for (const [sentence, changes, problem] of claims)
  test(sentence, () => {
    expect(claimProblem({ ...claim, ...changes })).toBe(problem as string);
  });

const volumes: readonly [sentence: string, spec: PersistentVolume["spec"], problem: string | undefined][] = [
  ["a volume that refers to the claim is its volume", { claimRef: { uid: "c-1" } }, undefined],
  [
    "a volume that refers to no claim is not",
    {},
    "found PV object pv-1 but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
  ],
  [
    "a volume that refers to an earlier claim of the name is not",
    { claimRef: { uid: "c-0", namespace: "shop", name: "data" } },
    "found PV object pv-1 but its pv.Spec.ClaimRef.UID c-0 does not point to claim.UID c-1",
  ],
  [
    "a volume that is reserved for the claim by name alone is not yet",
    { claimRef: { namespace: "shop", name: "data" } },
    "found PV object pv-1 but its pv.Spec.ClaimRef.UID  does not point to claim.UID c-1",
  ],
];
for (const [sentence, spec, problem] of volumes)
  test(sentence, () => {
    expect(bindingProblem(claim, { ...volume, spec })).toBe(problem as string);
  });
