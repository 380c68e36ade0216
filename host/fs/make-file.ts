import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** The numeric owners of a new file; by default those of this process. */
export interface FileOwner {
  readonly user?: number;
  readonly group?: number;
}

/** Creates or overwrites a file in place, not through a symlink. Rejects with the kernel's error. */
export async function makeFile(
  path: string,
  mode: number,
  content: string | Uint8Array,
  owner: FileOwner,
): Promise<void> {
  const { user = -1, group = -1 } = owner;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const file = await open(path, flags, mode);
  try {
    // chown before chmod: chown(2) clears the set-user-id and set-group-id bits.
    if (user !== -1 || group !== -1) await file.chown(user, group);
    await file.chmod(mode);
    if (content.length > 0) await file.writeFile(content);
  } finally {
    await file.close();
  }
}

/**
 * Creates an empty file with this mode regardless of the umask. What is there stays as it is. The target of a dangling
 * symlink is created, as by the kubelet, and the umask limits its mode. Rejects with the kernel's error.
 */
export async function makeEmptyFile(path: string, mode: number): Promise<void> {
  // O_EXCL tells whether the file is new, but does not follow a symlink.
  const file = await openOrUndefined(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
  if (file === undefined) {
    // O_NONBLOCK: a FIFO without a writer would block.
    const present = await open(path, constants.O_RDONLY | constants.O_CREAT | constants.O_NONBLOCK, mode);
    await present.close();
    return;
  }
  try {
    await file.chmod(mode);
  } finally {
    await file.close();
  }
}

/** Undefined if the path exists. */
async function openOrUndefined(path: string, flags: number, mode: number): Promise<FileHandle | undefined> {
  try {
    return await open(path, flags, mode);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return undefined;
    throw error;
  }
}
