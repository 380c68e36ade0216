import { messageOf } from "../host/error-message.ts";
import { FilesError } from "../host/fs/files.ts";
import { NetlinkError } from "../host/netlink/error.ts";
import { codes } from "./builtin/errors.ts";
import { CniError, cniCodes } from "./error.ts";

/**
 * Any failure as a `CniError` with the words of its cause: code 100 for what the kernel refuses over netlink, 5 for files, 999 for
 * a fault of this program. With `plugin` it names the plugin in which it happened, unless it has a name already: a plugin of
 * this process may not know its own.
 */
export function toCniError(error: unknown, plugin?: string): CniError {
  if (!(error instanceof CniError)) return new CniError(codeOf(error), messageOf(error), { plugin, cause: error });
  if (plugin === undefined || error.plugin !== undefined) return error;
  const { code, message, details, stderr } = error;
  return new CniError(code, message, { details, stderr, plugin, cause: error });
}

function codeOf(error: unknown): number {
  if (error instanceof NetlinkError) return codes.kernel;
  // Of node:fs, where a call has to be synchronous: a system call and the name of its error.
  const isOfSystemCall = error instanceof Error && "syscall" in error && "code" in error;
  return error instanceof FilesError || isOfSystemCall ? cniCodes.ioFailure : cniCodes.internal;
}
