/** The four bytes of an IPv4 address, or the sixteen of an IPv6 address. Undefined if the text is neither. */
export function parseIp(text: string): Uint8Array | undefined {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

/** A canonical decimal number of at most 255, as RFC 6943 wants it: `010` is 8 to some programs. */
const OCTET = /^(?:0|[1-9]\d{0,2})$/;

function parseIpv4(text: string): Uint8Array | undefined {
  const octets = text.split(".");
  if (octets.length !== 4 || !octets.every((octet) => OCTET.test(octet) && Number(octet) <= 255)) return undefined;
  return Uint8Array.from(octets, Number);
}

const GROUP = /^[\da-f]{1,4}$/i;

function parseIpv6(text: string): Uint8Array | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map((half, index) =>
    half === "" ? [] : bytesOfGroups(half.split(":"), index === halves.length - 1),
  );
  if (head === undefined || (halves.length === 2 && tail === undefined)) return undefined;
  if (halves.length === 1) return head.length === 16 ? Uint8Array.from(head) : undefined;
  const missing = 16 - head.length - (tail?.length ?? 0);
  if (missing < 2) return undefined;
  return Uint8Array.from([...head, ...Array.from({ length: missing }, () => 0), ...(tail ?? [])]);
}

/** The last group of an address may be an IPv4 address. */
function bytesOfGroups(groups: readonly string[], isLast: boolean): readonly number[] | undefined {
  const bytes = groups.flatMap((group, index) => {
    if (GROUP.test(group)) return [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255];
    const ipv4 = isLast && index === groups.length - 1 ? parseIpv4(group) : undefined;
    return ipv4 === undefined ? [Number.NaN] : [...ipv4];
  });
  return bytes.some(Number.isNaN) ? undefined : bytes;
}

/** The usual text of an address of 4 or 16 bytes; of IPv6 in the form of RFC 5952. */
export function formatIp(bytes: Uint8Array): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from({ length: 8 }, (_, index) =>
    (((bytes[2 * index] ?? 0) << 8) | (bytes[2 * index + 1] ?? 0)).toString(16),
  );
  const zeros = longestZeros(groups);
  if (zeros.length < 2) return groups.join(":");
  return `${groups.slice(0, zeros.start).join(":")}::${groups.slice(zeros.start + zeros.length).join(":")}`;
}

/** The first of the longest runs of zeros. */
function longestZeros(groups: readonly string[]): { readonly start: number; readonly length: number } {
  let longest = { start: 0, length: 0 };
  for (let start = 0; start < groups.length; start++) {
    const end = groups.findIndex((group, index) => index >= start && group !== "0");
    const length = (end < 0 ? groups.length : end) - start;
    if (length > longest.length) longest = { start, length };
  }
  return longest;
}

/** An address with the length of its network's prefix. */
export interface IpPrefix {
  readonly bytes: Uint8Array;
  readonly bits: number;
}

/** Parses `10.88.0.5/16`. Undefined if it is no address with a length that fits. */
export function parsePrefix(text: string): IpPrefix | undefined {
  const [address = "", length = "", ...rest] = text.split("/");
  const bytes = parseIp(address);
  if (bytes === undefined || rest.length > 0 || !OCTET.test(length) || Number(length) > 8 * bytes.length)
    return undefined;
  return { bytes, bits: Number(length) };
}

export const formatPrefix = ({ bytes, bits }: IpPrefix): string => `${formatIp(bytes)}/${bits}`;

/** The mask of a prefix: 24 of 4 bytes → 255.255.255.0. */
export const maskOf = (bits: number, length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => 255 & ~(255 >> Math.min(8, Math.max(0, bits - 8 * index))));

/** The first address of the network of a prefix: 10.88.0.5/16 → 10.88.0.0/16. */
export function networkOf({ bytes, bits }: IpPrefix): IpPrefix {
  const mask = maskOf(bits, bytes.length);
  return { bytes: bytes.map((byte, index) => byte & (mask[index] ?? 0)), bits };
}

/** Whether an address is in the network of a prefix; never one of the other family. */
export function isInNetwork(address: Uint8Array, prefix: IpPrefix): boolean {
  return (
    address.length === prefix.bytes.length &&
    Buffer.compare(networkOf({ bytes: address, bits: prefix.bits }).bytes, networkOf(prefix).bytes) === 0
  );
}

/** An address as a number, for arithmetic. */
export const ipToNumber = (bytes: Uint8Array): bigint =>
  bytes.reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);

/** The address of a number; `length` is 4 or 16. */
export const ipFromNumber = (number: bigint, length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => Number((number >> BigInt(8 * (length - 1 - index))) & 255n));
