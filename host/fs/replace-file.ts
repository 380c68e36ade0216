import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
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
    const file = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
    try {
      await file.chmod(mode);
      await file.writeFile(content);
      if (syncFolder !== undefined) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder?.(folder);
}
