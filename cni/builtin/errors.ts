import { messageOf } from "../../host/error-message.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { CniError, cniCodes } from "../error.ts";

/** The codes of this plugin, beside those of the specification. */
export const codes = {
  /** The kernel refuses a request. */
  kernel: 100,
  /** No address is left. */
  exhausted: 101,
  /** The requested address is taken, or in no range. */
  address: 102,
  /** A link of another kind, or with another address, has the bridge's name. */
  bridge: 103,
  /** Another pod has the host port. */
  hostPort: 104,
  /** CHECK finds a difference. */
  mismatch: 105,
} as const;

/** An error of the kernel or of a file as a `CniError`, which has the words of its cause. */
export function toCniError(error: unknown): CniError {
  if (error instanceof CniError) return error;
  if (error instanceof NetlinkError) return new CniError(codes.kernel, error.message, { cause: error });
  return new CniError(cniCodes.ioFailure, messageOf(error), { cause: error });
}
