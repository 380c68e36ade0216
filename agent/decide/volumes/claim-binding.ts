import type { PersistentVolume, PersistentVolumeClaim } from "../../../proto/kubernetes/gen/types.ts";

/**
 * Why a pod cannot use a claim, in the kubelet's words; undefined if it is bound. A claim that is being deleted starts no
 * pods: its protection ends with the last pod that uses it.
 */
export function claimProblem({ metadata, spec, status }: PersistentVolumeClaim): string | undefined {
  if (metadata.deletionTimestamp !== undefined) return "PVC is being deleted";
  if (status?.phase !== "Bound") return "PVC is not bound";
  return spec.volumeName ? undefined : "PVC has empty pvc.Spec.VolumeName";
}

/** Why a persistent volume is not the one of a bound claim, in the kubelet's words; undefined if it is. */
export function bindingProblem(
  { metadata: claim }: PersistentVolumeClaim,
  { metadata: { name }, spec: { claimRef } }: PersistentVolume,
): string | undefined {
  if (claimRef === undefined)
    return `found PV object ${name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim`;
  if (claimRef.uid === claim.uid) return undefined;
  return `found PV object ${name} but its pv.Spec.ClaimRef.UID ${claimRef.uid ?? ""} does not point to claim.UID ${claim.uid}`;
}
