import {
  formatIp,
  formatPrefix,
  type IpPrefix,
  ipFromNumber,
  ipToNumber,
  isInNetwork,
  networkOf,
  parseIp,
  parsePrefix,
} from "../../host/ip-address.ts";

/** Addresses that pods get, both ends included. Numbers are those of the addresses. */
export interface AddressRange {
  readonly subnet: IpPrefix;
  readonly first: bigint;
  readonly last: bigint;
  /** The bridge's own address, which no pod gets. */
  readonly gateway: Uint8Array;
}

/** The bits that a network needs for more than itself, its gateway and its broadcast address. */
const MIN_HOST_BITS = 2;

/**
 * Reads one range in the form that host-local has: `subnet`, and optionally `rangeStart`, `rangeEnd` and `gateway`. Their
 * defaults are host-local's: all of the subnet but the network's and the broadcast address, and its first address as the
 * gateway. `where` is the field's path. Throws `RangeError` with one sentence.
 */
export function readRange(value: unknown, where: string): AddressRange {
  const fields: Readonly<Record<string, unknown>> = typeof value === "object" && value !== null ? { ...value } : {};
  const subnet = readSubnet(fields["subnet"], `${where}.subnet`);
  const length = subnet.bytes.length;
  const network = ipToNumber(subnet.bytes);
  const size = 1n << BigInt(8 * length - subnet.bits);
  const inSubnet = (name: string, fallback: bigint) => {
    const text = fields[name];
    return text === undefined || text === "" ? fallback : ipToNumber(readAddress(text, `${where}.${name}`, subnet));
  };
  const first = inSubnet("rangeStart", network + 1n);
  // IPv6 has no broadcast address.
  const last = inSubnet("rangeEnd", network + size - (length === 4 ? 2n : 1n));
  if (first > last)
    throw new RangeError(
      `${where}.rangeStart ${formatIp(ipFromNumber(first, length))} is above rangeEnd ${formatIp(ipFromNumber(last, length))}`,
    );
  return { subnet, first, last, gateway: ipFromNumber(inSubnet("gateway", network + 1n), length) };
}

function readSubnet(value: unknown, where: string): IpPrefix {
  const subnet = typeof value === "string" ? parsePrefix(value) : undefined;
  if (subnet === undefined)
    throw new RangeError(`${where} is ${JSON.stringify(value)}; a network such as "10.88.0.0/16" is expected`);
  const network = networkOf(subnet);
  if (formatPrefix(network) !== formatPrefix(subnet))
    throw new RangeError(`${where} ${formatPrefix(subnet)} has host bits set; the network is ${formatPrefix(network)}`);
  if (8 * subnet.bytes.length - subnet.bits < MIN_HOST_BITS)
    throw new RangeError(
      `${where} ${formatPrefix(subnet)} is too small: it has no address for a pod beside the gateway`,
    );
  return subnet;
}

function readAddress(value: unknown, where: string, subnet: IpPrefix): Uint8Array {
  const address = typeof value === "string" ? parseIp(value) : undefined;
  if (address === undefined) throw new RangeError(`${where} is ${JSON.stringify(value)}; an IP address is expected`);
  if (!isInNetwork(address, subnet))
    throw new RangeError(`${where} ${formatIp(address)} is not in the subnet ${formatPrefix(subnet)}`);
  return address;
}

/** An address that a pod gets, from its range. */
export interface Allocation {
  readonly address: Uint8Array;
  readonly range: AddressRange;
}

interface AllocationInput {
  /** The ranges of one set, of which one address is taken. */
  readonly ranges: readonly AddressRange[];
  /** Whether a pod or the node has the address. */
  readonly isTaken: (address: Uint8Array) => boolean;
  /** The last address that was taken of this set: the search begins behind it, so that none is used again soon. */
  readonly after: Uint8Array | undefined;
}

/** The next free address, round and round. Undefined if all are taken. */
export function nextFreeAddress({ ranges, isTaken, after }: AllocationInput): Allocation | undefined {
  const start = after === undefined ? -1 : ranges.findIndex((range) => isInRange(after, range));
  const begin = Math.max(start, 0);
  const from = start < 0 || after === undefined ? undefined : ipToNumber(after) + 1n;
  // The range of the last address is searched twice: behind the address first, and from its start at the end.
  const order = [...ranges.slice(begin), ...ranges.slice(0, begin + 1)];
  for (const [index, range] of order.entries()) {
    const found = firstFree(range, index === 0 ? from : undefined, isTaken);
    if (found !== undefined) return { address: found, range };
  }
  return undefined;
}

function firstFree(
  { subnet, first, last, gateway }: AddressRange,
  from: bigint | undefined,
  isTaken: (address: Uint8Array) => boolean,
): Uint8Array | undefined {
  const gatewayNumber = ipToNumber(gateway);
  for (let number = from ?? first; number <= last; number += 1n) {
    const address = ipFromNumber(number, subnet.bytes.length);
    if (number !== gatewayNumber && !isTaken(address)) return address;
  }
  return undefined;
}

/** The range that a requested address belongs to; undefined if it is in none, or a gateway. */
export const rangeOf = (address: Uint8Array, ranges: readonly AddressRange[]): AddressRange | undefined =>
  ranges.find((range) => isInRange(address, range) && ipToNumber(range.gateway) !== ipToNumber(address));

const isInRange = (address: Uint8Array, { subnet, first, last }: AddressRange) =>
  address.length === subnet.bytes.length && ipToNumber(address) >= first && ipToNumber(address) <= last;
