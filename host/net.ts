import { FFIType } from "bun:ffi";
import { closeSync, readFileSync } from "node:fs";
import { isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path/posix";
import { onAbort } from "./async/abort.ts";
import { openLibc } from "./libc.ts";

/** The node's own addresses. */
export interface Net {
  /** The node's global addresses, those of the default routes first; without loopback and link-local ones. */
  addresses(): readonly string[];
  /** Whether an interface has the address, be it a loopback, link-local, or without a carrier. */
  hasAddress(address: string): boolean;
  /**
   * Calls `onChanged` whenever an address of any kind may have been added or removed, until the signal aborts. Never
   * calls it where rtnetlink is not available.
   */
  watch(onChanged: () => void, signal: AbortSignal): void;
}

/** `routesFolder` contains the kernel's route tables. */
export function createNet(routesFolder = "/proc/net"): Net {
  const routes = (name: string) => readIfPresent(join(routesFolder, name));
  return {
    addresses: () => globalAddressesOf(networkInterfaces(), defaultInterfaces(routes("route"), routes("ipv6_route"))),
    hasAddress(address) {
      const wanted = canonicalAddress(address);
      const ofInterfaces = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
      return (
        ofInterfaces.some((each) => each.address === wanted) ||
        localAddresses(routes("fib_trie"), routes("if_inet6")).includes(wanted)
      );
    },
    watch: (onChanged, signal) => void watchAddresses(onChanged, signal),
  };
}

/** As the operating system writes it: `2001:DB8:0::1` → `2001:db8::1`. Throws if it is no address. */
function canonicalAddress(address: string): string {
  return isIPv6(address) ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}

/**
 * The addresses in /proc/net/fib_trie and /proc/net/if_inet6: those of interfaces without a carrier, too, which
 * `networkInterfaces` leaves out.
 */
function localAddresses(ipv4 = "", ipv6 = ""): readonly string[] {
  const found4 = [...ipv4.matchAll(/\|-- ([\d.]+)\s+\/32 host LOCAL/g)].map(([, address = ""]) => address);
  const found6 = [...ipv6.matchAll(/^[\da-f]{32}(?= )/gm)].map(([digits]) =>
    canonicalAddress((digits.match(/.{4}/g) ?? []).join(":")),
  );
  return [...new Set([...found4, ...found6])];
}

/** The addresses of a host name, by /etc/hosts or DNS; empty if it cannot be resolved. Never rejects. */
export async function resolveName(name: string): Promise<readonly string[]> {
  // Loaded on first use, to save memory: most nodes never resolve a name.
  const { lookup } = await import("node:dns/promises");
  try {
    return (await lookup(name, { all: true, order: "verbatim" })).map(({ address }) => address);
  } catch {
    // Many machines have a host name that cannot be resolved; nothing depends on it.
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
 * Picks the addresses by which a pod or a peer can reach this node: first those on the interface of their family's
 * default route, then others of these interfaces, then the rest; in each group IPv4 before IPv6.
 *
 * @internal
 */
export function globalAddressesOf(interfaces: Interfaces, defaults: DefaultInterfaces): readonly string[] {
  return Object.entries(interfaces)
    .flatMap(([name, addresses = []]) => addresses.map((address) => ({ ...address, name })))
    .filter(({ internal, address }) => !internal && !/^(fe80:|169\.254\.)/i.test(address))
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ address }) => address);

  function rank({ name, family }: { name: string; family: string }): number {
    const isIPv4 = family === "IPv4";
    const isDefault = name === (isIPv4 ? defaults.IPv4 : defaults.IPv6);
    const isOnDefaultInterface = name === defaults.IPv4 || name === defaults.IPv6;
    return (isDefault ? 0 : isOnDefaultInterface ? 2 : 4) + (isIPv4 ? 0 : 1);
  }
}

const ALL_ZEROS = /^0+$/;
const RTF_REJECT = 0x200;

/**
 * Parses /proc/net/route and /proc/net/ipv6_route; returns the interface of each one's first default route.
 *
 * @internal
 */
export function defaultInterfaces(ipv4: string | undefined, ipv6: string | undefined): DefaultInterfaces {
  const [rows, rows6] = [ipv4, ipv6].map((text = "") => text.split("\n").map((line) => line.trim().split(/\s+/)));
  const row = rows?.find(
    ([, destination, , , , , , mask]) => ALL_ZEROS.test(destination ?? "") && ALL_ZEROS.test(mask ?? ""),
  );
  // Without a default route the kernel shows one with the reject flag.
  const row6 = rows6?.find(
    ([destination, length, , , , , , , flags]) =>
      ALL_ZEROS.test(destination ?? "") && length === "00" && (Number.parseInt(flags ?? "", 16) & RTF_REJECT) === 0,
  );
  return { IPv4: row?.[0], IPv6: row6?.[9] };
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // A kernel without one of the families has no such file, and some sandboxes hide it: addresses then keep their
    // order.
    return undefined;
  }
}

// rtnetlink(7): a socket bound to these groups receives a message for every added or removed address, and for link
// changes.
const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_CLOEXEC = 0o2000000;
const SOCK_NONBLOCK = 0o4000;
const NETLINK_ROUTE = 0;
const RTMGRP_LINK = 0x1;
const RTMGRP_IPV4_IFADDR = 0x10;
const RTMGRP_IPV6_IFADDR = 0x100;

async function watchAddresses(onChanged: () => void, signal: AbortSignal): Promise<void> {
  const socket = openAddressSocket();
  if (socket === undefined) return;
  const reader = Bun.file(socket).stream().getReader();
  const remove = onAbort(signal, () => void reader.cancel());
  try {
    // The content of the messages does not matter: after a change the caller reads the current addresses.
    while (!(await reader.read()).done) onChanged();
  } catch (error) {
    // ENOBUFS: too many messages at once, and some are lost: watch again with a new socket. After any other error a new
    // socket would fail, too. In both cases anything may have changed.
    const hasOverflowed = error instanceof Error && "code" in error && error.code === "ENOBUFS";
    if (hasOverflowed && !signal.aborted) void watchAddresses(onChanged, signal);
    onChanged();
  } finally {
    remove();
    closeSync(socket);
  }
}

/** Undefined if rtnetlink sockets are not available. */
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
