import { constants } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { openInRoot } from "./open-in-root.ts";

/** What a client may read below a folder. */
export type ServedEntry =
  | {
      readonly kind: "file";
      readonly sizeBytes: number;
      readonly modifiedMs: number;
      /** The content as it is now, at most `sizeBytes`, in blocks. The file is closed at its end. */
      readonly blocks: AsyncIterable<Uint8Array>;
      close(): Promise<void>;
    }
  | { readonly kind: "folder"; readonly entries: readonly { readonly name: string; readonly isFolder: boolean }[] };

const BLOCK_BYTES = 64 << 10;

/**
 * Opens a file or a folder below a folder in which other programs may create symlinks, such as pods in `/var/log`: none leads
 * out of it. An absolute one with the folder's own path, such as those in `/var/log/containers`, is followed inside it. Undefined for a FIFO, a device or a socket, which are not opened. Rejects with the kernel's codes.
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
      return { kind: "folder", entries };
    }
    if (!stat.isFile()) return undefined;
    const file = await open(fdPath, constants.O_RDONLY | constants.O_NONBLOCK);
    const close = () => file.close();
    const sizeBytes = stat.size;
    async function* blocks(): AsyncGenerator<Uint8Array> {
      try {
        for (let position = 0; position < sizeBytes; ) {
          const bytes = new Uint8Array(Math.min(BLOCK_BYTES, sizeBytes - position));
          const { bytesRead } = await file.read(bytes, 0, bytes.length, position);
          if (bytesRead === 0) return;
          position += bytesRead;
          yield bytes.subarray(0, bytesRead);
        }
      } finally {
        await file.close();
      }
    }
    return { kind: "file", sizeBytes, modifiedMs: stat.mtimeMs, blocks: blocks(), close };
  } finally {
    await found.close();
  }
}
