import { constants } from "node:fs";
import { type FileHandle, open, readlink } from "node:fs/promises";

/**
 * Refers to a file without opening it, so that no device driver is called and no FIFO blocks. The same value on amd64
 * and arm64.
 */
const O_PATH = 0o10000000;
const MAX_SYMLINKS = 40;
/** Our own code: a symlink where none may be followed. */
const SYMLINK_CODE = "ESYMLINK";
/** Each level holds a file descriptor. */
const MAX_DEPTH = 64;

interface OpenInRootOptions {
  /**
   * How symlinks in the path are treated. `follow`: the folder is the root of absolute targets. `followHostPaths`: an absolute
   * target that begins with the folder's own path is a path of the machine, and continues in the folder.
   */
  readonly symlinks: "follow" | "followHostPaths" | "refuse";
}

/**
 * Opens (O_PATH) a path below a folder whose contents are not trusted, such as a volume. Symlinks are resolved with
 * that folder as the root (like `RESOLVE_IN_ROOT` of openat2(2)): none leads out of it. Rejects with the kernel's codes
 * (`ENOENT`, `ENOTDIR`, `ELOOP`), or with `ESYMLINK` at the first symlink if they are refused.
 *
 * Each name is looked up in its open parent, and `..` returns to the parent that we came from, so that concurrent
 * renames and replaced links have no effect.
 */
export async function openInRoot(root: string, path: string, { symlinks }: OpenInRootOptions): Promise<FileHandle> {
  const openParents = [await open(root, O_PATH | constants.O_DIRECTORY)];
  const names = partsOf(path).toReversed();
  let symlinkCount = 0;
  try {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      if (name === "..") {
        if (openParents.length > 1) await openParents.pop()?.close();
        continue;
      }
      const procPath = `/proc/self/fd/${openParents.at(-1)?.fd}/${name}`;
      const found = await open(procPath, O_PATH | constants.O_NOFOLLOW);
      if (!(await isLink(found))) {
        openParents.push(found);
        if (openParents.length > MAX_DEPTH) throw codeError("ENAMETOOLONG");
        continue;
      }
      await found.close();
      if (symlinks === "refuse") throw codeError(SYMLINK_CODE);
      if (++symlinkCount > MAX_SYMLINKS) throw codeError("ELOOP");
      const target = await readlink(procPath);
      if (target.startsWith("/")) for (const each of openParents.splice(1)) await each.close();
      const followed = partsOf(target);
      if (symlinks === "followHostPaths" && target.startsWith("/")) removePrefix(followed, partsOf(root));
      names.push(...followed.toReversed());
    }
    return openParents.pop() as FileHandle;
  } finally {
    for (const each of openParents) await each.close();
  }
}

async function isLink(found: FileHandle): Promise<boolean> {
  try {
    return (await found.stat()).isSymbolicLink();
  } catch (error) {
    await found.close();
    throw error;
  }
}

/** Removes the names of the root from the beginning of a path that has all of them. */
function removePrefix(path: string[], root: readonly string[]): void {
  if (root.every((name, index) => path[index] === name)) path.splice(0, root.length);
}

const partsOf = (path: string) => path.split("/").filter((name) => name !== "" && name !== ".");

function codeError(code: string): Error {
  return Object.assign(new Error(code), { code });
}
