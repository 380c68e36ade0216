import { lstat } from "node:fs/promises";
import { isGone, walkTree } from "./walk-tree.ts";

/** What the files of a folder tree take on their file system. */
export interface DiskUsage {
  readonly usedBytes: number;
  /** Files and folders, the top folder included. */
  readonly inodesUsed: number;
}

/** The unit of `st_blocks`, whatever the block size of the file system. */
const BLOCK_BYTES = 512;

/**
 * Adds up the blocks of a folder tree, as the kubelet does (pkg/volume/util/fs.DiskUsage): a file with several hard links
 * counts once, a symlink is not followed, and other file systems that are mounted in the tree do not count. Rejects as
 * `walkTree` does.
 */
export async function diskUsage(path: string, signal: AbortSignal): Promise<DiskUsage> {
  const linked = new Set<number>();
  let [usedBytes, inodesUsed] = [0, 0];
  await walkTree(path, {
    signal,
    async visit(entry) {
      try {
        const found = await lstat(entry.path);
        if (found.dev !== entry.device) return false;
        const isFolder = found.isDirectory();
        if (!isFolder && found.nlink > 1) {
          if (linked.has(found.ino)) return false;
          linked.add(found.ino);
        }
        usedBytes += found.blocks * BLOCK_BYTES;
        inodesUsed += 1;
        return isFolder;
      } catch (error) {
        if (isGone(error)) return false;
        throw error;
      }
    },
  });
  return { usedBytes, inodesUsed };
}
