// Routes over rtnetlink(7).

import { formatIp, formatPrefix, type IpPrefix } from "../ip-address.ts";
import { familyOf } from "./addresses.ts";
import {
  type Attribute,
  attributesByType,
  type NetlinkMessage,
  NLM_F_CREATE,
  NLM_F_EXCL,
  readU32,
  u32,
} from "./codec.ts";
import { unlessCode } from "./error.ts";
import type { Link } from "./links.ts";
import type { NetlinkSocket } from "./socket.ts";

const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;
const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RT_TABLE_MAIN = 254;
const RTPROT_BOOT = 3;
const RT_SCOPE_NOWHERE = 255;
const RTN_UNICAST = 1;
const RTN_LOCAL = 2;

/** A route of the main table. `gateway` is undefined for a network that is on the link itself. */
export interface Route {
  readonly to: IpPrefix;
  readonly gateway: Uint8Array | undefined;
  /** The index of the link; 0 for routes without one, such as unreachable ones. */
  readonly link: number;
}

/** struct rtmsg: family, length of the destination, of the source, tos, table, protocol, scope, type, flags. */
const rtmsg = (length: number, bits: number, table = 0, protocol = 0, type = 0) =>
  Uint8Array.of(familyOf(length), bits, 0, 0, table, protocol, 0, type, 0, 0, 0, 0);

/** Adds a route over a gateway of a link. Throws `EEXIST`, or `ENETUNREACH` if the link does not reach the gateway. */
export function addRoute(
  socket: NetlinkSocket,
  link: Pick<Link, "index" | "name">,
  { to, gateway }: { readonly to: IpPrefix; readonly gateway: Uint8Array },
): void {
  const destination: readonly Attribute[] = to.bits === 0 ? [] : [[RTA_DST, to.bytes]];
  socket.request({
    type: RTM_NEWROUTE,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: rtmsg(to.bytes.length, to.bits, RT_TABLE_MAIN, RTPROT_BOOT, RTN_UNICAST),
    attributes: [...destination, [RTA_GATEWAY, gateway], [RTA_OIF, u32(link.index)]],
    what: `add the route to ${formatPrefix(to)} over ${formatIp(gateway)} on ${link.name}`,
  });
}

/** Removes a route of a link from the main table. Absent is success. */
export function removeRoute(socket: NetlinkSocket, { to, gateway, link }: Route): void {
  const destination: readonly Attribute[] = to.bits === 0 ? [] : [[RTA_DST, to.bytes]];
  const over: readonly Attribute[] = gateway === undefined ? [] : [[RTA_GATEWAY, gateway]];
  const request = {
    type: RTM_DELROUTE,
    flags: 0,
    // No protocol and no scope: those of the route do not matter.
    body: rtmsg(to.bytes.length, to.bits, RT_TABLE_MAIN).with(6, RT_SCOPE_NOWHERE),
    attributes: [...destination, ...over, [RTA_OIF, u32(link)]] as const,
    what: `remove the route to ${formatPrefix(to)} of link ${link}`,
  };
  unlessCode(["ESRCH"], () => socket.request(request));
}

/** The routes of the main table of a family, which is that of an address of 4 or 16 bytes. */
export function listRoutes(socket: Pick<NetlinkSocket, "dump">, length: 4 | 16): readonly Route[] {
  const request = {
    type: RTM_GETROUTE,
    flags: 0,
    body: rtmsg(length, 0),
    attributes: [],
    what: "list the routes",
  };
  // A kernel without IPv6 (`ipv6.disable=1`) answers with the routes of all other families.
  const isWanted = ({ payload }: NetlinkMessage) => payload[0] === familyOf(length) && payload[4] === RT_TABLE_MAIN;
  return socket
    .dump(request)
    .filter(isWanted)
    .map((message) => toRoute(message, length));
}

function toRoute({ payload }: NetlinkMessage, length: number): Route {
  const attributes = attributesByType(payload.subarray(12));
  return {
    to: { bytes: attributes.get(RTA_DST) ?? new Uint8Array(length), bits: payload[1] ?? 0 },
    gateway: attributes.get(RTA_GATEWAY),
    link: readU32(attributes.get(RTA_OIF)) ?? 0,
  };
}

/** Whether an address is one of this namespace's own. */
export function isLocalAddress(socket: NetlinkSocket, address: Uint8Array): boolean {
  const request = {
    type: RTM_GETROUTE,
    flags: 0,
    body: rtmsg(address.length, 8 * address.length),
    attributes: [[RTA_DST, address]] as const,
    what: `find the route to ${formatIp(address)}`,
  };
  // Without a route the address is certainly none of ours.
  const [message] = unlessCode(["ENETUNREACH", "EHOSTUNREACH"], () => socket.request(request)) ?? [];
  return message?.payload[7] === RTN_LOCAL;
}
