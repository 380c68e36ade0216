import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename, dirname } from "node:path/posix";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { openInRoot } from "./open-in-root.ts";
import { openRegularFile } from "./readable-file.ts";

/**
 * Compresses a regular file below a folder into a new file with the same mode, in pieces, so that its size costs no
 * memory. Follows no symlink. Rejects with `EEXIST` if there is something at `to`.
 */
export async function gzipFile(root: string, from: string, to: string): Promise<void> {
  const source = await openRegularFile(root, from);
  try {
    const { mode } = await source.stat();
    const folder = await openInRoot(root, dirname(to), { symlinks: "refuse" });
    try {
      const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
      const target = await open(`/proc/self/fd/${folder.fd}/${basename(to)}`, flags, mode & 0o7777);
      try {
        await pipeline(piecesOf(source), createGzip(), async (compressed: AsyncIterable<Uint8Array>) => {
          for await (const piece of compressed) await target.writeFile(piece);
        });
      } finally {
        await target.close();
      }
    } finally {
      await folder.close();
    }
  } finally {
    await source.close();
  }
}

const PIECE_BYTES = 256 * 1024;

/** Not the handle's own stream: in Bun a pipeline with it never ends. */
async function* piecesOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  for (;;) {
    // The compressor keeps the piece until it has compressed it.
    const piece = new Uint8Array(PIECE_BYTES);
    const { bytesRead } = await file.read(piece, 0, piece.length, null);
    if (bytesRead === 0) return;
    yield piece.subarray(0, bytesRead);
  }
}
