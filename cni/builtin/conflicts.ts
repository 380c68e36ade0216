import { formatIp, formatPrefix, type IpPrefix, isInNetwork } from "../../host/ip-address.ts";
import { type LinkAddress, listAddresses, listAllAddresses } from "../../host/netlink/addresses.ts";
import { type Link, listLinks } from "../../host/netlink/links.ts";
import { listRoutes, type Route } from "../../host/netlink/routes.ts";
import { CniError, cniCodes } from "../error.ts";
import { formatId, isBridgeAlias } from "./attachment-names.ts";
import type { AttachmentRecord } from "./attachment-store.ts";
import { builtinCodes } from "./errors.ts";
import type { BuiltinConf } from "./network-conf.ts";
import type { NodeNetwork } from "./node-network.ts";

/** Another built-in network of this node, and its attachments. */
export interface OtherNetwork {
  readonly name: string;
  readonly attachments: readonly AttachmentRecord[];
}

/** What refuses a network, beside the addresses and the routes of the node. */
export interface NetworkNeighbours {
  /** The link of the bridge's name. */
  readonly bridge: Link | undefined;
  /** The attachments of the network. */
  readonly recorded: readonly AttachmentRecord[];
  readonly others: readonly OtherNetwork[];
}

/**
 * Throws `CniError` if the bridge, the name or a subnet of a network belongs to something else: code 7 for the name, 103 for the bridge,
 * 107 for a subnet. Only reads.
 */
export function refuseConflicts(
  node: NodeNetwork,
  conf: BuiltinConf,
  { bridge, recorded, others }: NetworkNeighbours,
): void {
  refuseOtherBridge(conf, recorded);
  refuseSharedBridge(conf, others);
  if (bridge !== undefined) findEarlierAddresses(node, conf, bridge);
  const paths = {
    addresses: listAllAddresses(node.route),
    routes: [...listRoutes(node.route, 4), ...listRoutes(node.route, 16)],
  };
  const conflict = findConflictingPath(subnetsOf(conf), paths, bridge?.index);
  if (conflict === undefined) return;
  const link = listLinks(node.route).find(({ index }) => index === conflict.link)?.name ?? `link ${conflict.link}`;
  const message = `the network ${conf.name}: ${formatPrefix(conflict.subnet)} contains ${describePath(conflict, link)}. Set ranges, or podCIDR of the node, to a subnet that the node does not use`;
  throw new CniError(builtinCodes.subnet, message);
}

/** What the node reaches, and over which links. */
interface NodePaths {
  readonly addresses: readonly LinkAddress[];
  readonly routes: readonly Route[];
}

interface ConflictingPath {
  readonly kind: "address" | "gateway" | "network";
  readonly subnet: IpPrefix;
  /** The address, gateway or network in the subnet. */
  readonly target: string;
  /** The index of the link. */
  readonly link: number;
}

function describePath({ kind, target }: ConflictingPath, link: string): string {
  if (kind === "address") return `${target}, the node's address on ${link}`;
  return kind === "gateway"
    ? `${target}, a gateway of the node on ${link}`
    : `${target}, which the node reaches over ${link}`;
}

/**
 * Returns the first address, gateway or network in one of the subnets that the node reaches over another link than the bridge, and would no
 * longer reach; undefined if there is none. A single address of the node, such as that of a load balancer on `lo`, does not count: no pod
 * gets it. Nor does a route to a single address.
 *
 * @internal
 */
export function findConflictingPath(
  subnets: readonly IpPrefix[],
  { addresses, routes }: NodePaths,
  bridge: number | undefined,
): ConflictingPath | undefined {
  const isWithin = (inner: IpPrefix, subnet: IpPrefix) => inner.bits >= subnet.bits && isInNetwork(inner.bytes, subnet);
  const isSingle = ({ bytes, bits }: IpPrefix) => bits === 8 * bytes.length;
  for (const subnet of subnets) {
    for (const { link, ...address } of addresses)
      if (link !== bridge && !isSingle(address) && isInNetwork(address.bytes, subnet))
        return { kind: "address", subnet, target: formatIp(address.bytes), link };
    for (const { to, gateway, link } of routes) {
      if (link === bridge || link === 0) continue;
      if (gateway !== undefined && isInNetwork(gateway, subnet))
        return { kind: "gateway", subnet, target: formatIp(gateway), link };
      if (!isSingle(to) && isWithin(to, subnet)) return { kind: "network", subnet, target: formatPrefix(to), link };
    }
  }
  return undefined;
}

const subnetsOf = ({ ranges }: BuiltinConf): readonly IpPrefix[] => ranges.flat().map(({ subnet }) => subnet);

/** Two networks on one bridge could give two pods one address: each has a record of its own. */
function refuseSharedBridge({ name, bridge }: BuiltinConf, others: readonly OtherNetwork[]): void {
  for (const other of others) {
    const attachments = other.attachments.filter(({ bridgeName }) => bridgeName === bridge);
    const [first] = attachments;
    if (first === undefined) continue;
    const id = formatId(first);
    const has = attachments.length === 1 ? `the attachment ${id}` : `${attachments.length} attachments, such as ${id}`;
    const message = `the network ${name}: the built-in network ${other.name} has ${has}, on the bridge ${bridge}. Set bridge to another name, or delete those pods`;
    throw new CniError(builtinCodes.bridge, message);
  }
}

const LINK_LOCAL: IpPrefix = { bytes: Uint8Array.of(0xfe, 0x80, ...new Uint8Array(14)), bits: 10 };

/**
 * Returns the addresses of the bridge that are no gateways: those of an earlier configuration, or of an earlier built-in network. Throws
 * `CniError` (code 103) if the link is no bridge, if the bridge has such addresses and ports, whose pods would lose their gateway, or if no
 * built-in network has made it.
 */
export function findEarlierAddresses(node: NodeNetwork, conf: BuiltinConf, bridge: Link): readonly IpPrefix[] {
  refuseOtherKind(conf, bridge);
  const wanted = gatewaysOf(conf);
  const present = listAddresses(node.route, bridge).filter(({ bytes }) => !isInNetwork(bytes, LINK_LOCAL));
  const foreign = present.filter((each) => !wanted.some(isSame(each)));
  const refuse = (what: string, remedy: string) => {
    const [has, needs] = [foreign, wanted].map((all) => all.map(formatPrefix).join(", "));
    const message = `the network ${conf.name}: the bridge ${bridge.name} has the address ${has} ${what}; this network needs ${needs}. ${remedy}, or set bridge to another name`;
    return new CniError(builtinCodes.bridge, message);
  };
  if (foreign.length > 0 && listLinks(node.route).some(({ master }) => master === bridge.index))
    throw refuse("and ports that use it", "Delete the pods of the other network");
  if (foreign.length > 0 && !isBridgeAlias(bridge.alias)) throw refuse("of another program", "Remove the address");
  return foreign;
}

/** Throws `CniError` (code 103) if the link with the bridge's name is no bridge. */
export function refuseOtherKind(conf: BuiltinConf, { kind }: Link): void {
  if (kind === "bridge") return;
  throw new CniError(
    builtinCodes.bridge,
    `the network ${conf.name}: the link ${conf.bridge} is ${kind === "" ? "no bridge" : `of the kind ${kind}`}; delete it, or set bridge to another name`,
  );
}

/** The record, the addresses and the chain of masquerade have the name of the network: with two bridges, one would take them from the other's pods. */
function refuseOtherBridge({ name, bridge }: BuiltinConf, recorded: readonly AttachmentRecord[]): void {
  const others = recorded.filter(({ bridgeName = bridge }) => bridgeName !== bridge);
  const [first] = others;
  if (first === undefined) return;
  const id = formatId(first);
  const have =
    others.length === 1
      ? `the attachment ${id} of a network of this name has`
      : `${others.length} attachments of a network of this name, such as ${id}, have`;
  throw new CniError(
    cniCodes.invalidNetworkConf,
    `the network ${name}: bridge is ${bridge}, and ${have} the bridge ${first.bridgeName}. Give one of the two networks another name, or delete the pods on ${first.bridgeName}`,
  );
}

export const isSame = (a: IpPrefix) => (b: IpPrefix) => formatPrefix(a) === formatPrefix(b);

/** The addresses of the bridge. */
export const gatewaysOf = ({ ranges }: BuiltinConf): readonly IpPrefix[] => {
  const all = ranges.flat().map(({ gateway, subnet }) => ({ bytes: gateway, bits: subnet.bits }));
  return all.filter((each, index) => all.findIndex((other) => formatPrefix(other) === formatPrefix(each)) === index);
};
