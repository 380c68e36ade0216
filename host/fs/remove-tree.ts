import { constants, readFileSync, readlinkSync } from "node:fs";
import { type FileHandle, open, readdir, rename, rmdir, unlink } from "node:fs/promises";
import { basename, dirname } from "node:path/posix";

/** Where a removal had to stop: at `path`, with the kernel's `code`; `EBUSY` for a mount point. */
export class TreeError extends Error {
  override readonly name = "TreeError";
  readonly code: string;
  readonly path: string;
  constructor(code: string, path: string, options?: ErrorOptions) {
    const why = code === "EBUSY" ? "it is mounted, and nothing is removed through a mount" : code;
    super(`${path} cannot be removed: ${why}`, options);
    this.code = code;
    this.path = path;
  }
}

interface Walk {
  readonly top: FileHandle;
  /** The mount that the top folder is on; whatever is on another one stays. */
  readonly mountId: string;
  /** Names in the top folder of what lay too deep. */
  readonly raised: string[];
}

/** Each level holds a file descriptor; a pod may nest folders by the hundred thousand. */
const DEEPEST = 64;

/**
 * Removes a file or a folder with all below it, never through a symlink or a mount. Absent is success. Throws `TreeError`.
 *
 * Each folder is opened by its name in its open parent, without following symlinks, and the kernel is asked which mount that
 * has led to. All else is done below the open folder, so there is no moment between the question and the removal in which
 * somebody could mount something or put a link in the way. A device number would not do: a bind mount has that of its source.
 */
export async function removeTree(path: string): Promise<void> {
  if (await removeLeaf(path, () => path)) return;
  const parent = await unlessAbsent(
    () => open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY),
    () => dirname(path),
  );
  if (parent === undefined) return;
  const mountId = mountIdOf(parent);
  try {
    await removeFolder(parent, toBytes(basename(path)), mountId, async (top) => {
      const walk: Walk = { top, mountId, raised: [] };
      await empty(top, walk, 0);
      // What was raised stands in the top folder now, and may raise more.
      for (let name = walk.raised.pop(); name !== undefined; name = walk.raised.pop())
        await removeFolder(top, name, mountId, (folder) => empty(folder, walk, 1));
    });
  } finally {
    await parent.close();
  }
}

async function removeFolder(
  parent: FileHandle,
  name: string,
  mountId: string,
  emptyIt: (folder: FileHandle) => Promise<void>,
): Promise<void> {
  const place = () => placeOf(parent, name);
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  const folder = await unlessAbsent(() => open(below(parent, name), flags), place);
  if (folder === undefined) return;
  try {
    if (mountIdOf(folder) !== mountId) throw new TreeError("EBUSY", place());
    await emptyIt(folder);
  } finally {
    await folder.close();
  }
  await unlessAbsent(() => rmdir(below(parent, name)), place);
}

async function empty(folder: FileHandle, walk: Walk, depth: number): Promise<void> {
  // One character a byte: containers name files as they like, and what is no UTF-8 would not be found again.
  const names = await readdir(`/proc/self/fd/${folder.fd}`, { encoding: "latin1" });
  for (const name of names) {
    if (await removeLeaf(below(folder, name), () => placeOf(folder, name))) continue;
    if (depth === DEEPEST) await raise(folder, name, walk);
    else await removeFolder(folder, name, walk.mountId, (inner) => empty(inner, walk, depth + 1));
  }
}

async function raise(folder: FileHandle, name: string, { top, raised }: Walk): Promise<void> {
  const free = `.${crypto.randomUUID()}`;
  await unlessAbsent(
    () => rename(below(folder, name), below(top, free)),
    () => placeOf(folder, name),
  );
  raised.push(free);
}

/** False when it is a folder. */
async function removeLeaf(path: Buffer | string, place: () => string): Promise<boolean> {
  try {
    await unlessAbsent(() => unlink(path), place);
    return true;
  } catch (error) {
    if (error instanceof TreeError && error.code === "EISDIR") return false;
    throw error;
  }
}

async function unlessAbsent<T>(work: () => Promise<T>, place: () => string): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
    if (code === "ENOENT") return undefined;
    throw new TreeError(code, place(), { cause: error });
  }
}

/** `name` in an open folder, wherever that folder is by now and whatever is mounted over it. */
function below({ fd }: FileHandle, name: string): Buffer {
  return Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), Buffer.from(name, "latin1")]);
}

function toBytes(text: string): string {
  return Buffer.from(text).toString("latin1");
}

/** The real path of a name in an open folder, for whoever has to find it. */
function placeOf({ fd }: FileHandle, name: string): string {
  return `${readlinkSync(`/proc/self/fd/${fd}`)}/${Buffer.from(name, "latin1").toString()}`;
}

/** `mnt_id` of proc_pid_fdinfo(5). Read at once: procfs answers from memory. */
function mountIdOf({ fd }: FileHandle): string {
  const id = /^mnt_id:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, "latin1"))?.[1];
  if (id === undefined) throw new TreeError("ENOTSUP", `/proc/self/fdinfo/${fd}`);
  return id;
}
