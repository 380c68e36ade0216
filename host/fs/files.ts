import { constants, type Dirent, type Stats, watch as watchPath } from "node:fs";
import { type FileHandle, open, readdir, readlink, realpath, rename, rm, stat, symlink } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, relative } from "node:path/posix";
import { messageOf } from "../error-message.ts";
import { changeGroup, type GroupChange } from "./change-group.ts";
import { type DiskUsage, diskUsage } from "./disk-usage.ts";
import { fileErrorText, watchErrorText } from "./file-error-text.ts";
import { type FileSystemSpace, readFileSystemSpace } from "./file-system-space.ts";
import { createFolderSync } from "./fsync-dir.ts";
import { gzipFile } from "./gzip-file.ts";
import { type FileOwner, makeEmptyFile, makeFile } from "./make-file.ts";
import { makeFolder } from "./make-folder.ts";
import { openInRoot } from "./open-in-root.ts";
import { openReadable, type ReadableFile } from "./readable-file.ts";
import { removeTree, TreeError } from "./remove-tree.ts";
import { replaceFile } from "./replace-file.ts";

/** A failed file operation. `code` is the kernel's, or ours: `EOUTSIDE`, `ETOOBIG`, `ENOTFILE`, `ESYMLINK`, `EWATCH`. */
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

/** Metadata of a file, enough to detect that it has changed. */
export interface FileStat {
  readonly kind: FileKind;
  readonly sizeBytes: number;
  readonly modifiedMs: number;
  readonly inode: number;
  readonly mode: number;
  readonly user: number;
  readonly group: number;
}

export interface GroupChangeResult {
  readonly count: number;
  readonly failure: FilesError | undefined;
}

/** `name`: the changed file, if known. `isInPlace`: it was written to; else it was created, removed or replaced. */
export type OnFileChanged = (name: string | undefined, isInPlace: boolean) => void;

/**
 * File operations below one root. Every path is relative to it; one that leads out of it by `..` is rejected
 * (`EOUTSIDE`). This check reads the path alone: a symlink below the root may still lead out, unless a method says
 * otherwise.
 */
export interface Files {
  readonly root: string;
  /** The absolute path, for mounts and log lines. */
  path(...parts: string[]): string;
  /** The content of a regular file of at most `maxBytes`; follows symlinks, never blocks on a FIFO or device. */
  read(path: string, maxBytes: number): Promise<string>;
  /**
   * The last bytes of a regular file, at most `maxBytes`; invalid UTF-8 becomes U+FFFD. `withoutLinks` rejects any
   * symlink below the root (`ESYMLINK`), for folders in which other programs may create links.
   */
  readEnd(path: string, maxBytes: number, options?: { readonly withoutLinks: boolean }): Promise<string>;
  /**
   * The content of a regular file of at most `maxBytes` below a folder with untrusted contents, such as a volume:
   * symlinks are resolved with that folder as the root, and nothing but a regular file is opened.
   */
  readBeneath(folder: string, path: string, maxBytes: number): Promise<Uint8Array>;
  /** Opens a regular file for the caller to read and close. Follows no symlink below the root, and opens no FIFO. */
  open(path: string): Promise<ReadableFile>;
  /** Compresses a regular file into a new one with the same mode. Follows no symlink below the root. */
  gzip(from: string, to: string): Promise<void>;
  /**
   * Creates or overwrites a file in place, and sets its mode regardless of the umask. Readers may see a part of it, and
   * a power cut may lose it. Does not follow a symlink in place of the file, but those in place of its parents. The
   * content comes last: owner and mode are set before the file has any.
   */
  makeFile(path: string, mode: number, content?: string | Uint8Array, owner?: FileOwner): Promise<void>;
  /**
   * Creates an empty file, and sets its mode regardless of the umask. What exists keeps its content and mode. Follows
   * symlinks: the target of a dangling one is created, with a mode that the umask limits. `EISDIR` if it is a folder.
   */
  makeEmptyFile(path: string, mode: number): Promise<void>;
  /** Replaces a file atomically: readers see the old or the new content, also after a power cut. */
  write(path: string, content: string | Uint8Array, mode: number): Promise<void>;
  /** As `write`, without waiting for the disk: a power cut may lose the new content, and leave an empty file. */
  writeWithoutSync(path: string, content: string | Uint8Array, mode: number): Promise<void>;
  /** Follows symlinks; undefined if nothing exists there, or the link is dangling. */
  stat(path: string): Promise<FileStat | undefined>;
  /** The entries sorted by name, of a symlink those of its target; undefined if the folder does not exist. */
  list(path: string): Promise<readonly FileEntry[] | undefined>;
  /**
   * Creates a folder with its parents; mode and group (by default this process's) are set on the last one only,
   * regardless of the umask. An existing folder keeps both, unless its mode is 0: then its creator died before.
   */
  makeFolder(path: string, mode: number, group?: number): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Creates a symlink, or replaces an existing symlink; anything else in its place is `EEXIST`. */
  link(path: string, target: string): Promise<void>;
  /** The target of a symlink, unresolved; undefined if it is not a symlink or does not exist. */
  readLink(path: string): Promise<string | undefined>;
  /** The absolute path of a file without symlinks; undefined if nothing exists there, or the link is dangling. */
  realPath(path: string): Promise<string | undefined>;
  /**
   * Gives a folder with all that is in it to a group and adds permission bits, never through a symlink or to another
   * file system. A file that cannot be changed does not end it; the first one is `failure`.
   */
  changeGroup(path: string, change: GroupChange): Promise<GroupChangeResult>;
  /** Removes a tree, never through a symlink or a mount (`EBUSY`, with the mount point). Absent is success. */
  remove(path: string): Promise<void>;
  /** `freeBytes` is what users other than root can use. A file system without inodes has 0 of both. */
  space(path: string): Promise<FileSystemSpace>;
  /** What the files of a folder tree take, see `diskUsage`. Rejects with the signal's reason when it aborts. */
  usage(path: string, signal: AbortSignal): Promise<DiskUsage>;
  /**
   * Calls `onChanged` for each change in a folder, and `onGone` once if the folder is removed, until the signal aborts.
   * Throws `EWATCH` if a limit of inotify is reached.
   */
  watch(path: string, onChanged: OnFileChanged, onGone: () => void, signal: AbortSignal): void;
}

export function createFiles(root: string): Files {
  const absolute = (...parts: string[]) => joinInRoot(root, ...parts);
  const syncFolder = createFolderSync();
  return {
    root,
    path: absolute,
    read: (path, maxBytes) => withFilesError(absolute(path), (at) => readBounded(at, maxBytes)),
    readEnd: (path, maxBytes, options) =>
      withFilesError(absolute(path), (at) =>
        options?.withoutLinks === true ? readEndBeneath(root, path, maxBytes) : readEnd(at, maxBytes),
      ),
    readBeneath: (folder, path, maxBytes) =>
      withFilesError(`${absolute(folder)}/${path}`, () => readBeneath(absolute(folder), path, maxBytes)),
    open: (path) => withFilesError(absolute(path), () => openReadable(root, path)),
    gzip: (from, to) => withFilesError(absolute(from), () => gzipFile(root, from, to)),
    makeFile: (path, mode, content = "", owner = {}) =>
      withFilesError(absolute(path), (at) => makeFile(at, mode, content, owner)),
    makeEmptyFile: (path, mode) => withFilesError(absolute(path), (at) => makeEmptyFile(at, mode)),
    write: (path, content, mode) => withFilesError(absolute(path), (at) => replaceFile(at, content, mode, syncFolder)),
    writeWithoutSync: (path, content, mode) => withFilesError(absolute(path), (at) => replaceFile(at, content, mode)),
    stat: (path) => undefinedIfAbsent(absolute(path), async (at) => toStat(await stat(at))),
    list: (path) => undefinedIfAbsent(absolute(path), listFolder),
    makeFolder: (path, mode, group) => withFilesError(absolute(path), (at) => makeFolder(at, mode, group)),
    rename: (from, to) => withFilesError(absolute(from), (at) => rename(at, absolute(to))),
    link: (path, target) => withFilesError(absolute(path), (at) => replaceSymlink(at, target)),
    readLink: (path) => undefinedIfAbsent(absolute(path), (at) => readlink(at), "EINVAL"),
    realPath: (path) => undefinedIfAbsent(absolute(path), (at) => realpath(at)),
    changeGroup: (path, change) =>
      withFilesError(
        absolute(path),
        async (at) => {
          const { count, failure } = await changeGroup(at, change);
          return { count, failure: failure && toFilesError(failure.path, failure.error) };
        },
        change.signal,
      ),
    remove: (path) => withFilesError(absolute(path), removeTree),
    space: (path) => withFilesError(absolute(path), readFileSystemSpace),
    usage: (path, signal) => withFilesError(absolute(path), (at) => diskUsage(at, signal), signal),
    watch: (path, onChanged, onGone, signal) => watchFolder(absolute(path), onChanged, onGone, signal),
  };
}

/**
 * Joins path parts below a root; throws `EOUTSIDE` if they lead out of it or contain a null byte.
 *
 * @internal
 */
export function joinInRoot(root: string, ...parts: string[]): string {
  const path = join(root, ...parts);
  // The usual case, without the search for a relative path: `join` has removed each `..`.
  if (path.startsWith(`${root}/`) && !path.includes("\0")) return path;
  const relativePath = relative(root, path);
  if (relativePath === ".." || relativePath.startsWith("../") || isAbsolute(relativePath) || path.includes("\0"))
    throw new FilesError("EOUTSIDE", path, `${JSON.stringify(join(...parts))} leads out of ${root}`);
  return path;
}

/** Opens a regular file, calls `read` with it and its size, and closes it. */
async function withOpenFile<T>(path: string, read: (file: FileHandle, sizeBytes: number) => Promise<T>): Promise<T> {
  // O_NONBLOCK: opening a FIFO without a writer would otherwise block one of the few I/O threads for ever.
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
  return await withOpenFile(path, async (file, sizeBytes) => {
    const bytes = new Uint8Array(Math.min(sizeBytes, maxBytes));
    const { bytesRead } = await file.read(bytes, 0, bytes.length, sizeBytes - bytes.length);
    return new TextDecoder().decode(bytes.subarray(0, bytesRead));
  });
}

async function readBeneath(folder: string, path: string, maxBytes: number): Promise<Uint8Array> {
  return await withFileBeneath(folder, path, "follow", async (fdPath, sizeBytes) => {
    if (sizeBytes > maxBytes) throw tooLargeError(`${folder}/${path}`, maxBytes);
    return await withOpenFile(fdPath, async (file) => {
      const bytes = new Uint8Array(sizeBytes);
      const { bytesRead } = await file.read(bytes, 0, bytes.length, 0);
      return bytes.subarray(0, bytesRead);
    });
  });
}

async function readEndBeneath(folder: string, path: string, maxBytes: number): Promise<string> {
  return await withFileBeneath(folder, path, "refuse", (fdPath) => readEnd(fdPath, maxBytes));
}

/** `work` gets a /proc/self/fd path that opens exactly the file that was found, even if it has been replaced since. */
async function withFileBeneath<T>(
  folder: string,
  path: string,
  symlinks: "follow" | "refuse",
  work: (fdPath: string, sizeBytes: number) => Promise<T>,
): Promise<T> {
  const found = await openInRoot(folder, path, { symlinks });
  try {
    const { kind, sizeBytes } = toStat(await found.stat());
    const absolutePath = `${folder}/${path}`;
    if (kind !== "file")
      throw new FilesError("ENOTFILE", absolutePath, `${absolutePath} is a ${kind}, not a regular file`);
    return await work(`/proc/self/fd/${found.fd}`, sizeBytes);
  } finally {
    await found.close();
  }
}

async function readBounded(path: string, maxBytes: number): Promise<string> {
  return await withOpenFile(path, async (file, sizeBytes) => {
    if (sizeBytes > maxBytes) throw tooLargeError(path, maxBytes);
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const chunk = new Uint8Array(Math.min(sizeBytes + 1, 65536));
    let text = "";
    for (let length = 0; length <= maxBytes; ) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length, null);
      text += decoder.decode(chunk.subarray(0, bytesRead), { stream: true });
      length += bytesRead;
      // The usual case: the chunk has room for more, and the kernel has no more. Files of /proc have no size, and end with an empty read.
      const isWhole = bytesRead < chunk.length && length === sizeBytes;
      if (bytesRead === 0 || isWhole) return text + decoder.decode();
    }
    throw tooLargeError(path, maxBytes);
  });
}

const tooLargeError = (path: string, maxBytes: number) =>
  new FilesError("ETOOBIG", path, `${path} is larger than ${maxBytes} bytes`);

async function replaceSymlink(path: string, target: string): Promise<void> {
  try {
    return await symlink(target, path);
  } catch (error) {
    const present = await undefinedIfAbsent(path, () => readlink(path), "EINVAL");
    if (present === undefined && codeOf(error) === "EEXIST")
      throw new FilesError("EEXIST", path, `${path} exists and is not a symlink`, { cause: error });
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

/** Converts what the kernel says of a file. */
export function toStat(stats: Stats): FileStat {
  return {
    kind: kindOf(stats),
    sizeBytes: stats.size,
    modifiedMs: stats.mtimeMs,
    inode: stats.ino,
    mode: stats.mode & 0o7777,
    user: stats.uid,
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
 * inotify reports changes inside a folder. When the folder itself is removed, its watch ends silently; the sign is an
 * event with the folder's own name, or an error. After `onGone` the caller watches again when the folder is back.
 */
function watchFolder(path: string, onChanged: OnFileChanged, onGone: () => void, signal: AbortSignal): void {
  try {
    const watcher = watchPath(path, { signal, persistent: false }, (event, name) => {
      if (event === "rename" && name === basename(path)) {
        watcher.close();
        onGone();
      } else onChanged(name ?? undefined, event === "change");
    });
    watcher.on("error", () => {
      watcher.close();
      onGone();
    });
  } catch (error) {
    throw toWatchError(path, error);
  }
}

async function withFilesError<T>(path: string, work: (path: string) => Promise<T>, signal?: AbortSignal): Promise<T> {
  try {
    return await work(path);
  } catch (error) {
    throw signal?.aborted ? signal.reason : toFilesError(path, error);
  }
}

/** The kernel's codes for a path at which nothing exists: no file can have a name of more than 255 bytes. */
export const ABSENT_CODES: readonly string[] = ["ENOENT", "ENOTDIR", "ENAMETOOLONG"];

async function undefinedIfAbsent<T>(
  path: string,
  work: (path: string) => Promise<T>,
  absent = "ENOENT",
): Promise<T | undefined> {
  try {
    return await work(path);
  } catch (error) {
    const failure = toFilesError(path, error);
    if ([...ABSENT_CODES, absent].includes(failure.code)) return undefined;
    throw failure;
  }
}

/** Converts an error of an operation on a path. */
export function toFilesError(path: string, error: unknown): FilesError {
  if (error instanceof FilesError) return error;
  if (error instanceof TreeError) return new FilesError(error.code, error.path, error.message, { cause: error.cause });
  const code = codeOf(error);
  const text = fileErrorText(code, path) ?? `failed: ${messageOf(error)}`;
  return new FilesError(code, path, `${path} ${text}`, { cause: error });
}

function toWatchError(path: string, error: unknown): FilesError {
  const text = watchErrorText(codeOf(error));
  if (text === undefined) return toFilesError(path, error);
  return new FilesError("EWATCH", path, `${path} ${text}`, { cause: error });
}

const codeOf = (error: unknown) => (error instanceof Error && "code" in error ? String(error.code) : "EUNKNOWN");
