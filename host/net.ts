import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";

/** The node's own addresses. */
export interface Net {
  /** Global addresses of this node, that of the default route first; loopback and link-local ones are left out. */
  addresses(): readonly string[];
}

export function createNet(): Net {
  return {
    addresses: () => addressesOf(networkInterfaces(), defaultInterface(readFileSync("/proc/net/route", "utf8"))),
  };
}

type Interfaces = Readonly<
  Record<string, readonly { address: string; family: string; internal: boolean }[] | undefined>
>;

/** Picks the addresses a pod or a peer could reach this node by, those of `first` before the others, IPv4 before IPv6. */
export function addressesOf(interfaces: Interfaces, first: string | undefined): readonly string[] {
  return Object.entries(interfaces)
    .flatMap(([name, addresses = []]) => addresses.map((address) => ({ ...address, name })))
    .filter(({ internal, address }) => !internal && !/^(fe80:|169\.254\.)/i.test(address))
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ address }) => address);

  function rank({ name, family }: { name: string; family: string }): number {
    return (name === first ? 0 : 2) + (family === "IPv4" ? 0 : 1);
  }
}

/** The interface of the default route in /proc/net/route: destination and mask both zero. */
export function defaultInterface(routes: string): string | undefined {
  const fields = routes.split("\n").map((line) => line.trim().split(/\s+/));
  return fields.find(([, destination, , , , , , mask]) => destination === "00000000" && mask === "00000000")?.[0];
}
