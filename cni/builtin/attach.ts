import { NetlinkError } from "../../host/netlink/error.ts";
import {
  createIfb,
  createVeth,
  deleteLink,
  type Link,
  readLink,
  setAlias,
  setPortUp,
  setUp,
} from "../../host/netlink/links.ts";
import { NETLINK_ROUTE, type NetworkNamespace } from "../../host/netlink/netlink.ts";
import { redirectIngress, setTokenBucket } from "../../host/netlink/qdiscs.ts";
import { addRoute } from "../../host/netlink/routes.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import type { Allocation } from "./address-range.ts";
import { type AttachmentId, hostLinkName, ifbName, linkAlias, macOf } from "./attachment-names.ts";
import type { NetworkBridge } from "./network.ts";
import type { BuiltinConf } from "./network-conf.ts";
import { addAddressWithIpv6, type NodeNetwork, setSysctl } from "./node-network.ts";

/** The two ends of a pod's link. */
export interface PodLinks {
  readonly host: Link;
  readonly pod: Link;
}

interface PodLinkInput {
  readonly conf: BuiltinConf;
  readonly network: NetworkBridge;
  readonly id: AttachmentId;
  readonly namespace: NetworkNamespace;
  readonly allocations: readonly Allocation[];
}

/** Connects a pod with the bridge: the veth pair, and inside the pod its addresses and routes. Throws `NetlinkError`. */
export function connectPod(node: NodeNetwork, { conf, network, id, namespace, allocations }: PodLinkInput): PodLinks {
  const name = hostLinkName(conf.name, id);
  makeVeth(node, {
    name,
    mtu: network.mtu,
    master: network.bridge.index,
    peer: { name: id.ifName, mac: conf.mac ?? macOf(primaryAddress(allocations)), descriptor: namespace.descriptor },
  });
  const host = readLink(node.route, name);
  setAlias(node.route, host, linkAlias(conf.name, id));
  limitBandwidth(node, { conf, network, id, host });
  setPortUp(node.route, host, conf.hairpinMode);
  // The pod's end comes last, so that one with its addresses and routes is complete.
  const inside = openInside(node, namespace, id.ifName);
  try {
    const pod = readLink(inside, id.ifName);
    setUp(inside, LOOPBACK);
    setUp(inside, pod);
    const writeInside = (path: string, value: string) => node.netlink.runIn(namespace, () => setSysctl(path, value));
    for (const { address, range } of allocations)
      addAddressWithIpv6(inside, pod, { bytes: address, bits: range.subnet.bits }, writeInside);
    for (const { range } of conf.isDefaultGateway ? firstOfEachFamily(allocations) : []) {
      const to = { bytes: new Uint8Array(range.gateway.length), bits: 0 };
      addRoute(inside, pod, { to, gateway: range.gateway });
    }
    return { host, pod };
  } finally {
    inside.close();
  }
}

/** `lo` has this index in every namespace. */
const LOOPBACK = { index: 1, name: "lo" };

const primaryAddress = (allocations: readonly Allocation[]) =>
  (allocations.find(({ address }) => address.length === 4) ?? allocations[0])?.address ?? new Uint8Array(4);

/** The allocations over whose gateways the default routes lead. */
const firstOfEachFamily = (allocations: readonly Allocation[]): readonly Allocation[] =>
  allocations.filter(
    ({ address }, index) => allocations.findIndex((other) => other.address.length === address.length) === index,
  );

/** An end that has the name already is left over by a call that was killed: nothing else has names of this form. */
function makeVeth(node: NodeNetwork, input: Parameters<typeof createVeth>[1]): void {
  try {
    createVeth(node.route, input);
  } catch (error) {
    if (!(error instanceof NetlinkError && error.code === "EEXIST")) throw error;
    deleteLink(node.route, input.name);
    // Refused again if the pod has a link of this name itself.
    createVeth(node.route, input);
  }
}

/**
 * A socket in the pod's namespace. The pod must not take routes from announcements of others (CVE-2020-10749), and need not
 * check its link-local address for duplicates: with hairpin it would receive its own neighbour solicitation.
 */
function openInside(node: NodeNetwork, namespace: NetworkNamespace, ifName: string): NetlinkSocket {
  return node.netlink.runIn(namespace, () => {
    for (const name of ["accept_ra", "accept_dad"]) setSysctl(`ipv6/conf/${ifName}/${name}`, "0");
    return node.netlink.openSocket(NETLINK_ROUTE);
  });
}

/** As the bandwidth plugin has it. */
const LATENCY_MS = 25;

/**
 * Limits what the pod receives on the host's end of its link, and what it sends on an ifb behind that, where the pod cannot
 * change it. An ifb of this name is left over by a call that was killed.
 */
function limitBandwidth(
  node: NodeNetwork,
  { conf, network, id, host }: { conf: BuiltinConf; network: NetworkBridge; id: AttachmentId; host: Link },
): void {
  const { ingressBytes, ingressBurstBytes, egressBytes, egressBurstBytes } = conf.bandwidth;
  if (ingressBytes > 0)
    setTokenBucket(node.route, host, {
      bytesPerSecond: ingressBytes,
      burstBytes: ingressBurstBytes,
      latencyMs: LATENCY_MS,
    });
  if (egressBytes === 0) return;
  const name = ifbName(conf.name, id);
  deleteLink(node.route, name);
  createIfb(node.route, { name, mtu: network.mtu });
  const ifb = readLink(node.route, name);
  setTokenBucket(node.route, ifb, { bytesPerSecond: egressBytes, burstBytes: egressBurstBytes, latencyMs: LATENCY_MS });
  redirectIngress(node.route, host, ifb);
}

interface ResultInput {
  readonly bridge: Link;
  readonly host: Link;
  readonly pod: Link;
  readonly netns: string;
  readonly addresses: readonly string[];
  readonly gateways: readonly string[];
  readonly isDefaultGateway: boolean;
}

/** The result of ADD in version 1.1.0. */
export function resultOf(input: ResultInput): Readonly<Record<string, unknown>> {
  const { bridge, host, pod, netns, addresses, gateways, isDefaultGateway } = input;
  const interfaceOf = ({ name, mac, mtu }: Link) => ({ name, mac, mtu });
  const families: readonly string[] = gateways.map((gateway) => (gateway.includes(":") ? "::/0" : "0.0.0.0/0"));
  const routes = families
    .map((dst, index) => ({ dst, gw: gateways[index] }))
    .filter(({ dst }, index) => families.indexOf(dst) === index);
  return {
    cniVersion: "1.1.0",
    interfaces: [interfaceOf(bridge), interfaceOf(host), { ...interfaceOf(pod), sandbox: netns }],
    ips: addresses.map((address, index) => ({ address, gateway: gateways[index], interface: 2 })),
    routes: isDefaultGateway ? routes : [],
    dns: {},
  };
}
