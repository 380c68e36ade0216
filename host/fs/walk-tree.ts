import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";

/** One file of a tree, as `walkTree` visits it. */
export interface TreeEntry {
  /** Leads to it while it is visited. Neither renames of its folder nor mounts over that change where it leads. */
  readonly path: Buffer;
  /** The device of the top folder: a file of another one belongs to a file system that is mounted in the tree. */
  readonly device: number;
  /** The path for messages. */
  readablePath(): string;
}

export interface TreeWalk {
  readonly signal: AbortSignal;
  /** Returns whether it is a folder whose entries are visited, too. */
  visit(entry: TreeEntry): Promise<boolean>;
}

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Files that are visited at once: more than the I/O threads, so that none waits. */
const BATCH = 32;
/** What a name leads to that was removed or replaced since it was listed. */
const GONE: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

/**
 * Visits every file of a folder tree, the top folder last. Rejects with the signal's reason when it aborts, with the
 * kernel's error if a folder cannot be read, and as `visit` does.
 *
 * Programs may change the tree meanwhile. So each name is looked up in its open folder without following symlinks. The
 * folders that wait are paths, not open files: a tree may be deeper than the number of files that a process can open.
 */
export async function walkTree(path: string, walk: TreeWalk): Promise<void> {
  const top = await open(path, folderFlags);
  try {
    const { dev: device } = await top.stat();
    const waiting: string[][] = [[]];
    for (let names = waiting.pop(); names !== undefined; names = waiting.pop()) {
      const folder = await openBelow(top, names);
      if (folder === undefined) continue;
      try {
        const found = await visitEntries(walk, { folder, names, path, device });
        for (const name of found) waiting.push([...names, name]);
      } finally {
        if (folder !== top) await folder.close();
      }
    }
    await walk.visit({ path: pathIn(top, "."), device, readablePath: () => path });
  } finally {
    await top.close();
  }
}

/** Whether a file was removed or replaced since it was listed. */
export function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && GONE.has(error.code);
}

/** Opens a folder below the top one, name by name. Undefined if it is not there any more. */
async function openBelow(top: FileHandle, names: readonly string[]): Promise<FileHandle | undefined> {
  let folder = top;
  for (const name of names) {
    const parent = folder;
    try {
      folder = await open(pathIn(parent, name), folderFlags);
    } catch (error) {
      if (isGone(error)) return undefined;
      throw error;
    } finally {
      if (parent !== top) await parent.close();
    }
  }
  return folder;
}

interface OpenFolder {
  readonly folder: FileHandle;
  /** From the top folder to this one. */
  readonly names: readonly string[];
  /** That of the top folder. */
  readonly path: string;
  readonly device: number;
}

/** Visits what is in a folder. Returns the names of the folders in it. */
async function visitEntries(walk: TreeWalk, { folder, names, path, device }: OpenFolder): Promise<readonly string[]> {
  // latin1 maps each byte to one character: names may be invalid UTF-8 and must be found again.
  const entries = await readdir(`/proc/self/fd/${folder.fd}`, { encoding: "latin1" });
  const folders: string[] = [];
  for (let start = 0; start < entries.length; start += BATCH) {
    walk.signal.throwIfAborted();
    const batch = entries.slice(start, start + BATCH).map(async (name) => {
      const readablePath = () => `${path}/${Buffer.from([...names, name].join("/"), "latin1").toString()}`;
      if (await walk.visit({ path: pathIn(folder, name), device, readablePath })) folders.push(name);
    });
    await Promise.all(batch);
  }
  return folders;
}

/** The path of `name` in an open folder, independent of renames of that folder and mounts over it. */
function pathIn({ fd }: FileHandle, name: string): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), Buffer.from(name, "latin1")]);
}
