import { FFIType, ptr } from "bun:ffi";
import { connect, isIPv4, isIPv6 } from "node:net";
import { orAborted } from "../host/async/abort.ts";
import { openLibc } from "../host/libc.ts";
import { type DialOptions, withTimeout } from "./dial-error.ts";

/** Connects by TCP and closes the connection. Rejects with `DialError`. */
export async function dialTcp(host: string, port: number, options: DialOptions): Promise<void> {
  await withTimeout(options, (limit) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const socket = connect({ host, port }, resolve);
    socket.on("error", reject);
    return orAborted(promise, limit).finally(() => socket.destroy());
  });
}

/**
 * Tries a TCP connection without waiting, and closes it. True if it was established at once: that is the case for every
 * listening server on this machine and in its pods, because the kernel completes the handshake during connect(2). False
 * means unknown: the caller then connects with a timeout. Never throws.
 *
 * A socket of Bun's event loop costs ten times as much (0.9 instead of 0.2 ms): a promise, two timers and two
 * iterations of the loop.
 */
export type TryTcpConnect = (host: string, port: number) => boolean;

// socket(2), poll(2), as on x86-64 and arm64.
const AF_INET = 2;
const AF_INET6 = 10;
const SOCK_STREAM = 1;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const POLLOUT = 4;
const POLLERR = 8;
const POLLHUP = 16;

export function createTryTcpConnect(): TryTcpConnect {
  // Opened on first use: many nodes have no TCP probes.
  let sockets: ReturnType<typeof openSockets>;
  let isOpened = false;
  return (host, port) => {
    const address = toSockaddr(host, port);
    if (address === undefined) return false;
    if (!isOpened) sockets = openSockets();
    isOpened = true;
    return sockets !== undefined && tryConnect(sockets, address);
  };
}

function openSockets() {
  const { i32, u32, ptr: pointer } = FFIType;
  // Without glibc every TCP probe connects with a timeout.
  return openLibc({
    socket: { args: [i32, i32, i32], returns: i32 },
    connect: { args: [i32, pointer, u32], returns: i32 },
    poll: { args: [pointer, u32, i32], returns: i32 },
    close: { args: [i32], returns: i32 },
  })?.symbols;
}

function tryConnect(
  { socket, connect, poll, close }: NonNullable<ReturnType<typeof openSockets>>,
  address: Uint8Array,
): boolean {
  const family = address.length === IPV4_LENGTH ? AF_INET : AF_INET6;
  const descriptor = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return false;
  try {
    connect(descriptor, ptr(address), address.length);
    // struct pollfd: the descriptor, the requested events, the returned events.
    const pollfd = Int32Array.of(descriptor, POLLOUT);
    const count = poll(ptr(pollfd), 1, 0);
    const returnedEvents = (pollfd[1] ?? 0) >>> 16;
    return count === 1 && (returnedEvents & POLLOUT) !== 0 && (returnedEvents & (POLLERR | POLLHUP)) === 0;
  } finally {
    close(descriptor);
  }
}

const IPV4_LENGTH = 16;
const IPV6_LENGTH = 28;

/** `struct sockaddr_in` or `sockaddr_in6`; undefined for a host name, and for an address with a zone (`%eth0`). */
function toSockaddr(host: string, port: number): Uint8Array | undefined {
  if (isIPv4(host)) return encodeSockaddr(IPV4_LENGTH, AF_INET, port, 4, host.split(".").map(Number));
  if (!isIPv6(host) || host.includes("%")) return undefined;
  const [head = [], tail] = normalizeIPv6(host)
    .split("::")
    .map((part) => part.split(":").filter((group) => group !== ""));
  const zeros = tail === undefined ? [] : Array.from({ length: 8 - head.length - tail.length }, () => "0");
  const groups = [...head, ...zeros, ...(tail ?? [])].map((group) => Number.parseInt(group, 16));
  return encodeSockaddr(
    IPV6_LENGTH,
    AF_INET6,
    port,
    8,
    groups.flatMap((group) => [group >> 8, group & 0xff]),
  );
}

/** An IPv6 address in hexadecimal groups only: its last part may be written as an IPv4 address. */
const normalizeIPv6 = (address: string) => new URL(`http://[${address}]/`).hostname.slice(1, -1);

/** The family in host byte order, the port in network byte order. */
function encodeSockaddr(
  length: number,
  family: number,
  port: number,
  at: number,
  address: readonly number[],
): Uint8Array {
  const bytes = new Uint8Array(length);
  new Uint16Array(bytes.buffer, 0, 1)[0] = family;
  bytes.set([port >> 8, port & 0xff], 2);
  bytes.set(address, at);
  return bytes;
}
