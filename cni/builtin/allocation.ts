import { formatIp, formatPrefix, parseIp } from "../../host/ip-address.ts";
import { isLocalAddress } from "../../host/netlink/routes.ts";
import { CniError, cniCodes } from "../error.ts";
import { type AddressRange, type Allocation, nextFreeAddress, rangeOf } from "./address-range.ts";
import type { AttachmentId } from "./attachment-names.ts";
import type { AttachmentRecord, AttachmentStore } from "./attachment-store.ts";
import { builtinCodes } from "./errors.ts";
import type { BuiltinConf } from "./network-conf.ts";
import type { NodeNetwork } from "./node-network.ts";

/** Another process would have to take as many addresses in the same millisecond. */
const MAX_TRIES = 16;

/**
 * Takes one address of each set of ranges, and writes the record of the attachment. The record is written first, so that
 * whatever is reserved is found after a crash. Throws `CniError`: no address is left, or a requested one is taken.
 */
export function allocate(
  node: NodeNetwork,
  conf: BuiltinConf,
  store: AttachmentStore,
  id: AttachmentId,
): { readonly attachment: AttachmentRecord; readonly allocations: readonly Allocation[] } {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const allocations = choose(node, conf, store);
    const attachment: AttachmentRecord = {
      ...id,
      addresses: allocations.map(({ address, range }) => formatPrefix({ bytes: address, bits: range.subnet.bits })),
      gateways: allocations.map(({ range }) => formatIp(range.gateway)),
      hostPorts: conf.hostPorts,
      bridgeName: conf.bridge,
    };
    store.write(attachment);
    if (allocations.every(({ address }) => store.reserve(formatIp(address), id))) {
      // In a file, which the next agent and the delegate read: none of them gives a new pod the address of one that has just gone.
      store.writeLastAddresses(allocations.map(({ address }) => formatIp(address)));
      return { attachment, allocations };
    }
    // The next try chooses others, since those of the other process are reserved now; ours would be left over.
    for (const { address } of allocations) store.release(formatIp(address), id);
  }
  throw new CniError(cniCodes.tryAgainLater, "another process takes the same addresses again and again");
}

function choose(node: NodeNetwork, conf: BuiltinConf, store: AttachmentStore): readonly Allocation[] {
  const last = store.lastAddresses();
  const reserved = store.reservedAddresses();
  const isTaken = (address: Uint8Array) => reserved.has(formatIp(address)) || isLocalAddress(node.route, address);
  for (const address of conf.ips)
    if (!conf.ranges.some((ranges) => rangeOf(address, ranges) !== undefined))
      throw new CniError(
        builtinCodes.address,
        `the requested address ${formatIp(address)} is in no range of the network ${conf.name}`,
      );
  const setOf = (address: Uint8Array) => conf.ranges.findIndex((ranges) => rangeOf(address, ranges) !== undefined);
  const surplus = conf.ips.find(
    (address, index) => conf.ips.findIndex((other) => setOf(other) === setOf(address)) < index,
  );
  if (surplus !== undefined)
    throw new CniError(
      builtinCodes.address,
      `the requested address ${formatIp(surplus)} is the second one of its ranges in the network ${conf.name}, and a pod gets one of each`,
    );
  return conf.ranges.map((ranges, index) => {
    const requested = conf.ips.find((address) => rangeOf(address, ranges) !== undefined);
    if (requested !== undefined) return requestedAllocation(requested, ranges, isTaken);
    const found = nextFreeAddress({ ranges, isTaken, after: parseIp(last[index] ?? "") });
    if (found !== undefined) return found;
    const all = ranges.map(({ subnet }) => formatPrefix(subnet)).join(", ");
    const used = [...reserved].filter((address) => isInRanges(address, ranges)).length;
    throw new CniError(
      builtinCodes.exhausted,
      `no address is left in ${all} of the network ${conf.name}: ${used} are in use`,
    );
  });
}

function isInRanges(text: string, ranges: readonly AddressRange[]): boolean {
  const address = parseIp(text);
  return address !== undefined && rangeOf(address, ranges) !== undefined;
}

function requestedAllocation(
  address: Uint8Array,
  ranges: readonly AddressRange[],
  isTaken: (address: Uint8Array) => boolean,
): Allocation {
  const range = rangeOf(address, ranges);
  if (range === undefined || isTaken(address))
    throw new CniError(
      builtinCodes.address,
      `the requested address ${formatIp(address)} is taken by another pod, or by the node`,
    );
  return { address, range };
}
