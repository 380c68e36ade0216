import { FFIType } from "bun:ffi";
import { closeSync, readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { join } from "node:path/posix";
import { openLibc } from "./libc.ts";

/** The node's own addresses. */
export interface Net {
  /** Global addresses of this node, those of the default routes first; loopback and link-local ones are left out. */
  addresses(): readonly string[];
  /**
   * Calls back whenever an address may have come or gone, of whatever kind, until the signal aborts. A kernel that tells nobody of such
   * things tells nothing here either.
   */
  watch(changed: () => void, signal: AbortSignal): void;
}

/** `routesFolder` is where the kernel shows its routes. */
export function createNet(routesFolder = "/proc/net"): Net {
  const routes = (name: string) => readIfShown(join(routesFolder, name));
  return {
    addresses: () => addressesOf(networkInterfaces(), defaultInterfaces(routes("route"), routes("ipv6_route"))),
    watch: (changed, signal) => void watchAddresses(changed, signal),
  };
}

/** The addresses that a name leads to, here or by DNS; none where it leads nowhere. Never rejects. */
export async function resolveName(name: string): Promise<readonly string[]> {
  // Loaded with the first question: most nodes ask none, and need it in no memory.
  const { lookup } = await import("node:dns/promises");
  try {
    return (await lookup(name, { all: true, order: "verbatim" })).map(({ address }) => address);
  } catch {
    // Many machines have names that lead nowhere; nothing depends on it.
    return [];
  }
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

// rtnetlink(7): a socket that is bound to these groups hears of every address that comes or goes, and of the cable under it.
const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const SOCK_NONBLOCK = 0o4000;
const NETLINK_ROUTE = 0;
const RTMGRP_LINK = 0x1;
const RTMGRP_IPV4_IFADDR = 0x10;
const RTMGRP_IPV6_IFADDR = 0x100;

async function watchAddresses(changed: () => void, signal: AbortSignal): Promise<void> {
  const socket = openAddressSocket();
  if (socket === undefined) return;
  const reader = Bun.file(socket).stream().getReader();
  const end = () => void reader.cancel();
  signal.addEventListener("abort", end, { once: true });
  try {
    // What the messages say does not matter: whoever hears of a change reads the addresses as they are then.
    while (!(await reader.read()).done) changed();
  } catch (error) {
    // Too many messages at once: some are lost, and the next ones are heard anew. Of a socket that fails for another reason no other one
    // is to be expected. Either way anything may have changed.
    const areLost = error instanceof Error && "code" in error && error.code === "ENOBUFS";
    if (areLost && !signal.aborted) void watchAddresses(changed, signal);
    changed();
  } finally {
    signal.removeEventListener("abort", end);
    closeSync(socket);
  }
}

/** Undefined where there are no such sockets. */
function openAddressSocket(): number | undefined {
  const { i32, u32, ptr } = FFIType;
  const libc = openLibc({
    socket: { args: [i32, i32, i32], returns: i32 },
    bind: { args: [i32, ptr, u32], returns: i32 },
  });
  if (libc === undefined) return undefined;
  const { symbols, close } = libc;
  try {
    const socket = symbols.socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (socket < 0) return undefined;
    // struct sockaddr_nl: family, padding, port (the kernel gives one), groups.
    const groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
    if (symbols.bind(socket, Uint32Array.of(AF_NETLINK, 0, groups), 12) === 0) return socket;
    closeSync(socket);
    return undefined;
  } finally {
    close();
  }
}
