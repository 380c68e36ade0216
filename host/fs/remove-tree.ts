import { constants, readFileSync, readlinkSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path/posix";

/** A removal that failed at `path` with the kernel's `code`; `EBUSY` for a mount point. */
export class TreeError extends Error {
  override readonly name = "TreeError";
  readonly code: string;
  readonly path: string;
  constructor(code: string, path: string, options?: ErrorOptions) {
    const reason = code === "EBUSY" ? "it is a mount point, and nothing below a mount is removed" : code;
    super(`${path} cannot be removed: ${reason}`, options);
    this.code = code;
    this.path = path;
  }
}

interface Walk {
  readonly top: FileHandle;
  /** The mount that the top folder is on; files on other mounts are not removed. */
  readonly mountId: string;
  /** Names in the top folder of subtrees that were moved there because they were nested too deep. */
  readonly movedToTop: string[];
}

/** Each level holds a file descriptor, and a container may nest hundreds of thousands of folders. */
const MAX_DEPTH = 64;

/**
 * Removes a file or a folder tree, never through a symlink or a mount. Absent is success. Throws `TreeError`.
 *
 * Each folder is opened by its name in its open parent, without following symlinks, and then its mount id is checked.
 * Everything else happens relative to the open folder, so that a mount or symlink created between the check and the
 * removal has no effect. A device number would not be enough: a bind mount has the one of its source.
 */
export async function removeTree(path: string): Promise<void> {
  if (await removeLeaf(path, () => path)) return;
  const parent = await undefinedIfAbsent(
    () => open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY),
    () => dirname(path),
  );
  if (parent === undefined) return;
  const mountId = mountIdOf(parent);
  try {
    await removeFolder(parent, toBytes(basename(path)), mountId, async (top) => {
      const walk: Walk = { top, mountId, movedToTop: [] };
      await emptyFolder(top, walk, 0);
      // Subtrees that were nested too deep are in the top folder now; emptying one may move more there.
      for (let name = walk.movedToTop.pop(); name !== undefined; name = walk.movedToTop.pop())
        await removeFolder(top, name, mountId, (folder) => emptyFolder(folder, walk, 1));
    });
  } finally {
    await parent.close();
  }
}

async function removeFolder(
  parent: FileHandle,
  name: string,
  mountId: string,
  emptyContents: (folder: FileHandle) => Promise<void>,
): Promise<void> {
  const pathForError = () => realPathOf(parent, name);
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const folder = await undefinedIfAbsent(() => open(pathIn(parent, name), flags), pathForError);
  if (folder === undefined) return;
  try {
    if (mountIdOf(folder) !== mountId) throw new TreeError("EBUSY", pathForError());
    await emptyContents(folder);
  } finally {
    await folder.close();
  }
  await undefinedIfAbsent(() => rmdir(pathIn(parent, name)), pathForError);
}

async function emptyFolder(folder: FileHandle, walk: Walk, depth: number): Promise<void> {
  // latin1 maps each byte to one character: container file names may be invalid UTF-8 and must be found again.
  const names = await readdir(`/proc/self/fd/${folder.fd}`, { encoding: "latin1" });
  for (const name of names) {
    if (await removeLeaf(pathIn(folder, name), () => realPathOf(folder, name))) continue;
    if (depth === MAX_DEPTH) await moveToTop(folder, name, walk);
    else await removeFolder(folder, name, walk.mountId, (inner) => emptyFolder(inner, walk, depth + 1));
  }
}

async function moveToTop(folder: FileHandle, name: string, { top, movedToTop }: Walk): Promise<void> {
  const free = `.${crypto.randomUUID()}`;
  await undefinedIfAbsent(
    () => rename(pathIn(folder, name), pathIn(top, free)),
    () => realPathOf(folder, name),
  );
  movedToTop.push(free);
}

/** Unlinks anything but a folder. False if it is a folder. */
async function removeLeaf(path: Buffer | string, pathForError: () => string): Promise<boolean> {
  try {
    await undefinedIfAbsent(() => unlink(path), pathForError);
    return true;
  } catch (error) {
    if (error instanceof TreeError && error.code === "EISDIR") return false;
    throw error;
  }
}

async function undefinedIfAbsent<T>(work: () => Promise<T>, pathForError: () => string): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    // No file can have a name that is too long.
    if (code === "ENOENT" || code === "ENAMETOOLONG") return undefined;
    throw new TreeError(code, pathForError(), { cause: error });
  }
}

/** The path of `name` in an open folder, independent of renames of that folder and mounts over it. */
function pathIn({ fd }: FileHandle, name: string): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), Buffer.from(name, "latin1")]);
}

function toBytes(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** The real path of a name in an open folder, for error messages. */
function realPathOf({ fd }: FileHandle, name: string): string {
  return `${readlinkSync(`/proc/self/fd/${fd}`)}/${Buffer.from(name, "latin1").toString()}`;
}

/** `mnt_id` of proc_pid_fdinfo(5). Read synchronously: procfs answers from memory. */
function mountIdOf({ fd }: FileHandle): string {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1];
  if (id === undefined) throw new TreeError("ENOTSUP", `/proc/self/fdinfo/${fd}`);
  return id;
}
