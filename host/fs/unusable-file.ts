import { FilesError } from "./files.ts";

const UNUSABLE: ReadonlySet<string> = new Set([
  "ETOOBIG",
  "ENOTFILE",
  "EISDIR",
  "ENOENT",
  "ELOOP",
  "ERR_ENCODING_INVALID_ENCODED_DATA",
]);

/**
 * Whether a file could not be read because of what is there: a read fails again until that changes. Any other failure,
 * such as EMFILE, EIO, ENOMEM or EACCES, says nothing about the file, and may be over at the next read.
 */
export function isUnusableFile(error: unknown): boolean {
  return error instanceof FilesError && UNUSABLE.has(error.code);
}
