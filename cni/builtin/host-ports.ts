import { parsePrefix } from "../../host/ip-address.ts";
import { endUdpConnections } from "../../host/netlink/connections.ts";
import { NetlinkError, unlessCode } from "../../host/netlink/error.ts";
import { type Link, setRouteLocalnet } from "../../host/netlink/links.ts";
import { addEntries, addingWords, listEntries, type MapEntry, removeEntries } from "../../host/netlink/nftables.ts";
import { CniError } from "../error.ts";
import { formatId } from "./attachment-names.ts";
import type { AttachmentRecord } from "./attachment-store.ts";
import { builtinCodes } from "./errors.ts";
import type { NodeNetwork } from "./node-network.ts";
import { addressOfEntry, hostPortEntries, hostPortMaps, TABLE } from "./ruleset.ts";

/** The map entries of an attachment. */
export function hostPortsOf(network: string, attachment: AttachmentRecord): readonly MapEntry[] {
  const addresses = bytesOf(attachment.addresses);
  return attachment.hostPorts.flatMap((port) => hostPortEntries(port, addresses, `${network} ${formatId(attachment)}`));
}

/** Addresses with the length of their prefix, as bytes without it. */
const bytesOf = (prefixes: readonly string[]): readonly Uint8Array[] =>
  prefixes.map(parsePrefix).flatMap((prefix) => (prefix === undefined ? [] : [prefix.bytes]));

/**
 * Opens the host ports of recorded attachments. One that another pod has is left out: the record of an ADD that was killed stays
 * until its DEL or GC, and must not keep other pods from starting. Throws `NetlinkError`.
 */
export function openRecordedPorts(node: NodeNetwork, network: string, attachments: readonly AttachmentRecord[]): void {
  const entries = attachments.flatMap((attachment) => hostPortsOf(network, attachment));
  const open = (some: readonly MapEntry[]) => addEntries(node.netfilter, TABLE, some);
  const isOpen = unlessCode(TAKEN, () => {
    open(entries);
    return true;
  });
  if (isOpen !== true) for (const entry of entries) unlessCode(TAKEN, () => open([entry]));
}

/** The kernel's codes for a key that a map has with another value. */
const TAKEN: readonly string[] = ["EBUSY", "EEXIST"];

/** Those of the entries that the maps have. Reads only the maps that the entries are of. */
export function findPresentEntries(node: NodeNetwork, entries: readonly MapEntry[]): readonly MapEntry[] {
  const maps = [...new Set(entries.map(({ map }) => map))];
  const present = new Set(
    maps.flatMap((map) => listEntries(node.netfilter, TABLE, map).map((entry) => entryText({ ...entry, map }))),
  );
  return entries.filter((entry) => present.has(entryText(entry)));
}

const entryText = ({ map, key, data }: Pick<MapEntry, "map" | "key" | "data">) =>
  `${map} ${key.join(".")} ${data.join(".")}`;

/** Opens the host ports of an attachment, at 127.0.0.1 too, and returns their entries. Throws `CniError` if another pod has one of them. */
export function openHostPorts(
  node: NodeNetwork,
  network: string,
  bridge: Link,
  attachment: AttachmentRecord,
): readonly MapEntry[] {
  const entries = hostPortsOf(network, attachment);
  if (entries.length === 0) return entries;
  if (bytesOf(attachment.addresses).some(({ length }) => length === 4)) setRouteLocalnet(node.route, bridge);
  try {
    addEntries(node.netfilter, TABLE, entries);
  } catch (error) {
    if (!(error instanceof NetlinkError && TAKEN.includes(error.code))) throw error;
    const refused = entries.find(({ what, map }) => error.what === addingWords(what, map))?.what ?? "a host port";
    throw new CniError(builtinCodes.hostPort, `another pod has ${refused}`, { details: error.message, cause: error });
  }
  endConnections(node, attachment);
  return entries;
}

/** Closes all host ports that lead to a pod's address for which `isGone` holds, whatever the record says. */
export function closeHostPorts(node: NodeNetwork, isGone: (address: Uint8Array) => boolean): void {
  const entries = hostPortMaps
    .flatMap((map) => listEntries(node.netfilter, TABLE, map).map((entry) => ({ ...entry, map, what: "a host port" })))
    .filter(({ map, ...entry }) => isGone(addressOfEntry(map, entry)));
  removeEntries(node.netfilter, TABLE, entries);
}

/** Lets clients that send to one of the ports by UDP all the time reach the pod that has it now, or the node. */
export function endConnections(node: NodeNetwork, { hostPorts, addresses }: AttachmentRecord): void {
  const families = new Set(bytesOf(addresses).map(({ length }) => (length === 4 ? 4 : 6)));
  for (const { hostPort, protocol } of hostPorts)
    if (protocol === "udp") for (const family of families) endUdpConnections(node.netfilter, family, hostPort);
}
