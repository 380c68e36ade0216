import { formatIp } from "../../host/ip-address.ts";
import type { DisconnectLinks } from "../../host/netlink/link-removal.ts";
import { type AttachmentId, formatId, hostLinkName, ifbName } from "./attachment-names.ts";
import type { AttachmentStore } from "./attachment-store.ts";
import { closeHostPorts, endConnections } from "./host-ports.ts";
import type { NodeNetwork } from "./node-network.ts";

/**
 * Removes all that an attachment holds, whether or not there is a record of it, and whether or not its namespace still
 * exists; its links by `endLinks`, which deletes them or sets them down. Safe to repeat: the addresses stay reserved until
 * nothing uses them, and the record goes last.
 */
export async function detach(
  node: NodeNetwork,
  network: string,
  store: AttachmentStore,
  id: AttachmentId,
  endLinks: DisconnectLinks,
): Promise<void> {
  const record = store.find(id);
  const addresses = record === undefined ? ownAddresses(store, id) : record.addresses.map(withoutLength);
  // Without a record, host ports are found by the addresses that they lead to.
  const mayHaveHostPorts = addresses.length > 0 && (record === undefined || record.hostPorts.length > 0);
  const closeOwnHostPorts = () => {
    if (mayHaveHostPorts) closeHostPorts(node, (address) => addresses.includes(formatIp(address)));
    if (record !== undefined) endConnections(node, record);
  };
  closeOwnHostPorts();
  await endLinks([hostLinkName(network, id), ifbName(network, id)]);
  // An ADD of another pod may have made the rules meanwhile, with the host ports of every recorded attachment.
  closeOwnHostPorts();
  for (const address of addresses) store.release(address, id);
  store.remove(id);
}

const withoutLength = (prefix: string) => prefix.replace(/\/\d+$/, "");

/** By the reservations, for a record that is absent or cannot be read. */
const ownAddresses = (store: AttachmentStore, id: AttachmentId) =>
  [...store.reserved()].filter(([, owner]) => owner === formatId(id)).map(([address]) => address);
