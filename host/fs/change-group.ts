import { constants, type Stats } from "node:fs";
import { chmod, chown, lstat, open } from "node:fs/promises";
import { isGone, type TreeEntry, walkTree } from "./walk-tree.ts";

/** What a change of the group does to each file of a tree. */
export interface GroupChange {
  readonly group: number;
  /** Permission bits that are added to those of files. */
  readonly addedFileMode: number;
  readonly addedFolderMode: number;
  readonly signal: AbortSignal;
  /** Called with the number of files so far. */
  readonly onProgress?: (count: number) => void;
}

/** Of a tree whose group was changed: how many files it has, and the first one that could not be changed. */
export interface ChangedTree {
  readonly count: number;
  readonly failure: { readonly path: string; readonly error: unknown } | undefined;
}

/**
 * Refers to a file without opening it, so that no device driver is called and no FIFO blocks. The same value on amd64
 * and arm64.
 */
const O_PATH = 0o10000000;
const SET_GROUP_ID = 0o2000;

/**
 * Gives a folder tree to a group and adds permission bits, the top folder last: while it lacks them, the tree is not done.
 * An earlier change may have set them, so the top folder loses its set-group-id bit before another file is changed: an
 * interrupted change never leaves a tree that looks done.
 *
 * Files that have both already are not written to. A symlink gets the group, its target does not; other file systems that
 * are mounted in the tree are left alone. Rejects as `walkTree` does.
 *
 * Programs may change the tree meanwhile: a mode is set by the file that was found, not by its name.
 */
export async function changeGroup(path: string, change: GroupChange): Promise<ChangedTree> {
  let count = 0;
  let failure: ChangedTree["failure"];
  let marking: Promise<void> | undefined;
  const markIncomplete = async (entry: TreeEntry) => {
    if (entry.readablePath() === path) return;
    marking ??= clearSetGroupId(change, path).catch((error: unknown) => {
      failure ??= { path, error };
    });
    await marking;
  };
  await walkTree(path, {
    signal: change.signal,
    async visit(entry) {
      try {
        const found = await lstat(entry.path);
        if (found.dev !== entry.device) return false;
        if (modeToSet(change, found) !== undefined || found.gid !== change.group) {
          await markIncomplete(entry);
          await changeFile(change, entry);
        }
        count += 1;
        change.onProgress?.(count);
        return found.isDirectory();
      } catch (error) {
        // The kubelet goes on, too.
        if (!isGone(error)) failure ??= { path: entry.readablePath(), error };
        return false;
      }
    },
  });
  return { count, failure };
}

/** The change sets the bit again when all other files are done. */
async function clearSetGroupId({ addedFolderMode }: GroupChange, path: string): Promise<void> {
  if ((addedFolderMode & SET_GROUP_ID) === 0) return;
  const top = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    const { mode } = await top.stat();
    if ((mode & SET_GROUP_ID) !== 0) await top.chmod(mode & 0o7777 & ~SET_GROUP_ID);
  } finally {
    await top.close();
  }
}

async function changeFile(change: GroupChange, { path, device }: TreeEntry): Promise<void> {
  const file = await open(path, O_PATH | constants.O_NOFOLLOW);
  try {
    const found = await file.stat();
    if (found.dev !== device) return;
    const exactly = `/proc/self/fd/${file.fd}`;
    const mode = modeToSet(change, found);
    // chown before chmod: chown(2) clears the set-user-id and set-group-id bits.
    if (found.gid !== change.group) await chown(exactly, -1, change.group);
    if (found.isSymbolicLink()) return;
    if (mode !== undefined || (found.mode & 0o6000) !== 0) await chmod(exactly, mode ?? found.mode & 0o7777);
  } finally {
    await file.close();
  }
}

/** Undefined if the file has the mode. The mode of a symlink means nothing. */
function modeToSet({ addedFileMode, addedFolderMode }: GroupChange, found: Stats): number | undefined {
  if (found.isSymbolicLink()) return undefined;
  const present = found.mode & 0o7777;
  const mode = present | (found.isDirectory() ? addedFolderMode : addedFileMode);
  return mode === present ? undefined : mode;
}
