import { constants, type Dirent, type Stats, watch as watchPath } from "node:fs";
import {
  chmod,
  chown,
  type FileHandle,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  statfs,
  symlink,
} from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize, relative } from "node:path/posix";
import { createFolderSync, type FolderSync } from "./fsync-dir.ts";
import { openInRoot } from "./open-in-root.ts";
import { removeTree, TreeError } from "./remove-tree.ts";

/** A file operation that failed: `code` is the kernel's (`ENOENT`), or ours (`EOUTSIDE`, `ETOOBIG`, `ENOTFILE`, `ESYMLINK`). */
export class FilesError extends Error {
  override readonly name = "FilesError";
  readonly code: string;
  readonly path: string;
  constructor(code: string, path: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.path = path;
  }
}

export type FileKind = "file" | "directory" | "symlink" | "fifo" | "socket" | "character device" | "block device";

export interface FileEntry {
  readonly name: string;
  readonly kind: FileKind;
}

/** What tells one version of a file from another. */
export interface FileStat {
  readonly kind: FileKind;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly inode: number;
  readonly mode: number;
  readonly group: number;
}

/** The room that a file system has, and what is left of it. */
export interface Space {
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly totalInodes: number;
  readonly freeInodes: number;
}

/** The name of what changed, or undefined if unknown. `isInPlace`: it was written to; else it came, went or was replaced. */
export type FileChanged = (name: string | undefined, isInPlace: boolean) => void;

/** Files below one root. Every path is relative to it, and none may lead out of it. */
export interface Files {
  readonly root: string;
  /** The absolute path, for whoever has to name it to others (mounts, log lines). */
  path(...parts: string[]): string;
  /** The content of a regular file of at most `maxBytes`; never blocks on a FIFO or device. */
  read(path: string, maxBytes: number): Promise<string>;
  /**
   * The last bytes of a regular file, at most `maxBytes`; what of them is no UTF-8 shows as U+FFFD. Where others may make links,
   * `withoutLinks` refuses the first one below the root (`ESYMLINK`).
   */
  readEnd(path: string, maxBytes: number, options?: { readonly withoutLinks: boolean }): Promise<string>;
  /**
   * The content of a regular file of at most `maxBytes` somewhere below a folder in which others may make what they like: symlinks are
   * followed as by who has that folder for its root, so that none leads out of it, and nothing but the file is opened.
   */
  readBeneath(folder: string, path: string, maxBytes: number): Promise<Uint8Array>;
  /**
   * Makes a file with this content, or writes over the one that is there, and sets its mode whatever the umask. Readers may see
   * half of it, and a power cut may lose it. Never through a symlink.
   */
  makeFile(path: string, mode: number, content?: string): Promise<void>;
  /** Replaces a file whole: readers see the old or the new content, and after a power cut it is one of both. */
  write(path: string, content: string, mode: number): Promise<void>;
  /** Follows symlinks; undefined when there is nothing (a dangling link is nothing). */
  stat(path: string): Promise<FileStat | undefined>;
  /** Sorted by name; undefined when there is no such folder. */
  list(path: string): Promise<readonly FileEntry[] | undefined>;
  /**
   * With its parents; mode and owning group (this process's own, if not given) are set on the last one only, whatever the umask. Existing
   * is success, and keeps both unless the mode is 0: its maker died before it was done.
   */
  makeFolder(path: string, mode: number, group?: number): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Makes a symlink in the place of whatever symlink is there; anything else in its place is `EEXIST`. */
  link(path: string, target: string): Promise<void>;
  /** Where a symlink leads, as it is written; undefined for what is none. */
  readLink(path: string): Promise<string | undefined>;
  /** With all below it, never through a symlink or a mount (`EBUSY`, with the mount point). Absent is success. */
  remove(path: string): Promise<void>;
  /** Of the file system that the path is on; `freeBytes` is what others than root may have. One without inodes has 0 of them. */
  space(path: string): Promise<Space>;
  /** Calls back for each change in a folder, and once if the folder is gone. The signal ends it. */
  watch(path: string, changed: FileChanged, gone: () => void, signal: AbortSignal): void;
}

export function createFiles(root: string): Files {
  const inside = (...parts: string[]) => within(root, ...parts);
  const syncFolder = createFolderSync();
  return {
    root,
    path: inside,
    read: (path, maxBytes) => converted(inside(path), () => readBounded(inside(path), maxBytes)),
    readEnd: (path, maxBytes, options) =>
      converted(inside(path), () =>
        options?.withoutLinks === true ? readEndBeneath(root, path, maxBytes) : readEnd(inside(path), maxBytes),
      ),
    readBeneath: (folder, path, maxBytes) =>
      converted(`${inside(folder)}/${path}`, () => readBeneath(inside(folder), path, maxBytes)),
    makeFile: (path, mode, content = "") => converted(inside(path), () => makeFile(inside(path), mode, content)),
    write: (path, content, mode) => converted(inside(path), () => replace(inside(path), content, mode, syncFolder)),
    stat: (path) => orUndefined(inside(path), async () => toStat(await stat(inside(path)))),
    list: (path) => orUndefined(inside(path), () => listFolder(inside(path))),
    makeFolder: (path, mode, group) => converted(inside(path), () => makeFolder(inside(path), mode, group)),
    rename: (from, to) => converted(inside(from), () => rename(inside(from), inside(to))),
    link: (path, target) => converted(inside(path), () => linkTo(inside(path), target)),
    readLink: (path) => orUndefined(inside(path), () => readlink(inside(path)), "EINVAL"),
    remove: (path) => converted(inside(path), () => removeTree(inside(path))),
    space: (path) =>
      converted(inside(path), async () => {
        const { blocks, bavail, bsize, files, ffree } = await statfs(inside(path));
        return { totalBytes: blocks * bsize, freeBytes: bavail * bsize, totalInodes: files, freeInodes: ffree };
      }),
    watch: (path, changed, gone, signal) => watchFolder(inside(path), changed, gone, signal),
  };
}

/** Joins path parts below a root; throws `EOUTSIDE` where they lead out of it, and for a null byte. */
export function within(root: string, ...parts: string[]): string {
  const path = normalize(join(root, ...parts));
  const way = relative(root, path);
  if (way === ".." || way.startsWith("../") || isAbsolute(way) || path.includes("\0"))
    throw new FilesError("EOUTSIDE", path, `${JSON.stringify(join(...parts))} leads out of ${root}`);
  return path;
}

/** Opens a regular file, whose size is told too, for as long as it is read. */
async function reading<T>(path: string, read: (file: FileHandle, sizeBytes: number) => Promise<T>): Promise<T> {
  // O_NONBLOCK: opening a FIFO without a writer would otherwise hold one of the few file threads for ever.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const found = toStat(await file.stat());
    if (found.kind !== "file") throw new FilesError("ENOTFILE", path, `${path} is a ${found.kind}, not a regular file`);
    return await read(file, found.sizeBytes);
  } finally {
    await file.close();
  }
}

async function readEnd(path: string, maxBytes: number): Promise<string> {
  return await reading(path, async (file, sizeBytes) => {
    const bytes = new Uint8Array(Math.min(sizeBytes, maxBytes));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, sizeBytes - bytes.length);
    return new TextDecoder().decode(bytes.subarray(0, bytesRead));
  });
}

async function readBeneath(folder: string, path: string, maxBytes: number): Promise<Uint8Array> {
  return await openedBeneath(folder, path, "follow", async (opened, sizeBytes) => {
    if (sizeBytes > maxBytes) throw tooBig(`${folder}/${path}`, maxBytes);
    return await reading(opened, async (file) => {
      const bytes = new Uint8Array(sizeBytes);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return bytes.subarray(0, bytesRead);
    });
  });
}

async function readEndBeneath(folder: string, path: string, maxBytes: number): Promise<string> {
  return await openedBeneath(folder, path, "refuse", (opened) => readEnd(opened, maxBytes));
}

/** `work` gets a path by which the file can be opened that was found, whatever stands in its place by now. */
async function openedBeneath<T>(
  folder: string,
  path: string,
  symlinks: "follow" | "refuse",
  work: (opened: string, sizeBytes: number) => Promise<T>,
): Promise<T> {
  const found = await openInRoot(folder, path, { symlinks });
  try {
    const { kind, sizeBytes } = toStat(await found.stat());
    const place = `${folder}/${path}`;
    if (kind !== "file") throw new FilesError("ENOTFILE", place, `${place} is a ${kind}, not a regular file`);
    return await work(`/proc/self/fd/${found.fd}`, sizeBytes);
  } finally {
    await found.close();
  }
}

async function makeFile(path: string, mode: number, content: string): Promise<void> {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
  const file = await open(path, flags, mode);
  try {
    await file.chmod(mode);
    if (content !== "") await file.writeFile(content);
  } finally {
    await file.close();
  }
}

async function readBounded(path: string, maxBytes: number): Promise<string> {
  return await reading(path, async (file, sizeBytes) => {
    if (sizeBytes > maxBytes) throw tooBig(path, maxBytes);
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const chunk = new Uint8Array(Math.min(sizeBytes + 1, 65536));
    let text = "";
    for (let length = 0; length <= maxBytes; ) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length, null);
      if (bytesRead === 0) return text + decoder.decode();
      text += decoder.decode(chunk.subarray(0, bytesRead), { stream: true });
      length += bytesRead;
    }
    throw tooBig(path, maxBytes);
  });
}

function tooBig(path: string, maxBytes: number): FilesError {
  return new FilesError("ETOOBIG", path, `${path} is larger than ${maxBytes} bytes`);
}

/*
 * The order that survives a power cut: content on the disk, then the name, then the folder that holds the name. Anything
 * less can leave an empty file under the final name.
 */
async function replace(path: string, content: string, mode: number, syncFolder: FolderSync): Promise<void> {
  const folder = dirname(path);
  const temporary = join(folder, `.${basename(path)}.${crypto.randomUUID()}.tmp`);
  try {
    const file = await open(temporary, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, mode);
    try {
      await file.chmod(mode);
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  await syncFolder(folder);
}

/*
 * Whoever dies between mkdir(2), from whose mode the umask takes, and chmod(2) must not leave a folder that cannot be told from
 * one whose owner wants it so. From mode 0 no umask takes anything, and nobody wants it.
 */
async function makeFolder(path: string, mode: number, group?: number): Promise<void> {
  if (!(await makeBare(path))) return;
  // A change of the group takes the bit away by which what is made in the folder gets its group.
  if (group !== undefined) await chown(path, -1, group);
  await chmod(path, mode);
}

/** Makes a folder without any rights, and those above it where they are missing. False where there is one that has some. */
async function makeBare(path: string, isSecondTry = false): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0 });
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT") && !isSecondTry) {
      await makeParents(path);
      return await makeBare(path, true);
    }
    const found = await orUndefined(path, () => stat(path));
    if (!found?.isDirectory()) throw error;
    return (found.mode & 0o777) === 0;
  }
}

async function makeParents(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 }).catch((error: unknown) => {
    // What is in the way there is above the folder that was asked for.
    throw hasCode(error, "EEXIST") ? Object.assign(new Error("", { cause: error }), { code: "ENOTDIR" }) : error;
  });
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

async function linkTo(path: string, target: string): Promise<void> {
  try {
    return await symlink(target, path);
  } catch (error) {
    const present = await orUndefined(path, () => readlink(path), "EINVAL");
    if (present === undefined) throw error;
    if (present === target) return;
  }
  const temporary = join(dirname(path), `.${crypto.randomUUID()}.tmp`);
  await symlink(target, temporary);
  try {
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

async function listFolder(path: string): Promise<readonly FileEntry[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries
    .map((entry) => ({ name: entry.name, kind: kindOf(entry) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

function toStat(stats: Stats): FileStat {
  return {
    kind: kindOf(stats),
    sizeBytes: stats.size,
    modifiedMs: stats.mtimeMs,
    inode: stats.ino,
    mode: stats.mode & 0o7777,
    group: stats.gid,
  };
}

function kindOf(entry: Stats | Dirent): FileKind {
  if (entry.isDirectory()) return "directory";
  if (entry.isSymbolicLink()) return "symlink";
  if (entry.isFIFO()) return "fifo";
  if (entry.isSocket()) return "socket";
  if (entry.isCharacterDevice()) return "character device";
  if (entry.isBlockDevice()) return "block device";
  return "file";
}

/*
 * inotify tells of changes inside a folder. When the folder itself goes away, its watch is silently dead; the cue is an event
 * that carries the folder's own name, or an error. `gone` says so, and the caller arms anew when the folder is back.
 */
function watchFolder(path: string, changed: FileChanged, gone: () => void, signal: AbortSignal): void {
  try {
    const watcher = watchPath(path, { signal, persistent: false }, (event, name) => {
      if (event === "rename" && name === basename(path)) {
        watcher.close();
        gone();
      } else changed(name ?? undefined, event === "change");
    });
    watcher.on("error", () => {
      watcher.close();
      gone();
    });
  } catch (error) {
    throw toFilesError(path, error);
  }
}

async function converted<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toFilesError(path, error);
  }
}

async function orUndefined<T>(path: string, work: () => Promise<T>, absent = "ENOENT"): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const failure = toFilesError(path, error);
    if (["ENOENT", "ENOTDIR", absent].includes(failure.code)) return undefined;
    throw failure;
  }
}

/** What an operation on a path has failed with, as our own error. */
export function toFilesError(path: string, error: unknown): FilesError {
  if (error instanceof FilesError) return error;
  if (error instanceof TreeError) return new FilesError(error.code, error.path, error.message, { cause: error.cause });
  const code = error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN";
  const words: Readonly<Record<string, string>> = {
    ELOOP: "is a loop of symlinks",
    ESYMLINK: "leads over a symlink, which is not followed",
    EACCES: "may not be accessed",
    ENOENT: "does not exist",
    EEXIST: "is there, and is no folder",
    ENOTDIR: "lies below something that is no folder",
    ENOSPC: "cannot be written: the disk is full",
    EROFS: "cannot be written: the file system is read-only",
    EISDIR: "is a directory, not a regular file",
    ERR_ENCODING_INVALID_ENCODED_DATA: "is not UTF-8 text",
  };
  const text = words[code] ?? `failed: ${error instanceof Error ? error.message : String(error)}`;
  return new FilesError(code, path, `${path} ${text}`, { cause: error });
}
