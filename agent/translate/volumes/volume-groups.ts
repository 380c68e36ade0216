import { claimKey, claimReferenceOf } from "../../../proto/kubernetes/claims.ts";
import type { PersistentVolume, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { usedVolumes } from "../../../proto/kubernetes/volumes.ts";
import { volumeGidAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import type { NodeFacts } from "../node-facts.ts";

/**
 * The groups that the pod's persistent volumes request by the annotation `pv.beta.kubernetes.io/gid`, except those that
 * the pod has in its `supplementalGroups` anyway. As with the kubelet (GetExtraSupplementalGroupsForPod), an annotation
 * that is no number has no effect.
 */
export function volumeGroups(pod: Pod, { cluster }: Pick<NodeFacts, "cluster">): readonly bigint[] {
  if (cluster === undefined) return [];
  const own = new Set((pod.spec.securityContext?.supplementalGroups ?? []).map(BigInt));
  const groups = usedVolumes(pod.spec).flatMap((volume) => {
    const reference = claimReferenceOf(pod, volume);
    const known = reference && cluster.claims.get(claimKey(reference));
    return known !== undefined && "persistentVolume" in known ? groupOf(known.persistentVolume) : [];
  });
  return [...new Set(groups)].filter((group) => !own.has(group));
}

const MAX_INT64 = 2n ** 63n - 1n;

/** Reads a number as Go's strconv.ParseInt does. */
function groupOf({ metadata: { annotations } }: PersistentVolume): readonly bigint[] {
  const text = annotations?.[volumeGidAnnotation] ?? "";
  if (!/^[+-]?\d+$/.test(text)) return [];
  const group = BigInt(text.replace("+", ""));
  return group > MAX_INT64 || group < -MAX_INT64 - 1n ? [] : [group];
}
