import { openNodeNetwork } from "../../../cni/builtin/node-network.ts";
import { recordedNetworks } from "../../../cni/builtin/recorded-attachments.ts";
import type { BuiltinRemovalOptions } from "../../../cni/builtin/remove-network.ts";
import { masqueradeChain, TABLE } from "../../../cni/builtin/ruleset.ts";
import { hasChain } from "../../../host/netlink/nftables.ts";

/** Whether a built-in network has a record or rules on this machine. Throws `NetlinkError` where the kernel has no nftables. */
export function hasNetwork({ netlink, folder, nodeNamespace }: BuiltinRemovalOptions, network: string): boolean {
  if (recordedNetworks(folder).includes(network)) return true;
  const node = openNodeNetwork(netlink, nodeNamespace);
  try {
    return hasChain(node.netfilter, TABLE, masqueradeChain(network));
  } finally {
    node.close();
  }
}
