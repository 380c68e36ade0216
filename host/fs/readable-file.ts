import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { openInRoot } from "./open-in-root.ts";

/** A regular file that is open for reading. It stays the same file when it is renamed or removed. */
export interface ReadableFile {
  readonly inode: number;
  /** Reads from `position` on into `bytes`; returns how many bytes it has read, 0 at the end of the file. */
  read(bytes: Uint8Array, position: number): Promise<number>;
  sizeBytes(): Promise<number>;
  close(): Promise<void>;
}

/**
 * Opens a regular file below a folder without following a symlink, wherever it is in the path. Rejects with the code
 * `ESYMLINK` for a symlink and `ENOTFILE` for anything else that is no regular file: a FIFO is never opened.
 */
export async function openReadable(root: string, path: string): Promise<ReadableFile> {
  const file = await openRegularFile(root, path);
  try {
    const { ino } = await file.stat();
    return {
      inode: ino,
      read: async (bytes, position) => (await file.read(bytes, 0, bytes.length, position)).bytesRead,
      sizeBytes: async () => (await file.stat()).size,
      close: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** As `openReadable`, for callers that need the handle. */
export async function openRegularFile(root: string, path: string): Promise<FileHandle> {
  const found = await openInRoot(root, path, { symlinks: "refuse" });
  try {
    if (!(await found.stat()).isFile()) throw Object.assign(new Error("ENOTFILE"), { code: "ENOTFILE" });
    // Opens exactly the file that was found, even if another one has been put in its place since.
    return await open(`/proc/self/fd/${found.fd}`, constants.O_RDONLY | constants.O_NONBLOCK);
  } finally {
    await found.close();
  }
}
