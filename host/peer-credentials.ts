import { FFIType } from "bun:ffi";
import { openLibc } from "./libc.ts";

const SOL_SOCKET = 1;
const SO_PEERCRED = 17;
/** `struct ucred`: pid, uid and gid, of four bytes each. */
const UCRED_BYTES = 12;

/**
 * The user id of the process that has connected to a unix socket, by the descriptor of the connection; undefined if the kernel
 * refuses the call or the C library cannot be opened. Rule: SO_PEERCRED of unix(7). The kernel notes the id at connect(2): later
 * changes of the process do not count.
 */
export function readPeerUid(descriptor: number): number | undefined {
  const { i32, ptr } = FFIType;
  const libc = openLibc({ getsockopt: { args: [i32, i32, i32, ptr, ptr], returns: i32 } });
  if (libc === undefined) return undefined;
  try {
    const credentials = new Uint32Array(UCRED_BYTES / 4);
    const length = new Uint32Array([UCRED_BYTES]);
    const failed = libc.symbols.getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, credentials, length) !== 0;
    return failed || length[0] !== UCRED_BYTES ? undefined : credentials[1];
  } finally {
    libc.close();
  }
}
