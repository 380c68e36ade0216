// IP addresses of links over rtnetlink(7).

import { formatPrefix, type IpPrefix, maskOf } from "../ip-address.ts";
import {
  type Attribute,
  attributesByType,
  concat,
  type NetlinkMessage,
  NLM_F_CREATE,
  NLM_F_EXCL,
  readU32,
  u32,
} from "./codec.ts";
import { unlessCode } from "./error.ts";
import type { Link } from "./links.ts";
import type { NetlinkSocket } from "./socket.ts";

const RTM_NEWADDR = 20;
const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_BROADCAST = 4;
const IFA_F_NODAD = 0x02;

/** struct ifaddrmsg: family, length of the prefix, flags, scope (universe), index. */
const ifaddr = (length: number, bits: number, flags: number, index: number) =>
  concat(Uint8Array.of(familyOf(length), bits, flags, 0), u32(index));

/** AF_INET or AF_INET6, by the length of an address in bytes. */
export const familyOf = (length: number): number => (length === 4 ? 2 : 10);

/** The last address of a network of IPv4, where it has a broadcast address. */
function broadcastAttribute({ bytes, bits }: IpPrefix): readonly Attribute[] {
  if (bytes.length !== 4 || bits > 30) return [];
  const mask = maskOf(bits, bytes.length);
  return [[IFA_BROADCAST, bytes.map((byte, index) => byte | (255 & ~(mask[index] ?? 0)))]];
}

/**
 * Adds an address with the route to its network. An IPv6 address can be used at once: who allocates it knows that no
 * other link has it, so the kernel need not ask (NODAD). Throws `EEXIST`, or `EACCES` where IPv6 is disabled.
 */
export function addAddress(socket: NetlinkSocket, link: Pick<Link, "index" | "name">, prefix: IpPrefix): void {
  const { bytes, bits } = prefix;
  socket.request({
    type: RTM_NEWADDR,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: ifaddr(bytes.length, bits, bytes.length === 4 ? 0 : IFA_F_NODAD, link.index),
    attributes: [[IFA_LOCAL, bytes], [IFA_ADDRESS, bytes], ...broadcastAttribute(prefix)],
    what: `add the address ${formatPrefix(prefix)} to ${link.name}`,
  });
}

/** Removes an address. An absent one is success. */
export function removeAddress(socket: NetlinkSocket, link: Pick<Link, "index" | "name">, prefix: IpPrefix): void {
  const { bytes, bits } = prefix;
  unlessCode(["EADDRNOTAVAIL"], () =>
    socket.request({
      type: RTM_DELADDR,
      flags: 0,
      body: ifaddr(bytes.length, bits, 0, link.index),
      attributes: [[IFA_LOCAL, bytes]],
      what: `remove the address ${formatPrefix(prefix)} from ${link.name}`,
    }),
  );
}

/** All addresses of a link. */
export function listAddresses(socket: NetlinkSocket, link: Pick<Link, "index" | "name">): readonly IpPrefix[] {
  // The body selects the link: the socket asks for strict checks.
  const request = {
    type: RTM_GETADDR,
    flags: 0,
    body: concat(Uint8Array.of(0, 0, 0, 0), u32(link.index)),
    attributes: [],
    what: `list the addresses of ${link.name}`,
  };
  return socket.dump(request).map(toPrefix);
}

/** An address of a link, by the link's index. */
export interface LinkAddress extends IpPrefix {
  readonly link: number;
}

/** The addresses of all links. */
export function listAllAddresses(socket: NetlinkSocket): readonly LinkAddress[] {
  const body = concat(Uint8Array.of(0, 0, 0, 0), u32(0));
  const request = { type: RTM_GETADDR, flags: 0, body, attributes: [], what: "list the addresses of all links" };
  return socket
    .dump(request)
    .map((message) => ({ ...toPrefix(message), link: readU32(message.payload.subarray(4)) ?? 0 }));
}

function toPrefix({ payload }: NetlinkMessage): IpPrefix {
  const attributes = attributesByType(payload.subarray(8));
  const bytes = attributes.get(IFA_LOCAL) ?? attributes.get(IFA_ADDRESS) ?? new Uint8Array(4);
  return { bytes, bits: payload[1] ?? 0 };
}
