import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits } from "../../../proto/kubernetes/pod-resources.ts";
import { parseQuantity, toNumber, ZERO } from "../../../proto/kubernetes/values/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";

/**
 * The size in bytes of an emptyDir in memory, undefined without any limit: the smallest of its `sizeLimit`, the pod's memory limit and what pods may
 * use of the node's memory. Rule: KEP-1967; the kubelet's calculateEmptyDirMemorySize.
 */
export function memoryVolumeBytes(
  { spec }: Pick<Pod, "spec">,
  { emptyDir }: Pick<Volume, "emptyDir">,
  { allocatable }: Pick<NodeFacts, "allocatable">,
): number | undefined {
  const limits = [
    Number(allocatable.get("memory") ?? 0n),
    toNumber(podLimits(spec, { requiresAllContainers: true, excludesOverhead: true }).get("memory") ?? ZERO),
    toNumber(emptyDir?.sizeLimit === undefined ? ZERO : parseQuantity(emptyDir.sizeLimit)),
  ];
  const least = Math.min(...limits.filter((bytes) => bytes > 0));
  return Number.isFinite(least) ? Math.ceil(least) : undefined;
}
