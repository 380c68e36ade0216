import { goJson } from "../../proto/go-json.ts";
import type { CniResult, ResultDns } from "../result.ts";

/** What the annotation `k8s.v1.cni.cncf.io/network-status` says of one interface of a pod. NPWG standard, section 5.3. */
export interface NetworkStatus {
  /** `namespace/name` of the definition; the name of the network itself for the default one. */
  readonly name: string;
  readonly interface?: string;
  /** Without the lengths of their prefixes, as the standard's Go client writes them. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  readonly default?: true;
  readonly dns: ResultDns;
  /** The gateways of the default routes. */
  readonly gateway?: readonly string[];
}

/**
 * The status of one attachment: that of the first interface of its result that is in the pod, with its addresses and those of
 * no interface. NPWG standard, sections 5.1.1 and 5.3.
 */
export function networkStatusOf(
  name: string,
  { interfaces, ips, routes, dns }: CniResult,
  isDefault: boolean,
): NetworkStatus {
  const index = interfaces.findIndex(({ sandbox = "" }) => sandbox !== "");
  const own = interfaces[index];
  const addresses = ips.filter((ip) => ip.interface === undefined || ip.interface === index);
  const gateways = routes.flatMap(({ dst, gw }) => (dst.endsWith("/0") && gw !== undefined ? [gw] : []));
  return {
    name,
    ...(own !== undefined && { interface: own.name }),
    ...(addresses.length > 0 && { ips: addresses.map(({ address }) => address.split("/")[0] ?? "") }),
    ...(own?.mac !== undefined && { mac: own.mac }),
    ...(own?.mtu !== undefined && { mtu: own.mtu }),
    ...(isDefault && { default: true }),
    dns,
    ...(gateways.length > 0 && { gateway: gateways }),
  };
}

/** The annotation's value, with line breaks for people. */
export function formatNetworkStatus(statuses: readonly NetworkStatus[]): string {
  return goJson(statuses, 4);
}
