import { statSync } from "node:fs";
import { ABSENT_CODES, type FileStat, toFilesError, toStat } from "./files.ts";

/**
 * Returns the metadata of a file at an absolute path, following symlinks; undefined if nothing exists there, or the link is dangling. Throws
 * `FilesError`.
 */
export type StatNow = (path: string) => FileStat | undefined;

/**
 * As `stat` of `Files`, in this thread: it wakes no thread of the pool, which takes longer than the call itself. Only for paths on which
 * `networkMountOf` finds no mount: the whole process waits for the file system.
 */
export const statNow: StatNow = (path) => {
  try {
    return toStat(statSync(path));
  } catch (error) {
    const failure = toFilesError(path, error);
    if (ABSENT_CODES.includes(failure.code)) return undefined;
    throw failure;
  }
};
