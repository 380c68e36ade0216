import { FilesError } from "../../host/fs/files.ts";

/** The agent cannot run on this machine as it is configured; the message says what would be right. */
export class StartError extends Error {
  override readonly name = "StartError";
}

/** The usual cure where something of the root directory is not as it should be. */
export const inOrder = "put that in order, or give --root-dir another folder";

/**
 * For a file operation that the start depends on: its failure as a `StartError` of one line, with what was `wanted`, why it cannot
 * be, and the `cure`: for whoever is not root, and may not, that is to be root. What is no `FilesError` is a mistake of ours, and thrown on.
 */
export function failStart(wanted: string, cure: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof FilesError)) throw error;
    const isForbidden = error.code === "EACCES" || error.code === "EPERM";
    const likelier = isForbidden && process.geteuid?.() !== 0 ? "run berth as root" : cure;
    throw new StartError(`${wanted}: ${error.message}: ${likelier}`, { cause: error });
  };
}
