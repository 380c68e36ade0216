import type { Container, Pod, PodQOSClass } from "./gen/types.ts";
import { isCritical } from "./priority.ts";
import { parseResourceList } from "./resource-list.ts";
import { compareQuantities, type ParsedQuantity } from "./values/quantity.ts";

const ZERO: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

/**
 * Whether a container of a node with `LimitedSwap` may use swap: in a Burstable pod that is not critical, and with a
 * memory request that differs from its limit. Rule: the kubelet's GetContainerSwapBehavior.
 */
export function mayUseSwap(pod: Pod, { resources }: Pick<Container, "resources">, qosClass: PodQOSClass): boolean {
  const request = parseResourceList(resources?.requests).get("memory") ?? ZERO;
  const limit = parseResourceList(resources?.limits).get("memory") ?? ZERO;
  return qosClass === "Burstable" && !isCritical(pod) && compareQuantities(request, limit) !== 0;
}
