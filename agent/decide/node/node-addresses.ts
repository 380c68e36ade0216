import type { NodeAddress } from "../../../proto/kubernetes/gen/types.ts";
import { isIp } from "../../../proto/kubernetes/validation/names.ts";
import type { NodeSettings } from "./node-settings.ts";

type AddressSettings = Pick<NodeSettings, "nodeName" | "isCloudExternal" | "nodeIPs">;

/**
 * The addresses that the node's object is to have, which has those of `before`. Where a cloud tells them, ours stand in for them only as
 * long as it has not, and only those that we were told.
 */
export function nodeAddresses(
  addresses: readonly string[],
  before: readonly NodeAddress[],
  { nodeName, isCloudExternal, nodeIPs }: AddressSettings,
): readonly NodeAddress[] {
  const hostname: NodeAddress = { type: "Hostname", address: nodeName };
  const own = [...addresses.map((address): NodeAddress => ({ type: "InternalIP", address })), hostname];
  if (isCloudExternal) return before.length > 0 ? before : nodeIPs.length === 0 ? [hostname] : own;
  // A node that has lost its address, as by a cable that is pulled, goes on under the last one.
  return addresses.length === 0 && before.length > 0 ? before : own;
}

/**
 * Of a node's addresses those that pods are told, as the kubelet chooses them: the first, of all internal ones and then the external
 * ones, and the first of the other family. None where one of them is no IP address: a status with that would be refused.
 */
export function hostIPsOf(addresses: readonly NodeAddress[]): readonly string[] {
  const ips = ["InternalIP", "ExternalIP"].flatMap((wanted) =>
    addresses.filter(({ type }) => type === wanted).map(({ address }) => address),
  );
  const [first] = ips;
  if (first === undefined || ips.some((address) => !isIp(address))) return [];
  const other = ips.find((address) => address.includes(":") !== first.includes(":"));
  return other === undefined ? [first] : [first, other];
}
