import { isIP } from "node:net";
import { messageOf } from "../../host/error-message.ts";
import { parseIp } from "../../host/ip-address.ts";
import { isObject } from "../../proto/is-object.ts";
import { networksAnnotation } from "../../proto/kubernetes/well-known-names.ts";
import { CniError, cniCodes } from "../error.ts";
import { ifNameProblem } from "../names.ts";
import { shownValue } from "../shown-value.ts";
import { type Fields, parseBandwidth, parsePortMappings } from "./selection-values.ts";

/** A network that a pod selects by its annotation, and what it wants of it. NPWG standard, section 4.1.2.1. */
export interface NetworkSelection {
  /** The NetworkAttachmentDefinition. */
  readonly namespace: string;
  readonly name: string;
  /** The interface that the pod gets: the one that it asks for, otherwise `net1` for the first element, `net2` for the second. */
  readonly ifName: string;
  /** What it asks of the plugins, by their capability: `ips`, `mac`, `portMappings`, `bandwidth`, `infinibandGUID`. */
  readonly capabilityArgs: Fields;
  /** The gateways of the pod's default routes, which the network gets; without any those of its result. Undefined if it does not get them. */
  readonly defaultRoute: readonly string[] | undefined;
  /** What the plugins get as `args.cni`. */
  readonly cniArgs: Fields | undefined;
}

/** The pod whose annotation is read. */
export interface SelectingPod {
  readonly namespace: string;
  /** The interface of its default network. */
  readonly ifName: string;
}

const KEYS: ReadonlySet<string> = new Set([
  ...["name", "namespace", "interface", "ips", "mac", "portMappings", "bandwidth", "infiniband-guid", "cni-args"],
  "default-route",
  // Plugins that know it read it from the pod.
  "ipam-claim-reference",
]);

/**
 * Reads the annotation `k8s.v1.cni.cncf.io/networks`, in either form: `[namespace/]name[@interface]` separated by commas, or a
 * JSON list of objects. An empty one selects nothing. The standard of the Network Plumbing Working Group (NPWG) is the
 * Kubernetes Network Custom Resource Definition De-facto Standard v1.3; here section 4.
 *
 * @throws CniError with code 7 that names the element, what was found and what it must be
 */
export function parseNetworksAnnotation(text: string, pod: SelectingPod): readonly NetworkSelection[] {
  if (text.trim() === "") return [];
  const elements = /["[{]/.test(text) ? parseJson(text) : text.split(",").map(parseReference);
  const selections = elements.map((element, index) => toSelection(element, `[${index}]`, index, pod));
  for (const [index, { ifName }] of selections.entries()) {
    const earlier = [pod, ...selections.slice(0, index)].findIndex((other) => other.ifName === ifName);
    if (earlier === -1) continue;
    const owner = earlier === 0 ? "the default network" : `[${earlier - 1}]`;
    throw invalid(`[${index}].interface: found ${shownValue(ifName)}, must be another interface than that of ${owner}`);
  }
  const routed = selections.flatMap(({ defaultRoute }, index) => (defaultRoute === undefined ? [] : [index]));
  if (routed.length > 1)
    throw invalid(`[${routed[1]}].default-route: [${routed[0]}] has it, too; must be on one network`);
  return selections;
}

function parseJson(text: string): readonly unknown[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw invalid(`found ${shownValue(text)}, must be JSON, or names separated by commas: ${messageOf(cause)}`);
  }
  if (!Array.isArray(value)) throw invalid(`found ${shownValue(value)}, must be a list`);
  return value;
}

/** `[namespace/]name[@interface]` as the element of the other form. */
function parseReference(text: string, index: number): Fields {
  const match = /^(?:([^/@]+)\/)?([^/@]+)(?:@([^@]+))?$/.exec(text.trim());
  if (match === null)
    throw invalid(`[${index}]: found ${shownValue(text.trim())}, must be [namespace/]name[@interface]`);
  const [, namespace, name, ifName] = match;
  return { name, ...(namespace !== undefined && { namespace }), ...(ifName !== undefined && { interface: ifName }) };
}

function toSelection(fields: unknown, path: string, index: number, pod: SelectingPod): NetworkSelection {
  if (!isObject(fields)) throw invalid(`${path}: found ${shownValue(fields)}, must be an object with a name`);
  // A key that contains a period belongs to another program.
  const unknown = Object.keys(fields).find((key) => !KEYS.has(key) && !key.includes("."));
  if (unknown !== undefined)
    throw invalid(`${path}: found the key ${shownValue(unknown)}, must be one of ${[...KEYS].join(", ")}`);
  const namespace = fields["namespace"] ?? "";
  if (typeof namespace !== "string" || (namespace !== "" && !isDnsLabel(namespace)))
    throw invalid(`${path}.namespace: found ${shownValue(namespace)}, must be the name of a namespace`);
  const { name } = fields;
  if (typeof name !== "string" || !isObjectName(name))
    throw invalid(`${path}.name: found ${shownValue(name)}, must be the name of a NetworkAttachmentDefinition`);
  return {
    namespace: namespace === "" ? pod.namespace : namespace,
    name,
    ifName: parseIfName(fields["interface"], path) ?? `net${index + 1}`,
    capabilityArgs: parseCapabilityArgs(fields, path),
    defaultRoute: parseDefaultRoute(fields["default-route"], path),
    cniArgs: parseCniArgs(fields["cni-args"], path),
  };
}

function parseIfName(value: unknown, path: string): string | undefined {
  if (value === undefined || value === "") return undefined;
  const problem = typeof value === "string" ? ifNameProblem(value) : "must be the name of an interface";
  if (typeof value === "string" && problem === undefined && value !== "lo") return value;
  throw invalid(
    `${path}.interface: found ${shownValue(value)}, ${problem ?? "must be another interface than the loopback"}`,
  );
}

function parseCapabilityArgs(fields: Fields, path: string): Fields {
  const { ips, mac, portMappings, bandwidth } = fields;
  const guid = fields["infiniband-guid"];
  if (ips !== undefined && fields["ipam-claim-reference"] !== undefined)
    throw invalid(`${path}: found ips and ipam-claim-reference, must have at most one of both`);
  if (ips !== undefined && (!Array.isArray(ips) || ips.length === 0 || !ips.every(isAddress)))
    throw invalid(
      `${path}.ips: found ${shownValue(ips)}, must be a list of at least one address, such as "10.2.2.42/24"`,
    );
  return {
    ...(ips !== undefined && { ips }),
    ...(mac !== undefined && { mac: parseHardwareAddress(mac, `${path}.mac`, 6) }),
    ...(portMappings !== undefined && {
      portMappings: parsePortMappings(portMappings, `${path}.portMappings`, invalid),
    }),
    ...(bandwidth !== undefined && { bandwidth: parseBandwidth(bandwidth, `${path}.bandwidth`, invalid) }),
    ...(guid !== undefined && { infinibandGUID: parseHardwareAddress(guid, `${path}.infiniband-guid`, 8) }),
  };
}

function parseHardwareAddress(value: unknown, path: string, bytes: number): string {
  const pattern = new RegExp(`^[0-9a-f]{2}(:[0-9a-f]{2}){${bytes - 1}}$`, "i");
  if (typeof value === "string" && pattern.test(value)) return value;
  throw invalid(
    `${path}: found ${shownValue(value)}, must be ${bytes} bytes such as ${Array(bytes).fill("02").join(":")}`,
  );
}

/** Several gateways of a family would need metrics, which the standard leaves open. */
function parseDefaultRoute(value: unknown, path: string): readonly string[] | undefined {
  if (value === undefined) return undefined;
  const at = `${path}.default-route: found ${shownValue(value)}`;
  if (!Array.isArray(value) || !value.every((gateway) => typeof gateway === "string" && parseIp(gateway) !== undefined))
    throw invalid(`${at}, must be a list of IP addresses`);
  const families = value.map((gateway: string) => isIP(gateway));
  if (new Set(families).size < families.length) throw invalid(`${at}, must have at most one gateway of each family`);
  return value;
}

function parseCniArgs(value: unknown, path: string): Fields | undefined {
  if (value === undefined || isObject(value)) return value;
  throw invalid(`${path}.cni-args: found ${shownValue(value)}, must be an object`);
}

/** An address, with or without the length of its prefix. */
function isAddress(value: unknown): boolean {
  const [address = "", prefix, more] = typeof value === "string" ? value.split("/") : [];
  const family = isIP(address);
  if (family === 0 || more !== undefined) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (family === 4 ? 32 : 128));
}

const LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const isDnsLabel = (name: string) => name.length <= 63 && new RegExp(`^${LABEL}$`).test(name);
const isObjectName = (name: string) => name.length <= 253 && new RegExp(`^${LABEL}(\\.${LABEL})*$`).test(name);

const invalid = (message: string) => new CniError(cniCodes.invalidNetworkConf, `${networksAnnotation}: ${message}`);
