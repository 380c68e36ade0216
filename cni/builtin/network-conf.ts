import { parseIp } from "../../host/ip-address.ts";
import { isLinkName, parseMac } from "../../host/netlink/links.ts";
import { CniError, cniCodes } from "../error.ts";
import { isNetworkName } from "../names.ts";
import { type AddressRange, readRange } from "./address-range.ts";
import type { AttachmentId } from "./attachment-names.ts";

/** A port of the node that leads to a port of the pod. */
export interface HostPort {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: "tcp" | "udp" | "sctp";
  /** The address of the node at which the port is open; empty for all. */
  readonly hostIP: string;
}

/** Limits in bytes a second. 0 is no limit. */
export interface Bandwidth {
  readonly ingressBytes: number;
  readonly ingressBurstBytes: number;
  readonly egressBytes: number;
  readonly egressBurstBytes: number;
}

/** The configuration of a plugin with `"type": "berth"`. Names are those of the bridge plugin where it has the same field. */
export interface BuiltinConf {
  readonly name: string;
  readonly bridge: string;
  /** Undefined: that of the link with the default route. */
  readonly mtu: number | undefined;
  readonly ipMasq: boolean;
  readonly hairpinMode: boolean;
  /** Whether the pod's default routes lead over the bridge; at most one network of a pod has them. */
  readonly isDefaultGateway: boolean;
  /** A pod gets one address of each set. */
  readonly ranges: readonly (readonly AddressRange[])[];
  /** Addresses that the pod asks for by the capability `ips`. */
  readonly ips: readonly Uint8Array[];
  readonly mac: Uint8Array | undefined;
  readonly hostPorts: readonly HostPort[];
  readonly bandwidth: Bandwidth;
}

/** The `type` by which a configuration list names this plugin. */
export const BUILTIN_TYPE = "berth";

/** The bridge of a configuration that names none. */
export const DEFAULT_BRIDGE = "berth0";
const MIN_MTU = 68;
const MIN_IPV6_MTU = 1280;
const MAX_MTU = 65535;

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? { ...value } : {});
/** containerd writes `HostPort` and `IngressRate`, since Go reads names in any case. */
const fieldsOfGo = (value: unknown): Fields =>
  Object.fromEntries(
    Object.entries(fieldsOf(value)).map(([name, field]) => [`${name.charAt(0).toLowerCase()}${name.slice(1)}`, field]),
  );
/** The error of a field: what it is, and what is expected. `withNetworkName` adds the network. */
const invalid = (reason: string) => new RangeError(reason);

/** Reads fields of a network. Throws `CniError` with the code 7 that names the network, for a `RangeError`. */
function withNetworkName<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new CniError(cniCodes.invalidNetworkConf, `the network ${name}: ${error.message}`, { cause: error });
  }
}

/** The name of the network, which becomes a part of paths. Throws `CniError` with the code 7. */
export function readNetworkName({ name }: { readonly name?: unknown }): string {
  if (typeof name === "string" && isNetworkName(name)) return name;
  const problem = `name is ${JSON.stringify(name)}; letters, digits, "_", "." and "-" are expected`;
  throw new CniError(cniCodes.invalidNetworkConf, `a network of the type ${BUILTIN_TYPE}: ${problem}`);
}

/**
 * Reads the configuration, with what the runtime hands over in `runtimeConfig`. `needsRanges`: false for a call that has no
 * `runtimeConfig`, of a plugin that gets its ranges by it. Throws `CniError` with the code 7.
 */
export function readNetworkConf(conf: Fields, { needsRanges = true } = {}): BuiltinConf {
  const name = readNetworkName(conf);
  return withNetworkName(name, () => ({ name, ...readFields(conf, needsRanges) }));
}

function readFields(conf: Fields, needsRanges: boolean): Omit<BuiltinConf, "name"> {
  const runtime = fieldsOf(conf["runtimeConfig"]);
  const bridge = conf["bridge"] ?? DEFAULT_BRIDGE;
  if (typeof bridge !== "string" || !isLinkName(bridge))
    throw invalid(`bridge is ${JSON.stringify(bridge)}; the name of a link, of at most 15 bytes, is expected`);
  const ranges = needsRanges || !isEmpty(conf["ranges"]) ? readRanges(conf, runtime) : [];
  return {
    bridge,
    mtu: readMtu(conf["mtu"], ranges),
    ipMasq: readFlag(conf, "ipMasq", true),
    hairpinMode: readFlag(conf, "hairpinMode", true),
    isDefaultGateway: readFlag(conf, "isDefaultGateway", true),
    ranges,
    ips: readIps(runtime["ips"]),
    mac: readMac(runtime["mac"]),
    hostPorts: readHostPorts(runtime["portMappings"]),
    bandwidth: readBandwidth(runtime["bandwidth"]),
  };
}

function readFlag(conf: Fields, field: string, fallback: boolean): boolean {
  const value = conf[field] ?? fallback;
  if (typeof value !== "boolean") throw invalid(`${field} is ${JSON.stringify(value)}; true or false is expected`);
  return value;
}

/** The runtime's ranges are those of the node's pod CIDRs, and replace those of the file. */
function readRanges(conf: Fields, runtime: Fields): readonly (readonly AddressRange[])[] {
  const ofRuntime = runtime["ipRanges"];
  const [where, sets] = isEmpty(ofRuntime) ? ["ranges", conf["ranges"]] : ["runtimeConfig.ipRanges", ofRuntime];
  if (!Array.isArray(sets) || sets.length === 0)
    throw invalid(`${where} is ${JSON.stringify(sets)}; sets such as [[{"subnet": "10.88.0.0/16"}]] are expected`);
  return sets.map((set: unknown, index) => readRangeSet(set, `${where}[${index}]`));
}

const isEmpty = (value: unknown) =>
  value === undefined || value === null || (Array.isArray(value) && value.length === 0);

function readRangeSet(set: unknown, where: string): readonly AddressRange[] {
  if (!Array.isArray(set) || set.length === 0)
    throw invalid(`${where} is ${JSON.stringify(set)}; a list of ranges is expected`);
  const ranges = set.map((range: unknown, index) => readRange(range, `${where}[${index}]`));
  if (ranges.some(({ subnet }) => subnet.bytes.length !== ranges[0]?.subnet.bytes.length))
    throw invalid(`${where} has ranges of IPv4 and of IPv6; each set has one family`);
  return ranges;
}

function readMtu(value: unknown, ranges: readonly (readonly AddressRange[])[]): number | undefined {
  if (value === undefined || value === 0) return undefined;
  const isIpv6 = ranges.flat().some(({ subnet }) => subnet.bytes.length === 16);
  const min = isIpv6 ? MIN_IPV6_MTU : MIN_MTU;
  if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > MAX_MTU)
    throw invalid(`mtu is ${JSON.stringify(value)}; a number from ${min} to ${MAX_MTU} is expected`);
  return value;
}

/** The capability `ips` has addresses with or without the length of a prefix, which is that of the range in any case. */
function readIps(value: unknown): readonly Uint8Array[] {
  if (isEmpty(value)) return [];
  if (!Array.isArray(value)) throw invalid(`runtimeConfig.ips is ${JSON.stringify(value)}; a list is expected`);
  return value.map((text: unknown, index) => {
    const address = typeof text === "string" ? parseIp(text.replace(/\/\d+$/, "")) : undefined;
    if (address === undefined)
      throw invalid(`runtimeConfig.ips[${index}] is ${JSON.stringify(text)}; an IP address is expected`);
    return address;
  });
}

function readMac(value: unknown): Uint8Array | undefined {
  if (value === undefined || value === "") return undefined;
  const mac = typeof value === "string" ? parseMac(value) : undefined;
  if (mac === undefined)
    throw invalid(
      `runtimeConfig.mac is ${JSON.stringify(value)}; the address of one link, as "0a:58:0a:58:00:05", is expected`,
    );
  return mac;
}

const MAX_PORT = 65535;

function readHostPorts(value: unknown): readonly HostPort[] {
  if (isEmpty(value)) return [];
  if (!Array.isArray(value))
    throw invalid(`runtimeConfig.portMappings is ${JSON.stringify(value)}; a list is expected`);
  return value
    .map((entry: unknown, index) => readHostPort(fieldsOfGo(entry), `runtimeConfig.portMappings[${index}]`))
    .filter(({ hostPort }) => hostPort !== 0);
}

/** A port that a container only declares has the host port 0. */
function readHostPort(fields: Fields, where: string): HostPort {
  const port = (name: string, min: number) => {
    const value = fields[name] ?? 0;
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > MAX_PORT)
      throw invalid(`${where}.${name} is ${JSON.stringify(value)}; a port from ${min} to ${MAX_PORT} is expected`);
    return value;
  };
  const protocol = String(fields["protocol"] ?? "tcp").toLowerCase();
  if (protocol !== "tcp" && protocol !== "udp" && protocol !== "sctp")
    throw invalid(`${where}.protocol is ${JSON.stringify(fields["protocol"])}; tcp, udp or sctp is expected`);
  const hostIP = fields["hostIP"] ?? "";
  if (typeof hostIP !== "string" || (hostIP !== "" && parseIp(hostIP) === undefined))
    throw invalid(`${where}.hostIP is ${JSON.stringify(hostIP)}; an IP address is expected`);
  return { hostPort: port("hostPort", 0), containerPort: port("containerPort", 1), protocol, hostIP };
}

const BITS_PER_BYTE = 8;

/** The capability counts in bits, as the annotations of pods do. */
function readBandwidth(value: unknown): Bandwidth {
  const fields = fieldsOfGo(value);
  const bytes = (name: string) => {
    const bits = fields[name] ?? 0;
    if (typeof bits !== "number" || !Number.isFinite(bits) || bits < 0)
      throw invalid(
        `runtimeConfig.bandwidth.${name} is ${JSON.stringify(bits)}; a number of bits, 0 or more, is expected`,
      );
    return Math.floor(bits / BITS_PER_BYTE);
  };
  const limit = (direction: "ingress" | "egress") => {
    const [rate, burst] = [bytes(`${direction}Rate`), bytes(`${direction}Burst`)];
    if (rate > 0 && burst === 0)
      throw invalid(`runtimeConfig.bandwidth.${direction}Burst is 0; with ${direction}Rate a burst is needed`);
    return [rate, burst] as const;
  };
  const [[ingressBytes, ingressBurstBytes], [egressBytes, egressBurstBytes]] = [limit("ingress"), limit("egress")];
  return { ingressBytes, ingressBurstBytes, egressBytes, egressBurstBytes };
}

/** The attachments that still exist, by which GC decides. Throws `CniError` with the code 7. */
export function readValidAttachments(conf: Fields): readonly AttachmentId[] {
  return withNetworkName(readNetworkName(conf), () => readIds(conf));
}

function readIds(conf: Fields): readonly AttachmentId[] {
  // Go writes an empty list as null; without the field all attachments would be removed by mistake.
  const field = conf["cni.dev/valid-attachments"];
  const value = field === null ? [] : field;
  if (!Array.isArray(value)) throw invalid(`cni.dev/valid-attachments is ${JSON.stringify(value)}; a list is expected`);
  return value.map((entry: unknown, index) => {
    const { containerID: containerId, ifname: ifName } = fieldsOf(entry);
    if (typeof containerId !== "string" || typeof ifName !== "string")
      throw invalid(
        `cni.dev/valid-attachments[${index}] is ${JSON.stringify(entry)}; containerID and ifname are expected`,
      );
    return { containerId, ifName };
  });
}
