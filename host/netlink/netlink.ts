import { FFIType, read } from "bun:ffi";
import { closeSync, openSync } from "node:fs";
import { messageOf } from "../error-message.ts";
import { libcProblem, openLibc } from "../libc.ts";
import { errnoName, NetlinkError } from "./error.ts";
import { createSocket, type NetlinkSocket } from "./socket.ts";

/** rtnetlink(7): links, addresses, routes, queueing disciplines. */
export const NETLINK_ROUTE = 0;
/** nfnetlink: nftables. */
export const NETLINK_NETFILTER = 12;

/** An open network namespace. It lives on while it is open, even if its path is removed. */
export interface NetworkNamespace {
  readonly path: string;
  readonly descriptor: number;
  close(): void;
}

/** Netlink, and the network namespaces in which it is spoken. */
export interface Netlink {
  /** Opens a socket in this thread's own namespace. It stays there. */
  openSocket(protocol: number): NetlinkSocket;
  /** Opens a namespace. Throws `NetlinkError`: `ENOENT` if the path is gone. What is not a namespace fails when it is entered. */
  openNamespace(path: string): NetworkNamespace;
  /**
   * Calls `work` with this thread in a namespace, and returns its result. What `work` opens stays in that namespace:
   * sockets, and files below /proc/sys/net. `work` must be synchronous, as everything else that this thread does belongs
   * to its own namespace. Throws `NetlinkError`: `EINVAL` if it is no network namespace, `EPERM`.
   */
  runIn<T>(namespace: NetworkNamespace, work: () => T): T;
}

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC = 0o2000003;
const CLONE_NEWNET = 0x40000000;
const SOL_NETLINK = 270;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;
const OWN_NAMESPACE = "/proc/thread-self/ns/net";

/** Opens the C library on first use. Its users throw `NetlinkError` with the code `ENOSYS` where there is none. */
export function createNetlink(): Netlink {
  let opened: ReturnType<typeof openSymbols> | undefined;
  const symbols = () => {
    opened ??= openSymbols();
    return opened;
  };
  const errno = () => {
    const address = symbols().__errno_location();
    return errnoName(address === null ? 0 : read.i32(address, 0));
  };
  return {
    openSocket(protocol) {
      const descriptor = symbols().socket(AF_NETLINK, SOCK_RAW_CLOEXEC, protocol);
      if (descriptor < 0) throw new NetlinkError(errno(), `open a netlink socket of protocol ${protocol}`, "");
      // Kernels before 4.20 know only some of these options. Without the others their answers are longer, and can be read as well.
      for (const option of [NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK])
        symbols().setsockopt(descriptor, SOL_NETLINK, option, Int32Array.of(1), 4);
      return createSocket(symbols(), descriptor, errno);
    },
    openNamespace(path) {
      const descriptor = openPath(path);
      return { path, descriptor, close: () => closeSync(descriptor) };
    },
    runIn(namespace, work) {
      const own = openPath(OWN_NAMESPACE);
      try {
        if (symbols().setns(namespace.descriptor, CLONE_NEWNET) !== 0)
          throw new NetlinkError(errno(), `enter the network namespace ${namespace.path}`, "");
        try {
          return work();
        } finally {
          // In a foreign namespace the thread would do anything that follows to the wrong network.
          if (symbols().setns(own, CLONE_NEWNET) !== 0) process.abort();
        }
      } finally {
        closeSync(own);
      }
    },
  };
}

function openPath(path: string): number {
  try {
    return openSync(path, "r");
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    const reason = code === "ENOENT" ? "it does not exist" : messageOf(error);
    throw new NetlinkError(code, `open the network namespace ${path}`, reason, { cause: error });
  }
}

function openSymbols() {
  const { i32, i64, u32, u64, ptr } = FFIType;
  const libc = openLibc({
    socket: { args: [i32, i32, i32], returns: i32 },
    setsockopt: { args: [i32, i32, i32, ptr, u32], returns: i32 },
    setns: { args: [i32, i32], returns: i32 },
    sendto: { args: [i32, ptr, u64, i32, ptr, u32], returns: i64 },
    recv: { args: [i32, ptr, u64, i32], returns: i64 },
    __errno_location: { args: [], returns: ptr },
  });
  if (libc === undefined) throw new NetlinkError("ENOSYS", "use netlink", libcProblem());
  return libc.symbols;
}
