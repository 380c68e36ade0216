import { dirname, join, relative, resolve } from "node:path/posix";
import { gzipSync } from "node:zlib";
import type { GroupChange } from "../../host/fs/change-group.ts";
import {
  type FileEntry,
  type FileStat,
  type Files,
  FilesError,
  joinInRoot,
  type OnFileChanged,
  toFilesError,
} from "../../host/fs/files.ts";
import type { FileOwner } from "../../host/fs/make-file.ts";
import type { ReadableFile } from "../../host/fs/readable-file.ts";
import { absenceVerbs, type FilesVerb, linkVerbs, writeVerbs } from "./files-verbs.ts";

export type FileNode =
  | { readonly kind: "directory"; readonly mode: number; readonly group?: number; readonly inode: number }
  | {
      readonly kind: "file";
      readonly mode: number;
      readonly user?: number;
      readonly group?: number;
      readonly inode: number;
      /** `bytes` as text, for tests. */
      readonly content: string;
      readonly bytes: Uint8Array;
      readonly at: number;
    }
  | { readonly kind: "block device"; readonly mode: number; readonly group?: number; readonly inode: number }
  | { readonly kind: "symlink"; readonly mode: number; readonly inode: number; readonly target: string };

const MAX_NAME_BYTES = 255;
const MAX_SYMLINKS = 40;

/** What mounts change about the paths of a disk. `FakeMounts` is one. */
export interface DiskMounts {
  /** The folder whose content is visible at a bind mount point; undefined for any other path. */
  sourceOf(path: string): string | undefined;
  isReadOnly(path: string): boolean;
  /** Whether a mount has room for the bytes that are added to a path. */
  hasSpace(path: string, addedBytes: number): boolean;
  /** The mount points at a path and below it. */
  below(path: string): readonly string[];
}

/** Where a path leads: the path of its node, and whether a mount on the way is read-only. */
interface Place {
  readonly path: string;
  readonly isReadOnly: boolean;
}

/** A file system in memory, for tests that inject failures. `at(root)` returns a `Files` view below one directory. */
export class FakeDisk {
  readonly nodes = new Map<string, FileNode>([["/", { kind: "directory", mode: 0o755, inode: 1 }]]);
  /** The absolute paths of files whose owner and mode cannot be changed, as after `chattr +i`. */
  readonly immutableFiles = new Set<string>();
  /** Called before a method takes effect; it may throw. */
  before: (verb: FilesVerb, path: string) => void = () => {};
  /** Awaited after a method took effect, before it returns. */
  after: (verb: FilesVerb, path: string) => Promise<void> | void = () => {};
  mounts: DiskMounts | undefined;
  readonly #now: () => number;
  readonly #watchers = new Set<{ path: string; changed: OnFileChanged; gone: () => void }>();
  #inodes = 1;

  constructor(now: () => number) {
    this.#now = now;
  }

  at(root: string): Files {
    const run = async <T>(verb: FilesVerb, path: string, effect: (absolute: string) => T): Promise<T> => {
      const absolute = joinInRoot(root, path);
      this.before(verb, absolute);
      if (!absenceVerbs.includes(verb)) rejectLongNames(absolute);
      const place = this.locate(absolute, !linkVerbs.includes(verb));
      if (place.isReadOnly && writeVerbs.includes(verb))
        throw new FilesError("EROFS", absolute, `${absolute} cannot be written: the file system is read-only`);
      const result = effect(place.path);
      await this.after(verb, absolute);
      return result;
    };
    return {
      root,
      path: (...parts) => joinInRoot(root, ...parts),
      read: (path, maxBytes) => run("read", path, (absolute) => decodeText(absolute, this.#read(absolute, maxBytes))),
      readEnd: (path, maxBytes, options) =>
        run("readEnd", path, (absolute) => {
          if (options?.withoutLinks === true) this.#rejectSymlinks(root, joinInRoot(root, path));
          const bytes = this.#read(absolute, Number.POSITIVE_INFINITY);
          return new TextDecoder().decode(bytes.subarray(Math.max(0, bytes.length - maxBytes)));
        }),
      readBeneath: (folder, path, maxBytes) =>
        run("readBeneath", folder, (absolute) =>
          this.#read(this.#resolveInRoot(absolute, path.split("/"), "/"), maxBytes).slice(),
        ),
      open: (path) =>
        run("open", path, (absolute) => {
          this.#rejectSymlinks(root, joinInRoot(root, path));
          return this.#open(absolute);
        }),
      gzip: (from, to) =>
        run("gzip", from, (absolute) => {
          this.#rejectSymlinks(root, joinInRoot(root, from));
          const target = joinInRoot(root, to);
          const bytes = this.#read(absolute, Number.POSITIVE_INFINITY);
          if (this.nodes.has(target)) throw new FilesError("EEXIST", target, `${target} exists`);
          this.#write(target, gzipSync(bytes), this.nodes.get(absolute)?.mode ?? 0);
        }),
      makeFile: (path, mode, content = "", owner = {}) =>
        run("makeFile", path, (absolute) => this.#write(absolute, content, mode, owner)),
      makeEmptyFile: (path, mode) => run("makeEmptyFile", path, (absolute) => this.#makeEmptyFile(absolute, mode)),
      write: (path, content, mode) => run("write", path, (absolute) => this.#write(absolute, content, mode)),
      writeWithoutSync: (path, content, mode) => run("write", path, (absolute) => this.#write(absolute, content, mode)),
      stat: (path) => run("stat", path, (absolute) => this.#stat(absolute)),
      list: (path) => run("list", path, (absolute) => this.#list(absolute)),
      makeFolder: (path, mode, group) => run("makeFolder", path, (absolute) => this.#makeFolder(absolute, mode, group)),
      rename: (from, to) =>
        run("rename", from, (absolute) => this.#rename(absolute, this.locate(joinInRoot(root, to), false).path)),
      link: (path, target) => run("link", path, (absolute) => this.#link(absolute, target)),
      readLink: (path) => run("readLink", path, (absolute) => this.#readLink(absolute)),
      realPath: (path) => run("realPath", path, (absolute) => (this.nodes.has(absolute) ? absolute : undefined)),
      changeGroup: (path, change) => run("changeGroup", path, (absolute) => this.#changeGroup(absolute, change)),
      remove: (path) => run("remove", path, (absolute) => this.#remove(absolute)),
      space: async () => ({
        totalBytes: 1 << 30,
        freeBytes: 1 << 29,
        usedBytes: 1 << 29,
        totalInodes: 1 << 20,
        freeInodes: 1 << 19,
      }),
      usage: async (path, signal) => this.#usage(this.locate(joinInRoot(root, path), true).path, signal),
      watch: (path, changed, gone, signal) => this.#watch(joinInRoot(root, path), changed, gone, signal),
    };
  }

  /** All paths except the root, sorted. */
  paths(): readonly string[] {
    return [...this.nodes.keys()].filter((path) => path !== "/").toSorted();
  }

  /** Follows the symlinks and bind mounts in a path, at its end only if `followsLast`. */
  locate(path: string, followsLast: boolean, links = 0): Place {
    if (links > MAX_SYMLINKS) throw new FilesError("ELOOP", path, `${path} is a loop of symlinks`);
    const names = path.split("/").filter(Boolean);
    let at = "/";
    let isReadOnly = false;
    for (const [index, name] of names.entries()) {
      at = join(at, name);
      isReadOnly ||= this.mounts?.isReadOnly(at) ?? false;
      // Also a path that is not followed to its end is looked up.
      const source = this.mounts?.sourceOf(at);
      if (index === names.length - 1 && !followsLast) break;
      at = source ?? at;
      const node = this.nodes.get(at);
      if (node?.kind !== "symlink") continue;
      const target = resolve(dirname(at), node.target);
      const rest = this.locate(join(target, ...names.slice(index + 1)), followsLast, links + 1);
      return { path: rest.path, isReadOnly: isReadOnly || rest.isReadOnly };
    }
    return { path: at, isReadOnly };
  }

  /** Resolves a path whose symlinks are followed as if `root` were `/` (openat2 with RESOLVE_IN_ROOT). */
  #resolveInRoot(root: string, names: readonly string[], from: string, links = 0): string {
    if (links > MAX_SYMLINKS) throw new FilesError("ELOOP", root, `${root} is a loop of symlinks`);
    const [name, ...rest] = names;
    if (name === undefined) return `${root}${from}`;
    const path = resolve(from, name);
    const node = this.nodes.get(resolve(`${root}${path}`));
    if (node?.kind !== "symlink") return this.#resolveInRoot(root, rest, path, links);
    const start = node.target.startsWith("/") ? "/" : from;
    return this.#resolveInRoot(root, [...node.target.split("/").filter(Boolean), ...rest], start, links + 1);
  }

  #rejectSymlinks(root: string, path: string): void {
    for (let at = path; at !== root; at = dirname(at))
      if (this.nodes.get(at)?.kind === "symlink")
        throw new FilesError("ESYMLINK", path, `${path} contains a symlink, which is not followed`);
  }

  #read(path: string, maxBytes: number): Uint8Array {
    const node = this.nodes.get(path);
    if (node === undefined) throw new FilesError("ENOENT", path, `${path} does not exist`);
    if (node.kind !== "file") throw new FilesError("ENOTFILE", path, `${path} is a directory, not a regular file`);
    if (node.bytes.length > maxBytes) throw new FilesError("ETOOBIG", path, `${path} is larger than ${maxBytes} bytes`);
    return node.bytes;
  }

  #open(path: string): ReadableFile {
    this.#read(path, Number.POSITIVE_INFINITY);
    const inode = this.nodes.get(path)?.inode ?? 0;
    const bytes = () => {
      const node = [...this.nodes.values()].find((each) => each.inode === inode);
      return node?.kind === "file" ? node.bytes : new Uint8Array();
    };
    return {
      inode,
      async read(into, position) {
        const piece = bytes().subarray(position, position + into.length);
        into.set(piece);
        return piece.length;
      },
      sizeBytes: async () => bytes().length,
      close: async () => {},
    };
  }

  #write(path: string, content: string | Uint8Array, mode: number, owner: FileOwner = {}): void {
    if (this.nodes.get(dirname(path))?.kind !== "directory")
      throw new FilesError("ENOENT", path, `${path} does not exist`);
    const bytes = new Uint8Array(Buffer.from(content as string));
    const replaced = this.nodes.get(path);
    const addedBytes = bytes.length - (replaced?.kind === "file" ? replaced.bytes.length : 0);
    if (this.mounts?.hasSpace(path, addedBytes) === false)
      throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
    const text = new TextDecoder().decode(bytes);
    this.nodes.set(path, {
      kind: "file",
      mode,
      inode: ++this.#inodes,
      content: text,
      bytes,
      at: this.#now(),
      ...owner,
    });
    this.#changed(path);
  }

  #makeEmptyFile(path: string, mode: number): void {
    const present = this.nodes.get(path);
    if (present === undefined) this.#write(path, "", mode);
    else if (present.kind === "directory")
      throw new FilesError("EISDIR", path, `${path} is a directory, not a regular file`);
  }

  #stat(path: string): FileStat | undefined {
    const node = this.nodes.get(path);
    if (node === undefined) return undefined;
    const { kind, mode, inode } = node;
    const isFile = node.kind === "file";
    return {
      kind,
      mode,
      inode,
      user: ("user" in node ? node.user : undefined) ?? process.getuid?.() ?? 0,
      group: ("group" in node ? node.group : undefined) ?? process.getgid?.() ?? 0,
      sizeBytes: isFile ? node.bytes.length : 0,
      modifiedMs: isFile ? node.at : 0,
    };
  }

  #list(path: string): readonly FileEntry[] | undefined {
    if (this.nodes.get(path)?.kind !== "directory") return undefined;
    return [...this.nodes]
      .filter(([each]) => each !== path && dirname(each) === path)
      .map(([each, { kind }]) => ({ name: relative(path, each), kind }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  #makeFolder(path: string, mode: number, group?: number): void {
    const known = this.nodes.get(path);
    if (known?.kind === "file") throw new FilesError("EEXIST", path, `${path} exists and is not a directory`);
    if (known !== undefined && known.mode !== 0) return;
    if (dirname(path) !== path) this.#makeFolder(dirname(path), 0o755);
    this.nodes.set(path, { kind: "directory", mode, ...(group === undefined ? {} : { group }), inode: ++this.#inodes });
    this.#changed(path);
  }

  #rename(from: string, to: string): void {
    this.#rejectMountPoints(from);
    this.#rejectMountPoints(to);
    const moved = [...this.nodes].filter(([path]) => path === from || path.startsWith(`${from}/`));
    if (moved.length === 0) throw new FilesError("ENOENT", from, `${from} does not exist`);
    for (const [path] of moved) this.nodes.delete(path);
    for (const [path, node] of moved) this.nodes.set(to + path.slice(from.length), node);
    this.#changed(from);
    this.#changed(to);
  }

  #link(path: string, target: string): void {
    if (this.nodes.get(dirname(path))?.kind !== "directory")
      throw new FilesError("ENOENT", path, `${path} does not exist`);
    if ((this.nodes.get(path)?.kind ?? "symlink") !== "symlink")
      throw new FilesError("EEXIST", path, `${path} exists and is not a symlink`);
    this.nodes.set(path, { kind: "symlink", mode: 0o777, inode: ++this.#inodes, target });
    this.#changed(path);
  }

  #readLink(path: string): string | undefined {
    const node = this.nodes.get(path);
    return node?.kind === "symlink" ? node.target : undefined;
  }

  #rejectMountPoints(path: string): void {
    const [mountPoint] = this.mounts?.below(path) ?? [];
    if (mountPoint === undefined) return;
    const reason = "it is a mount point, and nothing below a mount is removed";
    throw new FilesError("EBUSY", mountPoint, `${mountPoint} cannot be removed: ${reason}`);
  }

  addFolder(path: string, mode: number, group = 0): void {
    this.nodes.set(path, { kind: "directory", mode, group, inode: ++this.#inodes });
  }

  /** Adds a block device, as the kernel does in /dev. */
  addDevice(path: string): void {
    this.nodes.set(path, { kind: "block device", mode: 0o660, inode: ++this.#inodes });
  }

  /** Adds an empty file, whatever is there. */
  addFile(path: string, mode: number): void {
    this.#write(path, "", mode);
  }

  /** Takes the nodes at a path and below it away, and returns them. */
  takeNodes(path: string): readonly (readonly [path: string, node: FileNode])[] {
    const taken = [...this.nodes].filter(([each]) => each === path || each.startsWith(`${path}/`));
    for (const [each] of taken) this.nodes.delete(each);
    return taken;
  }

  #changeGroup(path: string, { group, addedFileMode, addedFolderMode, signal, onProgress }: GroupChange) {
    signal.throwIfAborted();
    const top = this.nodes.get(path);
    if (top === undefined) throw new FilesError("ENOENT", path, `${path} does not exist`);
    if (top.kind !== "directory")
      throw new FilesError("ENOTDIR", path, `${path} is below something that is not a directory`);
    const found = [...this.nodes].filter(([each]) => each === path || each.startsWith(`${path}/`));
    for (const [index, [each, node]] of found.entries()) {
      const added = node.kind === "directory" ? addedFolderMode : addedFileMode;
      if (node.kind !== "symlink" && !this.immutableFiles.has(each))
        this.nodes.set(each, { ...node, group, mode: node.mode | added });
      onProgress?.(index + 1);
    }
    const kept = found.find(([each]) => this.immutableFiles.has(each))?.[0];
    const failure =
      kept === undefined ? undefined : new FilesError("EPERM", kept, `${kept} cannot be changed: permission denied`);
    return { count: found.length, failure };
  }

  /** Every started 4096 bytes of a file take a block; folders and symlinks take none. */
  #usage(path: string, signal: AbortSignal) {
    signal.throwIfAborted();
    if (this.nodes.get(path)?.kind !== "directory") throw new FilesError("ENOENT", path, `${path} does not exist`);
    const found = [...this.nodes].filter(([each]) => each === path || each.startsWith(`${path}/`));
    const blocks = found.map(([, node]) => (node.kind === "file" ? Math.ceil(node.bytes.length / 4096) : 0));
    return { usedBytes: 4096 * blocks.reduce((sum, each) => sum + each, 0), inodesUsed: found.length };
  }

  #remove(path: string): void {
    this.#rejectMountPoints(path);
    for (const each of [...this.nodes.keys()])
      if (each === path || each.startsWith(`${path}/`)) this.nodes.delete(each);
    this.#changed(path);
  }

  #watch(path: string, changed: OnFileChanged, gone: () => void, signal: AbortSignal): void {
    if (this.nodes.get(path)?.kind !== "directory") throw new FilesError("ENOENT", path, `${path} does not exist`);
    const watcher = { path, changed, gone };
    this.#watchers.add(watcher);
    signal.addEventListener("abort", () => this.#watchers.delete(watcher), { once: true });
  }

  #changed(path: string): void {
    for (const watcher of this.#watchers) {
      if (watcher.path === path && !this.nodes.has(path)) {
        this.#watchers.delete(watcher);
        watcher.gone();
      } else if (dirname(path) === watcher.path) watcher.changed(relative(watcher.path, path), false);
    }
  }
}

function decodeText(path: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw toFilesError(path, error);
  }
}

function rejectLongNames(path: string): void {
  if (path.split("/").some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES))
    throw new FilesError("ENAMETOOLONG", path, `${path} has a name of more than ${MAX_NAME_BYTES} bytes`);
}
