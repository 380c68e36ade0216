import type { NodeAddress } from "../../../proto/kubernetes/gen/types.ts";
import { isIp } from "../../../proto/kubernetes/validation/names.ts";
import type { NodeSettings } from "./node-settings.ts";

type AddressSettings = Pick<NodeSettings, "nodeName" | "isCloudExternal" | "nodeIPs">;

/**
 * The addresses of the Node, given those in `before`. With an external cloud provider they belong to its controller:
 * the agent only sets those of `--node-ip`, and only while there are none.
 */
export function nodeAddresses(
  addresses: readonly string[],
  before: readonly NodeAddress[],
  { nodeName, isCloudExternal, nodeIPs }: AddressSettings,
): readonly NodeAddress[] {
  const hostname: NodeAddress = { type: "Hostname", address: nodeName };
  const own = [...addresses.map((address): NodeAddress => ({ type: "InternalIP", address })), hostname];
  if (isCloudExternal) return before.length > 0 ? before : nodeIPs.length === 0 ? [hostname] : own;
  // A node that has lost its address, as by a pulled cable, keeps the last one.
  return addresses.length === 0 && before.length > 0 ? before : own;
}

/**
 * The node's addresses that pods get (`status.hostIPs`), chosen as by the kubelet: the first of all internal and then
 * external ones, and the first of the other family. None if one of them is not an IP address: the API server would
 * reject such a status.
 */
export function hostIPsOf(addresses: readonly NodeAddress[]): readonly string[] {
  const ips = ["InternalIP", "ExternalIP"].flatMap((addressType) =>
    addresses.filter(({ type }) => type === addressType).map(({ address }) => address),
  );
  const [first] = ips;
  if (first === undefined || ips.some((address) => !isIp(address))) return [];
  const other = ips.find((address) => address.includes(":") !== first.includes(":"));
  return other === undefined ? [first] : [first, other];
}
