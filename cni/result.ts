import { isIP } from "node:net";
import { isObject } from "../proto/is-object.ts";
import { truncateText } from "../proto/truncate-text.ts";
import { CniError, cniCodes } from "./error.ts";
import type { CniVersion } from "./version.ts";

/** An interface that a chain has made, in the container (`sandbox` is its network namespace) or on the host. */
export interface ResultInterface {
  readonly name: string;
  readonly mac?: string;
  readonly mtu?: number;
  readonly sandbox?: string;
  readonly socketPath?: string;
  readonly pciID?: string;
}

export interface ResultIp {
  /** With the length of its prefix: `10.1.0.5/16`. */
  readonly address: string;
  readonly gateway?: string;
  /** The index of its interface. */
  readonly interface?: number;
}

export interface ResultRoute {
  readonly dst: string;
  readonly gw?: string;
  readonly mtu?: number;
  readonly advmss?: number;
  readonly priority?: number;
  readonly table?: number;
  readonly scope?: number;
}

export interface ResultDns {
  readonly nameservers?: readonly string[];
  readonly domain?: string;
  readonly search?: readonly string[];
  readonly options?: readonly string[];
}

/** The result of ADD, as version 1.1.0 has it. Specification, section 5, "ADD Success". */
export interface CniResult {
  readonly interfaces: readonly ResultInterface[];
  readonly ips: readonly ResultIp[];
  readonly routes: readonly ResultRoute[];
  readonly dns: ResultDns;
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Reads a result of any version. One that names no version has that of the configuration, which libcni accepts from plugins.
 *
 * @throws CniError with code 1 for an unknown version, 6 for a field of another type, an address that is none, or an address
 * of an interface that the result does not have
 */
export function parseResult(value: unknown, confVersion: CniVersion): CniResult {
  if (!isObject(value)) throw wrong("the result", value, "a JSON object");
  const version = value["cniVersion"] === "" ? confVersion : (value["cniVersion"] ?? confVersion);
  switch (version) {
    case "0.1.0":
    case "0.2.0":
      return parseEarly(value);
    case "0.3.0":
    case "0.3.1":
    case "0.4.0":
    case "1.0.0":
    case "1.1.0":
      return parseCurrent(value);
    default:
      throw new CniError(
        cniCodes.incompatibleVersion,
        `the result has cniVersion ${shown(version)}, must be ${confVersion} as the configuration`,
      );
  }
}

/** Writes a result as this version has it. Versions before 0.3.0 have no interfaces and one address of each family: all others are left out. */
export function formatResult(result: CniResult, version: CniVersion): Fields {
  switch (version) {
    case "0.1.0":
    case "0.2.0":
      return formatEarly(result, version);
    case "0.3.0":
    case "0.3.1":
    case "0.4.0":
      return formatMiddle(result, version);
    case "1.0.0":
    case "1.1.0":
      return formatCurrent(result, version);
  }
}

function parseCurrent(value: Fields): CniResult {
  const interfaces = objects(value["interfaces"], "interfaces").map((one, index) =>
    parseInterface(one, `interfaces[${index}]`),
  );
  return {
    interfaces,
    ips: objects(value["ips"], "ips").map((one, index) => parseIp(one, `ips[${index}]`, interfaces.length)),
    routes: objects(value["routes"], "routes").map((one, index) => parseRoute(one, `routes[${index}]`)),
    dns: parseDns(value["dns"]),
  };
}

/** 0.1.0 and 0.2.0: one address of each family, with its routes. */
function parseEarly(value: Fields): CniResult {
  const families = ["ip4", "ip6"].flatMap((name) => {
    const family = value[name] ?? undefined;
    if (family === undefined) return [];
    if (!isObject(family)) throw wrong(name, family, "an object");
    const gateway = parseAddress(family["gateway"], `${name}.gateway`);
    const routes = objects(family["routes"], `${name}.routes`);
    return [
      {
        ip: { address: parseCidr(family["ip"], `${name}.ip`), ...(gateway !== undefined && { gateway }) },
        routes: routes.map((one, index) => parseRoute(one, `${name}.routes[${index}]`)),
      },
    ];
  });
  return {
    interfaces: [],
    ips: families.map(({ ip }) => ip),
    routes: families.flatMap(({ routes }) => routes),
    dns: parseDns(value["dns"]),
  };
}

function parseInterface(fields: Fields, path: string): ResultInterface {
  const { name } = fields;
  if (typeof name !== "string" || name === "") throw wrong(`${path}.name`, name, "the name of an interface");
  return {
    name,
    ...texts(fields, path, ["mac", "sandbox", "socketPath", "pciID"]),
    ...numbers(fields, path, ["mtu"], "unless zero"),
  };
}

function parseIp(fields: Fields, path: string, interfaces: number): ResultIp {
  const gateway = parseAddress(fields["gateway"], `${path}.gateway`);
  const owner = numbers(fields, path, ["interface"], "always").interface;
  if (owner !== undefined && (owner < 0 || owner >= interfaces))
    throw wrong(`${path}.interface`, owner, `the index of one of the ${interfaces} interfaces of the result`);
  return {
    address: parseCidr(fields["address"], `${path}.address`),
    ...(gateway !== undefined && { gateway }),
    ...(owner !== undefined && { interface: owner }),
  };
}

function parseRoute(fields: Fields, path: string): ResultRoute {
  const gw = parseAddress(fields["gw"], `${path}.gw`);
  return {
    dst: parseCidr(fields["dst"], `${path}.dst`),
    ...(gw !== undefined && { gw }),
    ...numbers(fields, path, ["mtu", "advmss", "priority"], "unless zero"),
    ...numbers(fields, path, ["table", "scope"], "always"),
  };
}

function parseDns(value: unknown): ResultDns {
  if (value === undefined || value === null) return {};
  if (!isObject(value)) throw wrong("dns", value, "an object");
  const lists = (["nameservers", "search", "options"] as const).flatMap((name) => {
    const list = value[name] ?? [];
    if (!Array.isArray(list) || !list.every((text) => typeof text === "string"))
      throw wrong(`dns.${name}`, list, "a list of texts");
    return list.length === 0 ? [] : [[name, list] as const];
  });
  return { ...Object.fromEntries(lists), ...texts(value, "dns", ["domain"]) };
}

/** The texts of a result that are neither absent nor empty. */
function texts<Name extends string>(fields: Fields, path: string, names: readonly Name[]): { [name in Name]?: string } {
  const found: { [name in Name]?: string } = {};
  for (const name of names) {
    const value = fields[name] ?? "";
    if (typeof value !== "string") throw wrong(`${path}.${name}`, value, "a text");
    if (value !== "") found[name] = value;
  }
  return found;
}

/** The whole numbers of a result; of those for which Go writes no zero, a zero says as much as none. */
function numbers<Name extends string>(
  fields: Fields,
  path: string,
  names: readonly Name[],
  isKept: "always" | "unless zero",
): { [name in Name]?: number } {
  const found: { [name in Name]?: number } = {};
  for (const name of names) {
    const value = fields[name] ?? undefined;
    if (value === undefined) continue;
    if (typeof value !== "number" || !Number.isSafeInteger(value))
      throw wrong(`${path}.${name}`, value, "a whole number");
    if (value !== 0 || isKept === "always") found[name] = value;
  }
  return found;
}

function objects(value: unknown, path: string): readonly Fields[] {
  const list = value ?? [];
  if (!Array.isArray(list)) throw wrong(path, list, "a list");
  for (const [index, item] of list.entries()) if (!isObject(item)) throw wrong(`${path}[${index}]`, item, "an object");
  return list;
}

function parseAddress(value: unknown, path: string): string | undefined {
  if (value === undefined || value === null || value === "") return undefined;
  if (typeof value !== "string" || isIP(value) === 0) throw wrong(path, value, "an IP address");
  return value;
}

function parseCidr(value: unknown, path: string): string {
  const [address = "", prefix = ""] = typeof value === "string" ? value.split("/") : [];
  const maxPrefix = { 0: -1, 4: 32, 6: 128 }[isIP(address)] ?? -1;
  const isValid = /^\d{1,3}$/.test(prefix) && Number(prefix) <= maxPrefix && `${address}/${prefix}` === value;
  if (!isValid) throw wrong(path, value, "an address with its prefix, such as 10.1.0.5/16");
  return `${address}/${prefix}`;
}

function formatEarly({ ips, routes, dns }: CniResult, cniVersion: CniVersion): Fields {
  const families = ([4, 6] as const).flatMap((family) => {
    const ip = ips.find(({ address }) => familyOf(address) === family);
    if (ip === undefined) return [];
    const own = routes.filter(({ dst }) => familyOf(dst) === family);
    const fields = {
      ip: ip.address,
      ...(ip.gateway !== undefined && { gateway: ip.gateway }),
      ...(own.length > 0 && { routes: own.map(({ dst, gw }) => ({ dst, ...(gw !== undefined && { gw }) })) }),
    };
    return [[`ip${family}`, fields] as const];
  });
  if (families.length === 0)
    throw new CniError(cniCodes.incompatibleVersion, `a result of version ${cniVersion} must have an IP address`);
  return { cniVersion, ...Object.fromEntries(families), dns };
}

function formatMiddle({ interfaces, ips, routes, dns }: CniResult, cniVersion: CniVersion): Fields {
  return {
    cniVersion,
    ...(interfaces.length > 0 && {
      interfaces: interfaces.map(({ name, mac, sandbox }) => ({
        name,
        ...(mac !== undefined && { mac }),
        ...(sandbox !== undefined && { sandbox }),
      })),
    }),
    ...(ips.length > 0 && { ips: ips.map((ip) => ({ version: String(familyOf(ip.address)), ...ip })) }),
    ...(routes.length > 0 && { routes }),
    dns,
  };
}

function formatCurrent({ interfaces, ips, routes, dns }: CniResult, cniVersion: CniVersion): Fields {
  return {
    cniVersion,
    ...(interfaces.length > 0 && { interfaces }),
    ...(ips.length > 0 && { ips }),
    ...(routes.length > 0 && { routes }),
    ...(Object.keys(dns).length > 0 && { dns }),
  };
}

const familyOf = (cidr: string) => isIP(cidr.split("/")[0] ?? "");

const MAX_SHOWN = 80;
const shown = (value: unknown) => (value === undefined ? "nothing" : truncateText(JSON.stringify(value), MAX_SHOWN));
const wrong = (path: string, found: unknown, must: string) =>
  new CniError(cniCodes.decodingFailure, `${path}: found ${shown(found)}, must be ${must}`);
