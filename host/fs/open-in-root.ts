import { constants } from "node:fs";
import { type FileHandle, open, readlink } from "node:fs/promises";

/** Names what is there without opening it: no device hears of it, no FIFO waits. The same number on all machines that we are built for. */
const O_PATH = 0o10000000;
const MOST_LINKS = 40;
/** Ours: a link stands where none may be followed. */
const LINK = "ESYMLINK";
/** Each level holds a file descriptor. */
const DEEPEST = 64;

/** What becomes of the symlinks on the way. */
interface WithSymlinks {
  readonly symlinks: "follow" | "refuse";
}

/**
 * What stands at a path below a folder in which others, who are not to be trusted, may make whatever they like, as a handle that names it
 * and is not open for reading. Symlinks are followed as a process would to which the folder is the root (`RESOLVE_IN_ROOT` of openat2(2)):
 * none leads out of it. Rejects with the kernel's codes (`ENOENT`, `ENOTDIR`, `ELOOP`), or with `ESYMLINK` at the first link where they are
 * refused.
 *
 * Each name is looked up in the open folder above it, and `..` goes back to the one that we came from, so that it does not matter what is
 * renamed, or replaced by a link, meanwhile.
 */
export async function openInRoot(root: string, path: string, { symlinks }: WithSymlinks): Promise<FileHandle> {
  const way = [await open(root, O_PATH | constants.O_DIRECTORY)];
  const names = partsOf(path).toReversed();
  let links = 0;
  try {
    for (let name = names.pop(); name !== undefined; name = names.pop()) {
      if (name === "..") {
        if (way.length > 1) await way.pop()?.close();
        continue;
      }
      const place = `/proc/self/fd/${way.at(-1)?.fd}/${name}`;
      const found = await open(place, O_PATH | constants.O_NOFOLLOW);
      if (!(await isLink(found))) {
        way.push(found);
        if (way.length > DEEPEST) throw codeError("ENAMETOOLONG");
        continue;
      }
      await found.close();
      if (symlinks === "refuse") throw codeError(LINK);
      if (++links > MOST_LINKS) throw codeError("ELOOP");
      const target = await readlink(place);
      if (target.startsWith("/")) for (const each of way.splice(1)) await each.close();
      names.push(...partsOf(target).toReversed());
    }
    return way.pop() as FileHandle;
  } finally {
    for (const each of way) await each.close();
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

const partsOf = (path: string) => path.split("/").filter((name) => name !== "" && name !== ".");

function codeError(code: string): Error {
  return Object.assign(new Error(code), { code });
}
