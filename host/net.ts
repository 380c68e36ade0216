import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path/posix";

/** The node's own addresses. */
export interface Net {
  /** Global addresses of this node, those of the default routes first; loopback and link-local ones are left out. */
  addresses(): readonly string[];
}

/** `routesFolder` is where the kernel shows its routes. */
export function createNet(routesFolder = "/proc/net"): Net {
  const routes = (name: string) => readIfShown(join(routesFolder, name));
  return {
    addresses: () => addressesOf(networkInterfaces(), defaultInterfaces(routes("route"), routes("ipv6_route"))),
  };
}

type Interfaces = Readonly<
  Record<string, readonly { address: string; family: string; internal: boolean }[] | undefined>
>;

/** The interface of each family's default route. */
export interface DefaultInterfaces {
  readonly IPv4?: string | undefined;
  readonly IPv6?: string | undefined;
}

/**
 * Picks the addresses a pod or a peer could reach this node by: first those that a default route of their family leads from, then
 * others of these interfaces, then the rest; in each of the three IPv4 before IPv6.
 */
export function addressesOf(interfaces: Interfaces, defaults: DefaultInterfaces): readonly string[] {
  return Object.entries(interfaces)
    .flatMap(([name, addresses = []]) => addresses.map((address) => ({ ...address, name })))
    .filter(({ internal, address }) => !internal && !/^(fe80:|169\.254\.)/i.test(address))
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ address }) => address);

  function rank({ name, family }: { name: string; family: string }): number {
    const isIPv4 = family === "IPv4";
    const isDefault = name === (isIPv4 ? defaults.IPv4 : defaults.IPv6);
    const isBeside = name === defaults.IPv4 || name === defaults.IPv6;
    return (isDefault ? 0 : isBeside ? 2 : 4) + (isIPv4 ? 0 : 1);
  }
}

const NOWHERE = /^0+$/;
const REJECTS = 0x200;

/** Reads /proc/net/route and /proc/net/ipv6_route, of each the first route to everywhere. */
export function defaultInterfaces(ipv4: string | undefined, ipv6: string | undefined): DefaultInterfaces {
  const [rows, rows6] = [ipv4, ipv6].map((text = "") => text.split("\n").map((line) => line.trim().split(/\s+/)));
  const row = rows?.find(
    ([, destination, , , , , , mask]) => NOWHERE.test(destination ?? "") && NOWHERE.test(mask ?? ""),
  );
  // Where there is no default route, the kernel shows one that rejects.
  const row6 = rows6?.find(
    ([destination, length, , , , , , , flags]) =>
      NOWHERE.test(destination ?? "") && length === "00" && (Number.parseInt(flags ?? "", 16) & REJECTS) === 0,
  );
  return { IPv4: row?.[0], IPv6: row6?.[9] };
}

function readIfShown(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // A kernel without one of the families has no file for it, and some sandboxes show none: addresses then stand as they come.
    return undefined;
  }
}
