import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { openInRoot } from "./open-in-root.ts";

/** What a client may read below a folder. */
export type ServedEntry =
  | {
      readonly kind: "file";
      readonly sizeBytes: number;
      readonly modifiedMs: number;
      /** The bytes from `start` to before `end` as they are now, in blocks; fewer if the file has become shorter. */
      readonly read: (start: number, end: number) => AsyncIterable<Uint8Array>;
      close(): Promise<void>;
    }
  | {
      readonly kind: "folder";
      readonly modifiedMs: number;
      readonly entries: readonly { readonly name: string; readonly isFolder: boolean }[];
    };

const BLOCK_BYTES = 64 << 10;

/**
 * Opens a file or a folder below a folder in which other programs may create symlinks, such as pods in `/var/log`: none leads
 * out of it. An absolute one with the folder's own path, such as those in `/var/log/containers`, is followed inside it. The caller closes a
 * file. Undefined for a FIFO, a device or a socket, which are not opened. Rejects with the kernel's codes.
 */
export async function openServed(root: string, path: string): Promise<ServedEntry | undefined> {
  const found = await openInRoot(root, path, { symlinks: "followHostPaths" });
  try {
    const stat = await found.stat();
    const fdPath = `/proc/self/fd/${found.fd}`;
    if (stat.isDirectory()) {
      const entries = (await readdir(fdPath, { withFileTypes: true }))
        .map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }))
        .toSorted((a, b) => (a.name < b.name ? -1 : 1));
      return { kind: "folder", modifiedMs: stat.mtimeMs, entries };
    }
    if (!stat.isFile()) return undefined;
    const file = await open(fdPath, constants.O_RDONLY | constants.O_NONBLOCK);
    async function* read(start: number, end: number): AsyncGenerator<Uint8Array> {
      for (let position = start; position < end; ) {
        const bytes = new Uint8Array(Math.min(BLOCK_BYTES, end - position));
        const { bytesRead } = await file.read(bytes, 0, bytes.length, position);
        if (bytesRead === 0) return;
        position += bytesRead;
        yield bytes.subarray(0, bytesRead);
      }
    }
    return { kind: "file", sizeBytes: stat.size, modifiedMs: stat.mtimeMs, read, close: () => file.close() };
  } finally {
    await found.close();
  }
}
