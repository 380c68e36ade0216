import { statSync as nodeStatSync } from "node:fs";
import { ABSENT_CODES, type FileStat, toFilesError, toStat } from "./files.ts";

/**
 * Returns the metadata of a file at an absolute path, following symlinks; undefined if nothing exists there, or the link is dangling. Throws
 * `FilesError`.
 */
export type StatSync = (path: string) => FileStat | undefined;

/**
 * As `stat` of `Files`, but in the calling thread, so that it wakes no thread of the pool. The whole process waits for the file system:
 * only for paths on which `networkMountOf` finds no mount.
 */
export const statSync: StatSync = (path) => {
  try {
    return toStat(nodeStatSync(path));
  } catch (error) {
    const failure = toFilesError(path, error);
    if (ABSENT_CODES.includes(failure.code)) return undefined;
    throw failure;
  }
};
