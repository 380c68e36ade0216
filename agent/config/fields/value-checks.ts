import { isIP } from "node:net";
import { normalize } from "node:path/posix";
import { checkLabelValue, checkQualifiedName } from "../../../proto/kubernetes/validation/names.ts";
import { parseQuantity, QuantityError } from "../../../proto/kubernetes/values/quantity.ts";
import { parseSysctlPattern } from "../../../proto/kubernetes/values/sysctl.ts";
import { fitsSocketPath } from "../../../proto/socket-path.ts";
import { parseDuration } from "./duration.ts";

/** The checks of single values. Each key completes the sentence "must be …" in error messages. */
export const valueChecks = {
  "an IP address": (text: string) => isIP(text) !== 0,
  "one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone":
    isNodeIP,
  "address ranges such as 10.88.0.0/16, separated by a comma": (text: string) =>
    text === "" || text.split(",").every(isCidr),
  "an absolute path": (text: string) => text === "" || text.startsWith("/"),
  "an absolute path in ASCII without . or .. or doubled slashes": isCleanPath,
  "a unix socket such as unix:///run/containerd/containerd.sock, its path at most 107 bytes long": isUnixSocket,
  "an http or https address": (text: string) => text === "" || /^https?:\/\/[^\s/]/i.test(text),
  "an address such as localhost:4317, or one of dns, unix, unix-abstract": isTracingEndpoint,
  "a CPU list such as 0-3,8": isCpuList,
  "a quantity such as 10Mi": (text: string) => isQuantity(text, () => true),
  "a quantity, not negative, such as 500m or 1Gi": (text: string) => isQuantity(text, (sign) => sign >= 0),
  "a quantity greater than zero, such as 1Gi": (text: string) => isQuantity(text, (sign) => sign > 0),
  "a quantity greater than zero, such as 100Mi, or a percentage from 0% to 100%": (text: string) =>
    text.endsWith("%") ? isPercentage(text, 0, 100) : isQuantity(text, (sign) => sign > 0),
  "a quantity, not negative, such as 100Mi, or a percentage above 0%": (text: string) =>
    text.endsWith("%") ? isPercentage(text, Number.MIN_VALUE, Number.MAX_VALUE) : isQuantity(text, (sign) => sign >= 0),
  "a whole percentage from 0% to 100%": (text: string) => /^\d+%$/.test(text) && isPercentage(text, 0, 100),
  "a duration greater than zero, such as 1m30s": (text: string) => (parseDuration(text) ?? 0) > 0,
  "a duration of at least 3s": (text: string) => (parseDuration(text) ?? 0) >= 3000,
  "a duration, not negative, such as 1m30s": (text: string) => (parseDuration(text) ?? -1) >= 0,
  "a namespaced sysctl such as kernel.msg* or net.core.somaxconn": (text: string) =>
    parseSysctlPattern(text) !== undefined,
  "an image name without tag or digest, or a prefix ending in /*": isImagePattern,
  "a label key such as example.com/role": (text: string) => checkQualifiedName("", text).length === 0,
  "a label value": (text: string) => checkLabelValue("", text).length === 0,
  "the name of a namespace": (text: string) => /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text),
  "a name without = and ,": (text: string) => text !== "" && !/[=,]/.test(text),
  "true or false in quotes": (text: string) => text === "true" || text === "false",
  "not empty": (text: string) => text !== "",
} as const satisfies Record<string, (text: string) => boolean>;

export type CheckName = keyof typeof valueChecks;

/** The resources that can be reserved per NUMA node: `memory` and `hugepages-<size>`. */
export function isMemoryResource(name: string): boolean {
  return name === "memory" || /^hugepages-\S+$/.test(name);
}

/** Whether the text is a quantity with an accepted sign (-1, 0 or 1). */
function isQuantity(text: string, accepts: (sign: number) => boolean): boolean {
  try {
    const { mantissa } = parseQuantity(text);
    return accepts(mantissa > 0n ? 1 : mantissa < 0n ? -1 : 0);
  } catch (error) {
    if (error instanceof QuantityError) return false;
    throw error;
  }
}

function isPercentage(text: string, min: number, max: number): boolean {
  const number = /^[+-]?(?:\d+\.?\d*|\.\d+)%$/.test(text) ? Number(text.slice(0, -1)) : Number.NaN;
  return number >= min && number <= max;
}

function isNodeIP(text: string): boolean {
  if (text === "") return true;
  const addresses = text.split(",").map((address) => address.trim());
  const families = addresses.map((address) => isIP(address));
  const isPair = families.length === 2 && families[0] !== families[1];
  if (families.includes(0) || !(isPair || families.length === 1)) return false;
  return addresses.every((address) => isReachableAddress(address) && !(isPair && /^[0:.]+$/.test(address)));
}

/** Rule: the kubelet reports no address at which other machines cannot reach the node. */
function isReachableAddress(address: string): boolean {
  const ipv4 = address.replace(/^::ffff:(?=\d+\.)/i, "");
  if (isIP(ipv4) === 4) return !/^(127|169\.254|22[4-9]|23\d)\./.test(ipv4);
  // An address with a zone is valid on one link only.
  return !/^(fe[89ab].|ff..):|%|^[0:]+:0*1$/i.test(address);
}

function isCidr(text: string): boolean {
  const [, address = "", length] = /^(.*)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(length) <= (family === 4 ? 32 : 128);
}

function isCleanPath(text: string): boolean {
  const printable = [...text].every((letter) => letter.charCodeAt(0) < 128);
  return text.startsWith("/") && printable && normalize(text) === text && (text === "/" || !text.endsWith("/"));
}

function isUnixSocket(text: string): boolean {
  const [, , path = ""] = /^(unix:\/\/)?(\/[^\0]+)$/.exec(text) ?? [];
  return text === "" || (path !== "" && fitsSocketPath(path));
}

function isTracingEndpoint(text: string): boolean {
  return !text.includes("//") || /^(dns|unix|unix-abstract):\/\//.test(text);
}

function isCpuList(text: string): boolean {
  if (text === "") return true;
  return text.split(",").every((part) => {
    const [, first, , last = first] = /^(\d{1,6})(-(\d{1,6}))?$/.exec(part) ?? [];
    return Number(first) <= Number(last);
  });
}

function isImagePattern(text: string): boolean {
  const name = text.endsWith("/*") ? text.slice(0, -1) : text;
  if (name.length <= 1 || /[\s*@]/.test(name)) return false;
  return text.endsWith("/*") || !/:[^/]*$/.test(name);
}
