// The rules of nftables in the table `inet berth`. Pure: requests, which the caller carries out together.
//
//   prerouting (raw)  guard                 drops what comes from another machine or a pod for 127.0.0.0/8
//   prerouting, output (nat)                packets for an address of this node: jump host-ports
//   host-ports                              looks (address, protocol, port) up in the map of its family: dnat
//   postrouting (nat) masquerade-NETWORK    one chain for each network

import { formatIp, type IpPrefix, maskOf, parseIp } from "../../host/ip-address.ts";
import { be16, concat, text, u32 } from "../../host/netlink/codec.ts";
import {
  differs,
  dnat,
  drop,
  equals,
  jump,
  leave,
  loadConstant,
  loadDestination,
  loadDestinationPort,
  loadDestinationType,
  loadMeta,
  loadOriginalDestination,
  loadOriginalDestinationPort,
  loadSource,
  lookUp,
  mask,
  masquerade,
  type NftExpression,
  type NftFamily,
  nfproto,
  RTN_LOCAL,
} from "../../host/netlink/nft-expressions.ts";
import { flushChain, type MapEntry, newChain, newMap, newRule, newTable } from "../../host/netlink/nftables.ts";
import type { NetlinkRequest } from "../../host/netlink/socket.ts";
import type { BuiltinConf, HostPort } from "./network-conf.ts";

export const TABLE = "berth";
/** The priorities of nftables by their names there: raw, dstnat, srcnat. */
const RAW = -300;
const DSTNAT = -100;
const SRCNAT = 100;
/** The index of `lo` in every network namespace. */
const LOOPBACK_INDEX = 1;
const IFNAMSIZ = 16;
const LOOPBACK: IpPrefix = { bytes: Uint8Array.of(127, 0, 0, 0), bits: 8 };
const MULTICAST: IpPrefix = { bytes: Uint8Array.of(224, 0, 0, 0), bits: 4 };
const IPV6_MULTICAST: IpPrefix = { bytes: Uint8Array.of(255, ...new Uint8Array(15)), bits: 8 };
const IPV6_LOOPBACK = Uint8Array.of(...new Uint8Array(15), 1);

const familyOf = (length: number): NftFamily => (length === 4 ? 4 : 6);
const mapOf = (family: NftFamily) => `host-ports-${family}`;
/** The registers that a key or an address of the family fills. */
const registersOf = (family: NftFamily) => (family === 4 ? 1 : 4);
/** The first register that no key reaches. */
const RESULT = 8;

const isFamily = (family: NftFamily) => [loadMeta("nfproto", 0), equals(0, nfproto(family))];

const inPrefix = (load: typeof loadSource, { bytes, bits }: IpPrefix, check: typeof equals) => [
  load(familyOf(bytes.length), 0),
  mask(0, maskOf(bits, bytes.length)),
  check(0, bytes),
];

/** A rule of a chain. */
interface Rule {
  readonly chain: string;
  readonly expressions: readonly NftExpression[];
}

const toRequest = ({ chain, expressions }: Rule) => newRule(TABLE, chain, expressions);

const FAMILIES: readonly NftFamily[] = [4, 6];

/** The table, and what all networks share. Maps that exist keep their entries. */
export function sharedRequests(): readonly NetlinkRequest[] {
  return [
    newTable(TABLE),
    newChain(TABLE, "guard", { type: "filter", hook: "prerouting", priority: RAW }),
    newChain(TABLE, "host-ports"),
    newChain(TABLE, "prerouting", { type: "nat", hook: "prerouting", priority: DSTNAT }),
    newChain(TABLE, "output", { type: "nat", hook: "output", priority: DSTNAT }),
    ...["guard", "host-ports", "prerouting", "output"].map((chain) => flushChain(TABLE, chain)),
    ...FAMILIES.map((family) => hostPortMap(family)),
    ...sharedRules().map(toRequest),
  ];
}

/** The rules that all networks share. */
function sharedRules(): readonly Rule[] {
  const rule = (chain: string, expressions: readonly NftExpression[]): Rule => ({ chain, expressions });
  const isNotLoopback = [loadMeta("iif", 0), differs(0, u32(LOOPBACK_INDEX))];
  const isLocal = [loadDestinationType(0), equals(0, RTN_LOCAL)];
  return [
    // CVE-2020-8558: with route_localnet on the bridge a pod reaches services of the node that listen on 127.0.0.1.
    ...[loadDestination, loadSource].map((load) =>
      rule("guard", [...isFamily(4), ...isNotLoopback, ...inPrefix(load, LOOPBACK, equals), drop]),
    ),
    ...FAMILIES.flatMap((family) => [
      rule("host-ports", [...isFamily(family), loadDestination(family, 0), ...toHostPort(family)]),
      rule("host-ports", [...isFamily(family), loadConstant(anyAddress(family), 0), ...toHostPort(family)]),
    ]),
    rule("prerouting", [...isLocal, jump("host-ports")]),
    // The kernel routes no packet from ::1 to another link, so a host port is none there.
    rule("output", [...isFamily(6), loadDestination(6, 0), equals(0, IPV6_LOOPBACK), leave]),
    rule("output", [...isLocal, jump("host-ports")]),
  ];
}

const anyAddress = (family: NftFamily) => new Uint8Array(family === 4 ? 4 : 16);

function hostPortMap(family: NftFamily): NetlinkRequest {
  const address = family === 4 ? "ipv4_addr" : "ipv6_addr";
  return newMap({
    table: TABLE,
    map: mapOf(family),
    key: [address, "inet_proto", "inet_service"],
    data: [address, "inet_service"],
    id: family,
  });
}

/** Behind the address in the first registers: protocol and port, the lookup, and the new destination. */
function toHostPort(family: NftFamily): readonly NftExpression[] {
  const size = registersOf(family);
  return [
    loadMeta("l4proto", size),
    loadDestinationPort(size + 1),
    lookUp(mapOf(family), 0, RESULT),
    dnat(family, RESULT, RESULT + size),
  ];
}

const MASQUERADE = "masquerade-";

export const masqueradeChain = (network: string): string => `${MASQUERADE}${network}`;

/** Whether a chain is the masquerade chain of any network. */
export const isMasqueradeChain = (chain: string): boolean => chain.startsWith(MASQUERADE);

/**
 * The rules of one network. Connections that leave it get the node's address, with `ipMasq`; those over a host port that
 * come from a pod of the network or from 127.0.0.1 do so always, as the answer would not come back to the node otherwise.
 */
export function networkRequests(conf: BuiltinConf): readonly NetlinkRequest[] {
  const chain = masqueradeChain(conf.name);
  return [
    newChain(TABLE, chain, { type: "nat", hook: "postrouting", priority: SRCNAT }),
    flushChain(TABLE, chain),
    ...networkRules(conf).map(toRequest),
  ];
}

type RulesInput = Pick<BuiltinConf, "name" | "bridge" | "ipMasq" | "ranges">;

function networkRules({ name, bridge, ipMasq, ranges }: RulesInput): readonly Rule[] {
  const chain = masqueradeChain(name);
  const rule = (expressions: readonly NftExpression[]): Rule => ({ chain, expressions: [...expressions, masquerade] });
  const toBridge = [loadMeta("oifname", 0), equals(0, interfaceName(bridge))];
  const subnets = ranges.flat().map(({ subnet }) => subnet);
  return [
    rule([...isFamily(4), ...toBridge, ...inPrefix(loadSource, LOOPBACK, equals)]),
    ...subnets.flatMap((subnet) => {
      const family = familyOf(subnet.bytes.length);
      const fromPod = [...isFamily(family), ...inPrefix(loadSource, subnet, equals)];
      const multicast = family === 4 ? MULTICAST : IPV6_MULTICAST;
      const inside = [...subnets.filter(({ bytes }) => familyOf(bytes.length) === family), multicast];
      const leaves = inside.flatMap((prefix) => inPrefix(loadDestination, prefix, differs));
      return [
        rule([...fromPod, ...toBridge, loadOriginalDestination(family, 0), ...wasHostPort(family)]),
        rule([...fromPod, ...toBridge, loadConstant(anyAddress(family), 0), ...wasHostPort(family)]),
        ...(ipMasq ? [rule([...fromPod, ...leaves])] : []),
      ];
    }),
  ];
}

function wasHostPort(family: NftFamily): readonly NftExpression[] {
  const size = registersOf(family);
  return [loadMeta("l4proto", size), loadOriginalDestinationPort(size + 1), lookUp(mapOf(family), 0, RESULT)];
}

/** A chain that has fewer rules than a network needs. */
export interface MissingRules {
  readonly chain: string;
  readonly present: number;
  readonly needed: number;
}

/**
 * The first chain, of those that all networks share and of the network's own one, that has fewer rules than Berth has made; undefined if
 * none has. `counts` is how many rules each chain of the table has.
 */
export function findMissingRules(input: RulesInput, counts: ReadonlyMap<string, number>): MissingRules | undefined {
  const needed = new Map<string, number>();
  for (const { chain } of [...sharedRules(), ...networkRules(input)]) needed.set(chain, (needed.get(chain) ?? 0) + 1);
  return [...needed]
    .map(([chain, count]) => ({ chain, present: counts.get(chain) ?? 0, needed: count }))
    .find((each) => each.present < each.needed);
}

/** A name in the 16 bytes that the kernel compares. */
function interfaceName(name: string): Uint8Array {
  const bytes = new Uint8Array(IFNAMSIZ);
  bytes.set(text(name));
  return bytes;
}

const PROTOCOL = { tcp: 6, udp: 17, sctp: 132 } as const;
const padded = (bytes: Uint8Array) => concat(bytes, new Uint8Array(4 - bytes.length));

/** The map entries of a host port: one for each family that both the pod and the host address have. */
export function hostPortEntries(
  { hostPort, containerPort, protocol, hostIP }: HostPort,
  addresses: readonly Uint8Array[],
  comment: string,
): readonly MapEntry[] {
  const host = hostIP === "" ? undefined : parseIp(hostIP);
  return addresses
    .filter((address, index) => addresses.findIndex(({ length }) => length === address.length) === index)
    .filter(({ length }) => host === undefined || host.length === length)
    .map((address) => {
      const family = familyOf(address.length);
      const at = host ?? anyAddress(family);
      return {
        map: mapOf(family),
        key: concat(at, padded(Uint8Array.of(PROTOCOL[protocol])), padded(be16(hostPort))),
        data: concat(address, padded(be16(containerPort))),
        comment,
        what: `the host port ${host === undefined ? "" : `${formatIp(at)} `}${hostPort}/${protocol}`,
      };
    });
}

/** The maps of host ports. */
export const hostPortMaps: readonly string[] = [mapOf(4), mapOf(6)];

/** The pod's address in the data of a map entry. */
export const addressOfEntry = (map: string, { data }: Pick<MapEntry, "data">): Uint8Array =>
  data.subarray(0, map === mapOf(4) ? 4 : 16);
