import { messageOf } from "../host/error-message.ts";
import { FilesError } from "../host/fs/files.ts";
import { NetlinkError } from "../host/netlink/error.ts";
import { builtinCodes } from "./builtin/errors.ts";
import { CniError, cniCodes } from "./error.ts";

/**
 * Any failure as a `CniError` with the message of its cause: code 100 for a request that the kernel refuses over netlink, 5 for
 * files, 999 for a fault of this program. `plugin` names the plugin that has failed, unless the error names one already: a plugin
 * inside this process may not know its own name.
 */
export function toCniError(error: unknown, plugin?: string): CniError {
  if (!(error instanceof CniError)) return new CniError(codeOf(error), messageOf(error), { plugin, cause: error });
  if (plugin === undefined || error.plugin !== undefined) return error;
  const { code, message, details, stderr } = error;
  return new CniError(code, message, { details, stderr, plugin, cause: error });
}

function codeOf(error: unknown): number {
  if (error instanceof NetlinkError) return builtinCodes.kernel;
  // An error of node:fs, which synchronous calls throw, has the system call and the name of its error.
  const isOfSystemCall = error instanceof Error && "syscall" in error && "code" in error;
  return error instanceof FilesError || isOfSystemCall ? cniCodes.ioFailure : cniCodes.internal;
}
