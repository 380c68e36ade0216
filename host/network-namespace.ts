import { statfs } from "node:fs/promises";

/** The type of the kernel's file system of namespaces: NSFS_MAGIC in linux/magic.h. */
const NSFS_MAGIC = 0x6e736673;

/**
 * Whether a namespace is mounted at this path. A file that stays after its namespace was unmounted, as after a boot, is none.
 * Rejects with the kernel's error for anything but an absent path.
 */
export async function isNamespaceMount(path: string): Promise<boolean> {
  try {
    return (await statfs(path)).type === NSFS_MAGIC;
  } catch (error) {
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR"))
      return false;
    throw error;
  }
}
