import { messageOf } from "../../host/error-message.ts";
import { formatIp, isInNetwork } from "../../host/ip-address.ts";
import { listLinks } from "../../host/netlink/links.ts";
import { type AttachmentId, aliasPrefix, formatId, linkAlias, parseId } from "./attachment-names.ts";
import type { AttachmentStore } from "./attachment-store.ts";
import { detach } from "./detach.ts";
import { closeHostPorts } from "./host-ports.ts";
import type { BuiltinConf } from "./network-conf.ts";
import type { NodeNetwork } from "./node-network.ts";

/**
 * Removes what belongs to no valid attachment: recorded attachments, and reservations, links and host ports of this network
 * that no record has. Tries all, and rejects with one `AggregateError` of what has failed.
 */
export async function collectGarbage(
  node: NodeNetwork,
  conf: BuiltinConf,
  store: AttachmentStore,
  valid: readonly AttachmentId[],
): Promise<void> {
  const ids = new Set(valid.map(formatId));
  const ofRecords = leftOver(store, ids).map(async (id) => await detach(node, conf.name, store, id, node.removeLinks));
  const outcomes = [
    ...(await Promise.allSettled([...ofRecords, removeLinks(node, conf, valid)])),
    // By the addresses that are left.
    ...(await Promise.allSettled([removeHostPorts(node, conf, store)])),
  ];
  const failures = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
  if (failures.length > 0) throw new AggregateError(failures, failures.map(messageOf).join("; "));
}

/** By the records, and by the reservations, which outlive a record that another program has damaged. */
function leftOver(store: AttachmentStore, valid: ReadonlySet<string>): readonly AttachmentId[] {
  const known = [...store.list().map(formatId), ...store.reserved().values()];
  return [...new Set(known)].filter((id) => !valid.has(id)).map(parseId);
}

async function removeLinks(node: NodeNetwork, conf: BuiltinConf, valid: readonly AttachmentId[]): Promise<void> {
  const aliases = new Set(valid.map((id) => linkAlias(conf.name, id)));
  const strays = listLinks(node.route).filter(
    ({ alias }) => alias.startsWith(aliasPrefix(conf.name)) && !aliases.has(alias),
  );
  await node.removeLinks(strays.map(({ name }) => name));
}

/**
 * Finds none in a list that gets its ranges from the runtime. No pod leaves one, whenever its ADD or DEL is killed: an entry of the map is
 * made after the reservation of its address, and removed before it. Only a record that another program has deleted may leave one.
 */
async function removeHostPorts(node: NodeNetwork, conf: BuiltinConf, store: AttachmentStore): Promise<void> {
  const reserved = store.reservedAddresses();
  const subnets = conf.ranges.flat().map(({ subnet }) => subnet);
  closeHostPorts(
    node,
    (address) => subnets.some((subnet) => isInNetwork(address, subnet)) && !reserved.has(formatIp(address)),
  );
}
