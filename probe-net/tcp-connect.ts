import { FFIType, ptr } from "bun:ffi";
import { isIPv4, isIPv6 } from "node:net";
import { openLibc } from "../host/libc.ts";

/**
 * Connects by TCP to an address, and hangs up: true where that was done at once, as it is with every server on this machine and in its
 * pods that takes a connection, since the kernel has shaken hands by the time that it is asked. False says nothing: whoever wants to
 * know more connects, and waits. Never throws.
 *
 * A socket of the engine costs ten times as much: a promise, two timers and two turns of its loop for what is over before it begins.
 */
export type Knock = (host: string, port: number) => boolean;

// socket(2), poll(2), as on x86-64 and arm64.
const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const POLLOUT = 4;
const POLLERR = 8;
const POLLHUP = 16;

export function createKnock(): Knock {
  // Opened with the first question: many nodes ask none.
  let sockets: ReturnType<typeof openSockets>;
  let isOpened = false;
  return (host, port) => {
    const address = socketAddress(host, port);
    if (address === undefined) return false;
    if (!isOpened) sockets = openSockets();
    isOpened = true;
    return sockets !== undefined && connects(sockets, address);
  };
}

function openSockets() {
  const { i32, u32, ptr: pointer } = FFIType;
  // Without it everybody waits.
  return openLibc({
    socket: { args: [i32, i32, i32], returns: i32 },
    connect: { args: [i32, pointer, u32], returns: i32 },
    poll: { args: [pointer, u32, i32], returns: i32 },
    close: { args: [i32], returns: i32 },
  })?.symbols;
}

function connects(
  { socket, connect, poll, close }: NonNullable<ReturnType<typeof openSockets>>,
  address: Uint8Array,
): boolean {
  const family = address.length === IPV4_LENGTH ? AF_INET : AF_INET6;
  const descriptor = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  try {
    connect(descriptor, ptr(address), address.length);
    // struct pollfd: the descriptor, what is asked for, what there is.
    const asked = Int32Array.of(descriptor, POLLOUT);
    const count = poll(ptr(asked), 1, 0);
    const found = (asked[1] ?? 0) >>> 16;
    return count === 1 && (found & POLLOUT) !== 0 && (found & (POLLERR | POLLHUP)) === 0;
  } finally {
    close(descriptor);
  }
}

const IPV4_LENGTH = 16;
const IPV6_LENGTH = 28;

/** `struct sockaddr_in` or `sockaddr_in6`; undefined for a name, and for an address that holds on one link alone. */
function socketAddress(host: string, port: number): Uint8Array | undefined {
  if (isIPv4(host)) return fill(IPV4_LENGTH, AF_INET, port, 4, host.split(".").map(Number));
  if (!isIPv6(host) || host.includes("%")) return undefined;
  const [head = [], tail] = normalized(host)
    .split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - head.length - tail.length }, () => "0");
  const groups = [...head, ...zeros, ...(tail ?? [])].map((group) => Number.parseInt(group, 16));
  return fill(
    IPV6_LENGTH,
    AF_INET6,
    port,
    8,
    groups.flatMap((group) => [group >> 8, group & 0xff]),
  );
}

/** In groups of hexadecimal digits alone: an address of IPv4 may stand at its end. */
const normalized = (address: string) => new URL(`http://[${address}]/`).hostname.slice(1, -1);

/** The family as the machine writes numbers, the port as the network does. */
function fill(length: number, family: number, port: number, at: number, address: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(length);
  new Uint16Array(bytes.buffer, 0, 1)[0] = family;
  bytes.set([port >> 8, port & 0xff], 2);
  bytes.set(address, at);
  return bytes;
}
