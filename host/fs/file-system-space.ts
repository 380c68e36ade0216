import { statfs } from "node:fs/promises";

/** Capacity and free space of a file system. */
export interface FileSystemSpace {
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Without the blocks that only root may use: they are in neither. */
  readonly usedBytes: number;
  readonly totalInodes: number;
  readonly freeInodes: number;
}

/** Reads the space of the file system at a path by statfs(2). Rejects with the kernel's error. */
export async function readFileSystemSpace(path: string): Promise<FileSystemSpace> {
  const { blocks, bavail, bfree, bsize, files, ffree } = await statfs(path);
  return {
    totalBytes: blocks * bsize,
    freeBytes: bavail * bsize,
    usedBytes: (blocks - bfree) * bsize,
    totalInodes: files,
    freeInodes: ffree,
  };
}
