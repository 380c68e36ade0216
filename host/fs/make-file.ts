import { constants } from "node:fs";
import { open } from "node:fs/promises";

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
