import { constants as ofSystem } from "node:os";

/**
 * A refused or failed call of netlink. `code` is the kernel's name of the error (`EEXIST`), or `EBADMSG` for an answer
 * that cannot be read and `ENOSYS` where the C library cannot be used. `what` says what was attempted.
 */
export class NetlinkError extends Error {
  override readonly name = "NetlinkError";
  readonly code: string;
  readonly what: string;
  /** `reason`: the kernel's own sentence (extended ack), or ours; empty if there is none. */
  constructor(code: string, what: string, reason: string, options?: ErrorOptions) {
    super(`cannot ${what}: ${code}${reason === "" ? "" : `, ${reason}`}`, options);
    this.code = code;
    this.what = what;
  }
}

/** The number of an error that the constants of node:os lack. nfnetlink answers it to a batch for another generation of the rules. */
const ERESTART = 85;

/** The name of an error number: 17 → `EEXIST`. Some numbers have two names; the kernel's sources use this one. */
export function errnoName(errno: number): string {
  if (errno === ofSystem.errno.EAGAIN) return "EAGAIN";
  if (errno === ofSystem.errno.EOPNOTSUPP) return "EOPNOTSUPP";
  if (errno === ERESTART) return "ERESTART";
  return Object.entries(ofSystem.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
}

/**
 * Does `work`, and takes one of the error codes for success: an object that exists already, or is gone already. Returns
 * undefined then. Other errors are thrown.
 */
export function unlessCode<T>(codes: readonly string[], work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof NetlinkError && codes.includes(error.code)) return undefined;
    throw error;
  }
}
