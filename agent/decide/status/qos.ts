import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { compareQuantities, type ParsedQuantity, parseQuantity } from "../../../proto/kubernetes/values/quantity.ts";

const COUNTED = ["cpu", "memory"] as const;

/**
 * The quality-of-service class of a pod, from CPU and memory alone: Guaranteed if every container has limits for both and
 * requests exactly those, BestEffort if no container has requests or limits, else Burstable. The resources of the pod
 * itself, if it has any, count instead of those of its containers. Ephemeral containers have no resources.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/ Rule: ComputePodQOS.
 */
export function qosClassOf({ spec }: Pod): PodQOSClass {
  const all =
    spec.resources === undefined ? nonEphemeralContainers(spec).map(({ resources }) => resources) : [spec.resources];
  if (all.every(hasNoRequestsOrLimits)) return "BestEffort";
  return all.every(isGuaranteed) ? "Guaranteed" : "Burstable";
}

function hasNoRequestsOrLimits(resources: ResourceRequirements | undefined): boolean {
  return COUNTED.every(
    (name) =>
      nonZeroQuantity(resources?.requests?.[name]) === undefined &&
      nonZeroQuantity(resources?.limits?.[name]) === undefined,
  );
}

function isGuaranteed(resources: ResourceRequirements | undefined): boolean {
  return COUNTED.every((name) => {
    const limit = nonZeroQuantity(resources?.limits?.[name]);
    if (limit === undefined) return false;
    const request = nonZeroQuantity(resources?.requests?.[name]);
    return request === undefined || compareQuantities(request, limit) === 0;
  });
}

/** A quantity of zero counts as absent. */
function nonZeroQuantity(text: string | undefined): ParsedQuantity | undefined {
  if (text === undefined) return undefined;
  const quantity = parseQuantity(text);
  return compareQuantities(quantity, parseQuantity("0")) === 0 ? undefined : quantity;
}
