import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { compareQuantities, parseQuantity, type Quantity } from "../../../proto/kubernetes/quantity.ts";

const COUNTED = ["cpu", "memory"] as const;

/**
 * The quality-of-service class of a pod, from its containers' CPU and memory alone: Guaranteed when every container has
 * limits for both and asks for exactly those, BestEffort when no container says anything, else Burstable.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-qos/
 */
export function qosClassOf({ spec }: Pod): PodQOSClass {
  const containers: readonly Pick<Container, "resources">[] = [...spec.containers, ...(spec.initContainers ?? [])];
  if (containers.every(({ resources }) => saysNothing(resources))) return "BestEffort";
  return containers.every(({ resources }) => isGuaranteed(resources)) ? "Guaranteed" : "Burstable";
}

function saysNothing(resources: ResourceRequirements | undefined): boolean {
  return COUNTED.every(
    (name) => amount(resources?.requests?.[name]) === undefined && amount(resources?.limits?.[name]) === undefined,
  );
}

function isGuaranteed(resources: ResourceRequirements | undefined): boolean {
  return COUNTED.every((name) => {
    const limit = amount(resources?.limits?.[name]);
    if (limit === undefined) return false;
    const request = amount(resources?.requests?.[name]);
    return request === undefined || compareQuantities(request, limit) === 0;
  });
}

/** A quantity of zero counts as not given. */
function amount(text: string | undefined): Quantity | undefined {
  if (text === undefined) return undefined;
  const quantity = parseQuantity(text);
  return compareQuantities(quantity, parseQuantity("0")) === 0 ? undefined : quantity;
}
