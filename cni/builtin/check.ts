import { formatIp, formatPrefix } from "../../host/ip-address.ts";
import { listAddresses } from "../../host/netlink/addresses.ts";
import { REMOVAL_GROUP } from "../../host/netlink/link-removal.ts";
import { findLink, type Link } from "../../host/netlink/links.ts";
import { NETLINK_ROUTE, type NetworkNamespace } from "../../host/netlink/netlink.ts";
import { countRules } from "../../host/netlink/nftables.ts";
import { listRoutes } from "../../host/netlink/routes.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import { hostLinkName } from "./attachment-names.ts";
import type { AttachmentRecord } from "./attachment-store.ts";
import { findPresentEntries, hostPortsOf } from "./host-ports.ts";
import { findMissingGateways, forwardingOf } from "./network.ts";
import type { BuiltinConf } from "./network-conf.ts";
import type { NodeNetwork } from "./node-network.ts";
import { findMissingRules, TABLE } from "./ruleset.ts";

/** What an attachment has: its links, or the first difference from its record as a sentence. */
export type Inspection =
  | { readonly problem: undefined; readonly bridge: Link; readonly host: Link; readonly pod: Link }
  | { readonly problem: string };

/** Compares an attachment, whose pod has `namespace`, with its record. Changes nothing. Throws `NetlinkError`. */
export function inspect(
  node: NodeNetwork,
  conf: BuiltinConf,
  namespace: NetworkNamespace,
  attachment: AttachmentRecord,
): Inspection {
  const bridge = findLink(node.route, conf.bridge);
  if (bridge === undefined || !bridge.isUp) return { problem: `the bridge ${conf.bridge} is missing or down` };
  const name = hostLinkName(conf.name, attachment);
  const host = findLink(node.route, name);
  if (host === undefined) return { problem: `the link ${name} is missing` };
  if (host.master !== bridge.index) return { problem: `the link ${name} is no port of the bridge ${conf.bridge}` };
  if (!host.isUp) return { problem: `the link ${name} is down` };
  // DEL was killed between its marking of the link and the removal; the next removal of any link removes this one too.
  if (host.group === REMOVAL_GROUP) return { problem: `the link ${name} is about to be removed` };
  const ofNetwork = inspectNetwork(node, conf, bridge) ?? inspectRules(node, conf, attachment);
  if (ofNetwork !== undefined)
    return { problem: `${ofNetwork}; the next ADD or GC of the network ${conf.name} puts it back` };
  const inside = node.netlink.runIn(namespace, () => node.netlink.openSocket(NETLINK_ROUTE));
  try {
    const found = inspectInside(inside, conf, namespace.path, attachment);
    return typeof found === "string" ? { problem: found } : { problem: undefined, bridge, host, pod: found };
  } finally {
    inside.close();
  }
}

function inspectNetwork(node: NodeNetwork, conf: BuiltinConf, bridge: Link): string | undefined {
  const [gateway] = findMissingGateways(node, conf, bridge);
  if (gateway !== undefined) return `the bridge ${bridge.name} has lost its address ${formatPrefix(gateway)}`;
  const off = forwardingOf(conf).find((path) => node.readSysctl(path) === "0");
  return off && `/proc/sys/net/${off} is 0, must be 1: the node forwards nothing for its pods`;
}

function inspectRules(node: NodeNetwork, conf: BuiltinConf, attachment: AttachmentRecord): string | undefined {
  const rules = findMissingRules(conf, countRules(node.netfilter, TABLE));
  if (rules !== undefined)
    return `the nftables chain ${rules.chain} of the table inet ${TABLE} has ${rules.present} of ${rules.needed} rules`;
  const wanted = hostPortsOf(conf.name, attachment);
  const present = new Set(findPresentEntries(node, wanted));
  const missing = wanted.find((entry) => !present.has(entry));
  return missing && `${missing.what} is missing in the nftables map ${missing.map}`;
}

function inspectInside(
  inside: NetlinkSocket,
  { isDefaultGateway }: BuiltinConf,
  netns: string,
  attachment: AttachmentRecord,
): Link | string {
  const pod = findLink(inside, attachment.ifName);
  if (pod === undefined) return `the link ${attachment.ifName} is missing in ${netns}`;
  if (!pod.isUp) return `the link ${attachment.ifName} is down in ${netns}`;
  const present = listAddresses(inside, pod).map(formatPrefix);
  const address = attachment.addresses.find((each) => !present.includes(each));
  if (address !== undefined) return `the address ${address} is missing at ${attachment.ifName} in ${netns}`;
  if (!isDefaultGateway) return pod;
  const gateways = [...listRoutes(inside, 4), ...listRoutes(inside, 16)]
    .filter(({ to, link }) => to.bits === 0 && link === pod.index)
    .map(({ gateway }) => (gateway === undefined ? "" : formatIp(gateway)));
  const gateway = attachment.gateways.find(
    (each, index) => isFirst(attachment.gateways, index) && !gateways.includes(each),
  );
  return gateway === undefined ? pod : `the default route over ${gateway} is missing in ${netns}`;
}

/** Whether a gateway is the first of its family, over which the default route leads. */
const isFirst = (gateways: readonly string[], index: number) =>
  gateways.findIndex((each) => each.includes(":") === gateways[index]?.includes(":")) === index;
