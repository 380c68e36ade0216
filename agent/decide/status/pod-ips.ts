import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedPod } from "../pod/observed.ts";

const isIPv6 = (address: string) => address.includes(":");

/**
 * Of the addresses that the pod network has assigned, the first of each family, the family of the node's primary
 * address first. The API accepts at most one address of a family, and the first one is the pod's primary address.
 */
export function podIPsOf(addresses: readonly string[], hostIPs: readonly string[]): readonly string[] {
  const prefersIPv6 = hostIPs[0] !== undefined && isIPv6(hostIPs[0]);
  return [prefersIPv6, !prefersIPv6].flatMap((family) => addresses.find((each) => isIPv6(each) === family) ?? []);
}

/** The pod's addresses, the primary first; with host networking those of the node. */
export function addressesOf(
  { spec }: Pod,
  { sandboxes }: Pick<ObservedPod, "sandboxes">,
  hostIPs: readonly string[],
): readonly string[] {
  return spec.hostNetwork === true ? hostIPs : podIPsOf(sandboxes[0]?.ips ?? [], hostIPs);
}
