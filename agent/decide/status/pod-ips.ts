import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ObservedPod } from "../pod/observed.ts";

const isIPv6 = (address: string) => address.includes(":");

/**
 * Of the addresses that a network plugin has given a pod, the first of each family, that of the node's primary address first: the API
 * takes no more than one of a family, and a pod with an address in the wrong place is reached by nobody.
 */
export function podIPsOf(addresses: readonly string[], hostIPs: readonly string[]): readonly string[] {
  const prefersIPv6 = hostIPs[0] !== undefined && isIPv6(hostIPs[0]);
  return [prefersIPv6, !prefersIPv6].flatMap((family) => addresses.find((each) => isIPv6(each) === family) ?? []);
}

/** The addresses of a pod, first the one at which it is asked: those of the node where it is on the node's network. */
export function addressesOf(
  { spec }: Pod,
  { sandboxes }: Pick<ObservedPod, "sandboxes">,
  hostIPs: readonly string[],
): readonly string[] {
  return spec.hostNetwork === true ? hostIPs : podIPsOf(sandboxes[0]?.ips ?? [], hostIPs);
}
