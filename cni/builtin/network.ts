import { formatIp, formatPrefix, type IpPrefix } from "../../host/ip-address.ts";
import { listAddresses, removeAddress } from "../../host/netlink/addresses.ts";
import { unlessCode } from "../../host/netlink/error.ts";
import { createBridge, findLink, type Link, listLinks, readLink, setAlias, setUp } from "../../host/netlink/links.ts";
import { change, countRules, type MapEntry, readGeneration } from "../../host/netlink/nftables.ts";
import { listRoutes } from "../../host/netlink/routes.ts";
import { bridgeAlias, formatId, isBridgeAlias, macOf } from "./attachment-names.ts";
import type { AttachmentRecord, AttachmentStore } from "./attachment-store.ts";
import {
  findEarlierAddresses,
  gatewaysOf,
  isSame,
  type OtherNetwork,
  refuseConflicts,
  refuseOtherKind,
} from "./conflicts.ts";
import { findPresentEntries, hostPortsOf, openRecordedPorts } from "./host-ports.ts";
import type { BuiltinConf } from "./network-conf.ts";
import { addAddressWithIpv6, type NodeNetwork } from "./node-network.ts";
import { findMissingRules, networkRequests, sharedRequests, TABLE } from "./ruleset.ts";

/** The bridge of a network, which is up, and the configuration (`fingerprint`) by which it and the rules were made. */
export interface NetworkBridge {
  readonly fingerprint: string;
  readonly bridge: Link;
  readonly mtu: number;
  /** The last generation of nftables in which the rules and the host ports were found complete; undefined before they are looked at. */
  readonly generation: number | undefined;
  /** The map entries of the attachments with host ports, by the id as text. ADD adds those of its pod, DEL removes them. */
  readonly hostPorts: Map<string, readonly MapEntry[]>;
}

const DEFAULT_MTU = 1500;

/**
 * Makes what all pods of a network share, as far as it is absent: the bridge with its gateways, forwarding, and the rules
 * with the host ports of the recorded attachments. `readOthers` reads the other built-in networks of the node. `known` is the result of the last call: as long as all of it is there,
 * nothing is made; undefined makes all of it again. Throws `NetlinkError`, or `CniError` as `refuseConflicts` does; then nothing has changed.
 */
export function ensureNetwork(
  node: NodeNetwork,
  conf: BuiltinConf,
  store: AttachmentStore,
  known: NetworkBridge | undefined,
  readOthers: () => readonly OtherNetwork[],
): NetworkBridge {
  const fingerprint = fingerprintOf(conf);
  const bridge = findLink(node.route, conf.bridge);
  const isKnown = known?.fingerprint === fingerprint && known.bridge.index === bridge?.index && bridge.isUp;
  const complete = isKnown ? keepIfComplete(node, conf, known) : undefined;
  if (complete !== undefined) return complete;
  const recorded = store.list();
  // Throws before anything has changed.
  refuseConflicts(node, conf, { bridge, recorded, others: readOthers() });
  const mtu = conf.mtu ?? defaultMtu(node);
  // By the folder a later removal finds what follows, even if no attachment is ever recorded.
  store.makeFolders();
  // The rules come first: they guard 127.0.0.0/8 before any pod is on the bridge.
  const hostPorts = ensureRules(node, conf, recorded);
  const made = ensureBridge(node, conf, mtu, bridge);
  node.setSysctl(`ipv6/conf/${conf.bridge}/accept_ra`, "0");
  // Otherwise the kernel finds no pod by IPv6 for the first second or two, while it checks the bridge's own address.
  node.setSysctl(`ipv6/conf/${conf.bridge}/accept_dad`, "0");
  ensureGateways(node, conf, made);
  for (const path of forwardingOf(conf)) node.setSysctl(path, "1");
  // Another program may have changed the rules since they were made, so the next call looks at them.
  return { fingerprint, bridge: made, mtu, generation: undefined, hostPorts };
}

/**
 * `known`, if all that it says is still there; forwarding that is off is switched on. While nothing has changed, that is two requests and a
 * read of a file for each family. With another generation the rules are read too, and the maps if they are to have host ports.
 */
function keepIfComplete(node: NodeNetwork, conf: BuiltinConf, known: NetworkBridge): NetworkBridge | undefined {
  for (const path of forwardingOf(conf)) node.setSysctl(path, "1");
  if (findMissingGateways(node, conf, known.bridge).length > 0) return undefined;
  // It is read first: what changes during the look shows in the next one.
  const generation = readGeneration(node.netfilter);
  if (generation !== undefined && generation === known.generation) return known;
  if (findMissingRules(conf, countRules(node.netfilter, TABLE)) !== undefined) return undefined;
  const entries = [...known.hostPorts.values()].flat();
  return findPresentEntries(node, entries).length < entries.length ? undefined : { ...known, generation };
}

/** The settings below /proc/sys/net without which the node forwards nothing for the pods. */
export function forwardingOf({ ranges }: Pick<BuiltinConf, "ranges">): readonly string[] {
  const families = new Set(ranges.flat().map(({ subnet }) => subnet.bytes.length));
  return [...(families.has(4) ? ["ipv4/ip_forward"] : []), ...(families.has(16) ? ["ipv6/conf/all/forwarding"] : [])];
}

const fingerprintOf = ({ bridge, mtu, ipMasq, ranges }: BuiltinConf) =>
  JSON.stringify([
    bridge,
    mtu,
    ipMasq,
    ranges.flat().map(({ subnet, gateway }) => [formatPrefix(subnet), formatIp(gateway)]),
  ]);

/** The size that packets of the node can have on their way out. */
function defaultMtu(node: NodeNetwork): number {
  const [route] = [...listRoutes(node.route, 4), ...listRoutes(node.route, 16)].filter(({ to }) => to.bits === 0);
  const link = route === undefined ? undefined : listLinks(node.route).find(({ index }) => index === route.link);
  return link?.mtu ?? DEFAULT_MTU;
}

/** Replaces the rules as a whole; entries of host ports that exist stay. Returns the host ports of the recorded attachments. */
function ensureRules(
  node: NodeNetwork,
  conf: BuiltinConf,
  recorded: readonly AttachmentRecord[],
): NetworkBridge["hostPorts"] {
  change(node.netfilter, [...sharedRequests(), ...networkRequests(conf)]);
  const withPorts = recorded.filter(({ hostPorts }) => hostPorts.length > 0);
  openRecordedPorts(node, conf.name, withPorts);
  return readOpenPorts(node, conf.name, withPorts);
}

/** Without the ports that another pod has. */
function readOpenPorts(
  node: NodeNetwork,
  network: string,
  attachments: readonly AttachmentRecord[],
): NetworkBridge["hostPorts"] {
  const wanted = attachments.map((each) => [formatId(each), hostPortsOf(network, each)] as const);
  const present = new Set(
    findPresentEntries(
      node,
      wanted.flatMap(([, entries]) => entries),
    ),
  );
  return new Map(wanted.map(([id, entries]) => [id, entries.filter((entry) => present.has(entry))]));
}

function ensureBridge(node: NodeNetwork, conf: BuiltinConf, mtu: number, present: Link | undefined): Link {
  if (present === undefined) {
    const gateway = conf.ranges[0]?.[0]?.gateway ?? new Uint8Array(4);
    // Another process may create it at the same time: then the bridge is that one's, and has no alias of ours.
    unlessCode(["EEXIST"], () => {
      createBridge(node.route, { name: conf.bridge, mtu, mac: macOf(gateway), alias: bridgeAlias(conf.name) });
    });
  }
  const bridge = present ?? readLink(node.route, conf.bridge);
  refuseOtherKind(conf, bridge);
  // The bridge has the alias of another built-in network, which has no pods any more.
  const alias = bridgeAlias(conf.name);
  if (isBridgeAlias(bridge.alias) && bridge.alias !== alias) setAlias(node.route, bridge, alias);
  if (!bridge.isUp) setUp(node.route, bridge);
  return bridge;
}

/** Gives the bridge the gateways as its only addresses. Throws as `findEarlierAddresses` does. */
function ensureGateways(node: NodeNetwork, conf: BuiltinConf, bridge: Link): void {
  for (const prefix of findEarlierAddresses(node, conf, bridge)) removeAddress(node.route, bridge, prefix);
  for (const prefix of findMissingGateways(node, conf, bridge))
    unlessCode(["EEXIST"], () => addAddressWithIpv6(node.route, bridge, prefix, node.setSysctl));
}

/** The gateways that the bridge does not have as addresses. */
export function findMissingGateways(node: NodeNetwork, conf: BuiltinConf, bridge: Link): readonly IpPrefix[] {
  const present = listAddresses(node.route, bridge);
  return gatewaysOf(conf).filter((each) => !present.some(isSame(each)));
}
