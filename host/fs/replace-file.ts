import { chmod, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path/posix";
import type { FolderSync } from "./fsync-dir.ts";

/**
 * Replaces a file atomically: writes another file and renames it. With `syncFolder` in the order fsync, rename, fsync of the
 * folder: after a power cut any other order can leave an empty file under the final name.
 */
export async function replaceFile(
  path: string,
  content: string | Uint8Array,
  mode: number,
  syncFolder?: FolderSync,
): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${crypto.randomUUID()}.tmp`);
  try {
    // One call, and so one change to a thread for I/O and back, opens, writes and closes the file.
    await writeFile(temporary, content, { mode, flag: "wx", flush: syncFolder !== undefined });
    // open(2) takes the bits of the umask away.
    if ((mode & process.umask()) !== 0) await chmod(temporary, mode);
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder?.(folder);
}
