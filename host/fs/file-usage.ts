import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path/posix";
import type { DiskUsage } from "./disk-usage.ts";

const BLOCK_BYTES = 512;

/**
 * What the files directly in a folder take on their file system; folders and what is in them do not count, and no symlink
 * is followed. Undefined if there is no such folder. A file that is removed meanwhile does not count.
 */
export async function usageOfFiles(folder: string): Promise<DiskUsage | undefined> {
  const names = await readdir(folder).catch(undefinedIfGone);
  if (names === undefined) return undefined;
  const found = await Promise.all(names.map((name) => usageOfFile(join(folder, name))));
  const files = found.filter((each) => each !== undefined);
  return { usedBytes: files.reduce((sum, { usedBytes }) => sum + usedBytes, 0), inodesUsed: files.length };
}

/** What one file takes; undefined if it does not exist, or is a folder. */
export async function usageOfFile(path: string): Promise<DiskUsage | undefined> {
  const found = await lstat(path).catch(undefinedIfGone);
  return found === undefined || found.isDirectory()
    ? undefined
    : { usedBytes: found.blocks * BLOCK_BYTES, inodesUsed: 1 };
}

function undefinedIfGone(error: unknown): undefined {
  if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
    return undefined;
  throw error;
}
