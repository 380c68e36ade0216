import { createHash } from "node:crypto";

/** One link of one pod in a network. */
export interface AttachmentId {
  readonly containerId: string;
  readonly ifName: string;
}

/** An id as text; `:` is in neither part. */
export const formatId = ({ containerId, ifName }: AttachmentId): string => `${containerId}:${ifName}`;

/** The id that `formatId` has written. */
export function parseId(text: string): AttachmentId {
  const separator = text.lastIndexOf(":");
  return { containerId: text.slice(0, separator), ifName: text.slice(separator + 1) };
}

/** The digits of a hash that fit behind `veth` into the 15 characters of a name. */
const HASH_DIGITS = 11;

const hashOf = (network: string, id: AttachmentId) =>
  createHash("sha256")
    .update(`${network} ${formatId(id)}`)
    .digest("hex")
    .slice(0, HASH_DIGITS);

/** The name of the host's end of the veth pair: the same for every call, so that DEL needs no record and no namespace. */
export const hostLinkName = (network: string, id: AttachmentId): string => `veth${hashOf(network, id)}`;

/** The name of the ifb that limits what the pod sends. */
export const ifbName = (network: string, id: AttachmentId): string => `bifb${hashOf(network, id)}`;

/** The alias of the host's end of the veth pair, which `ip link` shows. */
export const linkAlias = (network: string, id: AttachmentId): string => `${aliasPrefix(network)}${formatId(id)}`;

/** What the aliases of all attachments of a network begin with. */
export const aliasPrefix = (network: string): string => `berth ${network} `;

/** The alias of a bridge that this network has made. A bridge that existed before keeps its own alias. */
export const bridgeAlias = (network: string): string => `berth ${network}`;

/** Whether a bridge with this alias is one that a built-in network has made. */
export const isBridgeAlias = (alias: string): boolean => /^berth [^ ]+$/.test(alias);

/**
 * The hardware address for an IP address: the same one again when the address is used again, so that what neighbours have
 * learnt stays true. `0a:58` is what the bridge plugin has used for this.
 */
export function macOf(address: Uint8Array): Uint8Array {
  const tail = address.length === 4 ? address : createHash("sha256").update(address).digest().subarray(0, 4);
  return Uint8Array.of(0x0a, 0x58, ...tail);
}
