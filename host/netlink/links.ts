// Links over rtnetlink(7): bridges, veth pairs and ifbs.

import { randomInt } from "node:crypto";
import {
  type Attribute,
  attributesByType,
  concat,
  encodeAttributes,
  type NetlinkMessage,
  NLM_F_CREATE,
  NLM_F_EXCL,
  NLMSG_NOOP,
  readText,
  readU32,
  text,
  u8,
  u32,
} from "./codec.ts";
import { NetlinkError, unlessCode } from "./error.ts";
import type { NetlinkRequest, NetlinkSocket } from "./socket.ts";

const RTM_NEWLINK = 16;
const RTM_DELLINK = 17;
const RTM_GETLINK = 18;
const RTM_SETLINK = 19;
const AF_UNSPEC = 0;
const AF_INET = 2;
const IFLA_ADDRESS = 1;
const IFLA_IFNAME = 3;
const IFLA_MTU = 4;
const IFLA_MASTER = 10;
const IFLA_LINKINFO = 18;
const IFLA_IFALIAS = 20;
const IFLA_AF_SPEC = 26;
const IFLA_GROUP = 27;
const IFLA_NET_NS_FD = 28;
const IFLA_INFO_KIND = 1;
const IFLA_INFO_DATA = 2;
const IFLA_INFO_SLAVE_KIND = 4;
const IFLA_INFO_SLAVE_DATA = 5;
const IFLA_BRPORT_MODE = 4;
const VETH_INFO_PEER = 1;
const IFLA_INET_CONF = 1;
const IPV4_DEVCONF_ROUTE_LOCALNET = 26;
const IFF_UP = 0x1;

/** The kernel's limit of a name (IFNAMSIZ), without the null byte. */
const MAX_NAME_BYTES = 15;

/** A link as the kernel describes it. */
export interface Link {
  readonly index: number;
  readonly name: string;
  readonly isUp: boolean;
  readonly mtu: number;
  /** Six bytes in hexadecimal: `0a:58:0a:58:00:05`. Empty for links without a hardware address. */
  readonly mac: string;
  /** The index of the bridge that the link is a port of; 0 if there is none. */
  readonly master: number;
  /** `bridge`, `veth`, `ifb`; empty for links that no driver of this kind has made, such as `lo`. */
  readonly kind: string;
  /** What `ip link set alias` writes; empty if there is none. */
  readonly alias: string;
  /** 0 unless a program has put it in another group. */
  readonly group: number;
}

/** struct ifinfomsg. */
const ifinfo = (index: number, flags = 0, change = 0) => u32(AF_UNSPEC, index, flags, change);

/** Whether the kernel accepts a name of a link. */
export const isLinkName = (name: string): boolean =>
  /^[^\s/:\0]+$/.test(name) && name !== "." && name !== ".." && Buffer.byteLength(name) <= MAX_NAME_BYTES;

/** Parses six bytes in hexadecimal; undefined if it is not that, or a group or zero address, which no link can have. */
export function parseMac(mac: string): Uint8Array | undefined {
  if (!/^[\da-f]{2}([:-][\da-f]{2}){5}$/i.test(mac)) return undefined;
  const bytes = Uint8Array.from(mac.split(/[:-]/), (byte) => Number.parseInt(byte, 16));
  return ((bytes[0] ?? 0) & 1) === 1 || bytes.every((byte) => byte === 0) ? undefined : bytes;
}

const formatMac = (bytes: Uint8Array | undefined) =>
  [...(bytes ?? [])].map((byte) => byte.toString(16).padStart(2, "0")).join(":");

const linkInfo = (kind: string, content: readonly Attribute[] = []): Attribute => [
  IFLA_LINKINFO,
  [[IFLA_INFO_KIND, text(kind)], ...(content.length === 0 ? [] : [[IFLA_INFO_DATA, content] as const])],
];

const mtuAttribute = (mtu: number | undefined): readonly Attribute[] =>
  mtu === undefined ? [] : [[IFLA_MTU, u32(mtu)]];

const macAttribute = (mac: Uint8Array | undefined): readonly Attribute[] =>
  mac === undefined ? [] : [[IFLA_ADDRESS, mac]];

interface LinkInput {
  readonly name: string;
  /** The kernel's default if undefined. */
  readonly mtu?: number | undefined;
  /** A random one if undefined. */
  readonly mac?: Uint8Array | undefined;
}

interface BridgeInput extends LinkInput {
  readonly mac: Uint8Array;
  /** None if undefined. */
  readonly alias?: string | undefined;
}

/**
 * Creates a bridge that is up, with a hardware address of its own: the kernel would change one that it has chosen itself
 * whenever a port comes or goes. Throws `EEXIST` if a link has the name, and leaves that link as it is.
 *
 * One datagram creates the bridge and sets its alias, so that a killed process leaves no bridge without one. The kernel carries
 * out the second request also when it has refused the first. So the first one chooses the index of the new link, and the second
 * one names the link by that: another program's link of this name has another index.
 */
export function createBridge(socket: NetlinkSocket, { name, mtu, mac, alias }: BridgeInput): void {
  const index = alias === undefined ? 0 : randomInt(...CHOSEN_INDEXES);
  const creation: NetlinkRequest = {
    type: RTM_NEWLINK,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: ifinfo(index, IFF_UP, IFF_UP),
    attributes: [[IFLA_IFNAME, text(name)], ...mtuAttribute(mtu), ...macAttribute(mac), linkInfo("bridge")],
    what: `create the bridge ${name}`,
  };
  if (alias === undefined) socket.request(creation);
  else socket.batch(NOOP, [creation, aliasRequest({ index, name }, alias)], NOOP);
}

/** Far above the indexes that the kernel chooses, which it counts up from 1; the last one is the largest of 31 bits. */
const CHOSEN_INDEXES = [2 ** 30, 2 ** 31 - 1] as const;

/** The kernel skips NLMSG_NOOP. */
const NOOP = { type: NLMSG_NOOP, flags: 0, body: new Uint8Array(0), attributes: [] };

/** Creates an ifb device that is up. Throws `EEXIST` if a link has the name. */
export function createIfb(socket: NetlinkSocket, { name, mtu }: LinkInput): void {
  socket.request({
    type: RTM_NEWLINK,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: ifinfo(0, IFF_UP, IFF_UP),
    attributes: [[IFLA_IFNAME, text(name)], ...mtuAttribute(mtu), linkInfo("ifb")],
    what: `create the ifb device ${name}`,
  });
}

interface VethInput {
  readonly name: string;
  readonly mtu: number;
  /** The index of the bridge. */
  readonly master: number;
  /** The other end, in the namespace of `descriptor`. */
  readonly peer: LinkInput & { readonly descriptor: number };
}

/** Creates a veth pair, of which one end is a port of a bridge and the other is in another namespace. Both are down. Throws `EEXIST`. */
export function createVeth(socket: NetlinkSocket, { name, mtu, master, peer }: VethInput): void {
  const peerAttributes: readonly Attribute[] = [
    [IFLA_IFNAME, text(peer.name)],
    ...mtuAttribute(mtu),
    ...macAttribute(peer.mac),
    [IFLA_NET_NS_FD, u32(peer.descriptor)],
  ];
  // The peer is a struct ifinfomsg with attributes of its own inside of one attribute.
  const peerContent = concat(ifinfo(0), encodeAttributes(peerAttributes));
  socket.request({
    type: RTM_NEWLINK,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: ifinfo(0),
    attributes: [
      [IFLA_IFNAME, text(name)],
      ...mtuAttribute(mtu),
      [IFLA_MASTER, u32(master)],
      linkInfo("veth", [[VETH_INFO_PEER, peerContent]]),
    ],
    what: `create the veth pair ${name} and ${peer.name}`,
  });
}

/** Sets a port of a bridge up, without IPv6 addresses of its own. `hairpin`: frames may leave by the port that they came from. */
export function setPortUp(socket: NetlinkSocket, link: Pick<Link, "index" | "name">, hairpin: boolean): void {
  setLink(socket, link, "set the port up", [
    [
      IFLA_LINKINFO,
      [
        [IFLA_INFO_SLAVE_KIND, text("bridge")],
        [IFLA_INFO_SLAVE_DATA, [[IFLA_BRPORT_MODE, u8(hairpin ? 1 : 0)]]],
      ],
    ],
  ]);
}

export function setUp(socket: NetlinkSocket, link: Pick<Link, "index" | "name">): void {
  setLink(socket, link, "set up", []);
}

/** Sets the alias, which `ip link` shows. */
export function setAlias(socket: NetlinkSocket, link: Pick<Link, "index" | "name">, alias: string): void {
  socket.request(aliasRequest(link, alias));
}

const aliasRequest = ({ index, name }: Pick<Link, "index" | "name">, alias: string): NetlinkRequest => ({
  type: RTM_SETLINK,
  flags: 0,
  body: ifinfo(index),
  attributes: [[IFLA_IFALIAS, new TextEncoder().encode(alias)]],
  what: `set the alias of ${name}`,
});

/** Routes packets to and from 127.0.0.0/8 over this link, which the kernel drops otherwise (`route_localnet`). */
export function setRouteLocalnet(socket: NetlinkSocket, link: Pick<Link, "index" | "name">): void {
  setLink(socket, link, "set route_localnet of", [
    [IFLA_AF_SPEC, [[AF_INET, [[IFLA_INET_CONF, [[IPV4_DEVCONF_ROUTE_LOCALNET, u32(1)]]]]]]],
  ]);
}

function setLink(
  socket: NetlinkSocket,
  { index, name }: Pick<Link, "index" | "name">,
  verb: string,
  attributes: readonly Attribute[],
): void {
  socket.request({
    type: RTM_NEWLINK,
    flags: 0,
    body: ifinfo(index, IFF_UP, IFF_UP),
    attributes,
    what: `${verb} ${name}`,
  });
}

/** The link of a name; undefined if there is none. */
export function findLink(socket: NetlinkSocket, name: string): Link | undefined {
  const request: NetlinkRequest = {
    type: RTM_GETLINK,
    flags: 0,
    body: ifinfo(0),
    attributes: [[IFLA_IFNAME, text(name)]],
    what: `read the link ${name}`,
  };
  const [message] = unlessCode(["ENODEV"], () => socket.request(request)) ?? [];
  return message === undefined ? undefined : toLink(message);
}

/** The link of a name. Throws `ENODEV` if there is none. */
export function readLink(socket: NetlinkSocket, name: string): Link {
  const link = findLink(socket, name);
  if (link === undefined) throw new NetlinkError("ENODEV", `read the link ${name}`, "it does not exist");
  return link;
}

export function listLinks(socket: NetlinkSocket): readonly Link[] {
  return socket
    .dump({ type: RTM_GETLINK, flags: 0, body: ifinfo(0), attributes: [], what: "list the links" })
    .map(toLink);
}

/** Deletes a link, of a veth pair both ends. An absent one is success. */
export function deleteLink(socket: NetlinkSocket, name: string): void {
  unlessCode(["ENODEV"], () =>
    socket.request({
      type: RTM_DELLINK,
      flags: 0,
      body: ifinfo(0),
      attributes: [[IFLA_IFNAME, text(name)]],
      what: `delete the link ${name}`,
    }),
  );
}

/** Puts a link into a group. Throws `ENODEV` if there is none of this name. */
export function setGroup(socket: NetlinkSocket, name: string, group: number): void {
  socket.request({
    ...groupRequest(name, group),
    body: ifinfo(0),
    what: `put the link ${name} into the group ${group}`,
  });
}

/** As `setGroup`, and sets the link down. */
export function setDownInGroup(socket: NetlinkSocket, name: string, group: number): void {
  socket.request({ ...groupRequest(name, group), body: ifinfo(0, 0, IFF_UP), what: `set the link ${name} down` });
}

const groupRequest = (name: string, group: number) => ({
  type: RTM_SETLINK,
  flags: 0,
  attributes: [
    [IFLA_IFNAME, text(name)],
    [IFLA_GROUP, u32(group)],
  ] as readonly Attribute[],
});

/** Deletes all links of a group at once. No link is success. */
export function deleteGroup(socket: NetlinkSocket, group: number): void {
  unlessCode(["ENODEV"], () =>
    socket.request({
      type: RTM_DELLINK,
      flags: 0,
      body: ifinfo(0),
      attributes: [[IFLA_GROUP, u32(group)]],
      what: `delete the links of the group ${group}`,
    }),
  );
}

function toLink({ payload }: NetlinkMessage): Link {
  const attributes = attributesByType(payload.subarray(16));
  const info = attributesByType(attributes.get(IFLA_LINKINFO));
  return {
    index: readU32(payload.subarray(4)) ?? 0,
    name: readText(attributes.get(IFLA_IFNAME)),
    isUp: ((readU32(payload.subarray(8)) ?? 0) & IFF_UP) !== 0,
    mtu: readU32(attributes.get(IFLA_MTU)) ?? 0,
    mac: formatMac(attributes.get(IFLA_ADDRESS)),
    master: readU32(attributes.get(IFLA_MASTER)) ?? 0,
    kind: readText(info.get(IFLA_INFO_KIND)),
    alias: readText(attributes.get(IFLA_IFALIAS)),
    group: readU32(attributes.get(IFLA_GROUP)) ?? 0,
  };
}
