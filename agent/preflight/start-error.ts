import { FilesError } from "../../host/fs/files.ts";

/** The agent cannot run on this machine with this configuration. The message is one line and names a remedy. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** The usual remedy for a problem with the root directory. */
export const ROOT_DIR_HINT = "fix that, or set --root-dir to another directory";

const OPEN_FILES_HINT = "raise the limit of open files (ulimit -n, in systemd LimitNOFILE)";

/** A `StartError` for an error of the kernel because too many files are open; undefined for any other error. */
export function toOpenFilesError(error: unknown): StartError | undefined {
  if (!(error instanceof Error) || !("code" in error) || !isTooManyOpenFiles(error.code)) return undefined;
  return new StartError(`cannot start: ${error.message}: ${OPEN_FILES_HINT}`, { cause: error });
}

const isTooManyOpenFiles = (code: unknown) => code === "EMFILE" || code === "ENFILE";

/**
 * Converts the failure of a file operation that the start depends on to a `StartError` of one line: `subject` (what
 * failed), the reason and the `remedy` (for a permission error without root it is to run as root, for too many open files
 * to raise their limit). Rethrows any other error.
 */
export function toStartError(subject: string, remedy: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof FilesError)) throw error;
    const isForbidden = error.code === "EACCES" || error.code === "EPERM";
    const hint = isTooManyOpenFiles(error.code)
      ? OPEN_FILES_HINT
      : isForbidden && process.geteuid?.() !== 0
        ? "run berth as root"
        : remedy;
    throw new StartError(`${subject}: ${error.message}: ${hint}`, { cause: error });
  };
}
