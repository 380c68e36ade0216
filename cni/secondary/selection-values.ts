import { isIP } from "node:net";
import { isObject } from "../../proto/is-object.ts";
import type { CniError } from "../error.ts";
import { shownValue } from "../shown-value.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** A port of the host, as CNI's conventions have it in `runtimeConfig.portMappings`. */
interface PortMapping {
  readonly hostPort: number;
  readonly containerPort: number;
  readonly protocol: string;
  readonly hostIP?: string;
}

const PROTOCOLS = ["tcp", "udp", "sctp"];

/**
 * Reads `portMappings` of a selected network. Without a protocol they are of TCP. NPWG standard, section 4.1.2.1.7.
 *
 * @throws what `invalid` makes of a text with the path of the element, what was found and what it must be
 */
export function parsePortMappings(
  value: unknown,
  path: string,
  invalid: (message: string) => CniError,
): readonly PortMapping[] {
  if (!Array.isArray(value) || value.length === 0)
    throw invalid(
      `${path}: found ${shownValue(value)}, must be a list of at least one object with hostPort and containerPort`,
    );
  return value.map((fields: unknown, index) => {
    const at = `${path}[${index}]`;
    if (!isObject(fields))
      throw invalid(`${at}: found ${shownValue(fields)}, must be an object with hostPort and containerPort`);
    const portOf = (name: string): number => {
      const port = fields[name];
      if (typeof port === "number" && Number.isInteger(port) && port >= 1 && port <= 65535) return port;
      throw invalid(`${at}.${name}: found ${shownValue(port)}, must be a port from 1 to 65535`);
    };
    const { protocol = "tcp", hostIP } = fields;
    const lower = typeof protocol === "string" ? protocol.toLowerCase() : "";
    if (!PROTOCOLS.includes(lower))
      throw invalid(`${at}.protocol: found ${shownValue(protocol)}, must be one of ${PROTOCOLS.join(", ")}`);
    if (hostIP !== undefined && (typeof hostIP !== "string" || isIP(hostIP) === 0))
      throw invalid(`${at}.hostIP: found ${shownValue(hostIP)}, must be an IP address`);
    const ports = { hostPort: portOf("hostPort"), containerPort: portOf("containerPort"), protocol: lower };
    return { ...ports, ...(hostIP !== undefined && { hostIP }) };
  });
}

/** The burst of a rate that names none, in bits. Container runtimes take it for the bandwidth annotations of pods. */
const UNLIMITED_BURST = 2 ** 32 - 1;
const BANDWIDTH_KEYS = ["ingressRate", "ingressBurst", "egressRate", "egressBurst"] as const;

/**
 * Reads `bandwidth` of a selected network, in bits a second and bits: `ingressRate` and `ingressBurst`, `egressRate` and
 * `egressBurst`. NPWG standard, section 4.1.2.1.8. Throws as `parsePortMappings`.
 */
export function parseBandwidth(value: unknown, path: string, invalid: (message: string) => CniError): Fields {
  if (!isObject(value) || BANDWIDTH_KEYS.every((key) => value[key] === undefined))
    throw invalid(`${path}: found ${shownValue(value)}, must be an object with ingressRate or egressRate`);
  for (const key of BANDWIDTH_KEYS) {
    const bits = value[key];
    if (bits !== undefined && !(typeof bits === "number" && Number.isSafeInteger(bits) && bits > 0))
      throw invalid(`${path}.${key}: found ${shownValue(bits)}, must be a whole number of bits above 0`);
  }
  const limits = (["ingress", "egress"] as const).flatMap((direction) => {
    const [rate, burst] = [value[`${direction}Rate`], value[`${direction}Burst`]];
    if (rate === undefined && burst !== undefined)
      throw invalid(`${path}.${direction}Burst: found without ${direction}Rate, must have both or the rate alone`);
    return rate === undefined
      ? []
      : [
          [`${direction}Rate`, rate],
          [`${direction}Burst`, burst ?? UNLIMITED_BURST],
        ];
  });
  return Object.fromEntries(limits);
}
