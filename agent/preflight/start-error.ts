import { FilesError } from "../../host/fs/files.ts";

/** The agent cannot run on this machine with this configuration. The message is one line and names a remedy. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** The usual remedy for a problem with the root directory. */
export const ROOT_DIR_HINT = "fix that, or set --root-dir to another directory";

/**
 * Converts the failure of a file operation that the start depends on to a `StartError` of one line: `subject` (what
 * failed), the reason and the `remedy` (for a permission error without root it is to run as root). Rethrows any other
 * error.
 */
export function toStartError(subject: string, remedy: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof FilesError)) throw error;
    const isForbidden = error.code === "EACCES" || error.code === "EPERM";
    const hint = isForbidden && process.geteuid?.() !== 0 ? "run berth as root" : remedy;
    throw new StartError(`${subject}: ${error.message}: ${hint}`, { cause: error });
  };
}
