import { dirname, relative, resolve } from "node:path/posix";
import {
  type FileEntry,
  type FileStat,
  type Files,
  FilesError,
  joinInRoot,
  type OnFileChanged,
} from "../../host/fs/files.ts";

type FileNode =
  | { readonly kind: "directory"; readonly mode: number; readonly group?: number; readonly inode: number }
  | {
      readonly kind: "file";
      readonly mode: number;
      readonly inode: number;
      readonly content: string;
      readonly at: number;
    }
  | { readonly kind: "symlink"; readonly mode: number; readonly inode: number; readonly target: string };

export type FilesVerb =
  | "read"
  | "readEnd"
  | "readBeneath"
  | "makeFile"
  | "write"
  | "stat"
  | "list"
  | "makeFolder"
  | "rename"
  | "link"
  | "readLink"
  | "remove";

/** Of a path that cannot exist these report that nothing is there; the others fail. */
const absenceVerbs: readonly FilesVerb[] = ["stat", "list", "readLink", "remove"];
const MAX_NAME_BYTES = 255;

/** A file system in memory, for tests that inject failures. `at(root)` returns a `Files` view below one directory. */
export class FakeDisk {
  readonly nodes = new Map<string, FileNode>([["/", { kind: "directory", mode: 0o755, inode: 1 }]]);
  /** Called before a method takes effect; it may throw. */
  before: (verb: FilesVerb, path: string) => void = () => {};
  /** Awaited after a method took effect, before it returns. */
  after: (verb: FilesVerb, path: string) => Promise<void> | void = () => {};
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
      const result = effect(absolute);
      await this.after(verb, absolute);
      return result;
    };
    return {
      root,
      path: (...parts) => joinInRoot(root, ...parts),
      read: (path, maxBytes) => run("read", path, (absolute) => this.#read(absolute, maxBytes)),
      readEnd: (path, maxBytes, options) =>
        run("readEnd", path, (absolute) => {
          if (options?.withoutLinks === true) this.#rejectSymlinks(root, absolute);
          const bytes = Buffer.from(this.#read(absolute, Number.POSITIVE_INFINITY));
          return new TextDecoder().decode(bytes.subarray(Math.max(0, bytes.length - maxBytes)));
        }),
      readBeneath: (folder, path, maxBytes) =>
        run("readBeneath", folder, (absolute) =>
          Buffer.from(this.#read(this.#resolveInRoot(absolute, path.split("/"), "/"), maxBytes)),
        ),
      makeFile: (path, mode, content = "") => run("makeFile", path, (absolute) => this.#write(absolute, content, mode)),
      write: (path, content, mode) => run("write", path, (absolute) => this.#write(absolute, content, mode)),
      stat: (path) => run("stat", path, (absolute) => this.#stat(absolute)),
      list: (path) => run("list", path, (absolute) => this.#list(absolute)),
      makeFolder: (path, mode, group) => run("makeFolder", path, (absolute) => this.#makeFolder(absolute, mode, group)),
      rename: (from, to) => run("rename", from, (absolute) => this.#rename(absolute, joinInRoot(root, to))),
      link: (path, target) => run("link", path, (absolute) => this.#link(absolute, target)),
      readLink: (path) => run("readLink", path, (absolute) => this.#readLink(absolute)),
      remove: (path) => run("remove", path, (absolute) => this.#remove(absolute)),
      space: async () => ({ totalBytes: 1 << 30, freeBytes: 1 << 29, totalInodes: 1 << 20, freeInodes: 1 << 19 }),
      watch: (path, changed, gone, signal) => this.#watch(joinInRoot(root, path), changed, gone, signal),
    };
  }

  /** All paths except the root, sorted. */
  paths(): readonly string[] {
    return [...this.nodes.keys()].filter((path) => path !== "/").toSorted();
  }

  /** The node at a path; follows a symlink. */
  #nodeAt(path: string): FileNode | undefined {
    const node = this.nodes.get(path);
    return node?.kind === "symlink" ? this.#nodeAt(resolve(dirname(path), node.target)) : node;
  }

  /** Resolves a path whose symlinks are followed as if `root` were `/` (openat2 with RESOLVE_IN_ROOT). */
  #resolveInRoot(root: string, names: readonly string[], from: string, links = 0): string {
    if (links > 40) throw new FilesError("ELOOP", root, `${root} is a loop of symlinks`);
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

  #read(path: string, maxBytes: number): string {
    const node = this.#nodeAt(path);
    if (node === undefined) throw new FilesError("ENOENT", path, `${path} does not exist`);
    if (node.kind !== "file") throw new FilesError("ENOTFILE", path, `${path} is a directory, not a regular file`);
    if (Buffer.byteLength(node.content) > maxBytes)
      throw new FilesError("ETOOBIG", path, `${path} is larger than ${maxBytes} bytes`);
    return node.content;
  }

  #write(path: string, content: string, mode: number): void {
    if (this.nodes.get(dirname(path))?.kind !== "directory")
      throw new FilesError("ENOENT", path, `${path} does not exist`);
    this.nodes.set(path, { kind: "file", mode, inode: ++this.#inodes, content, at: this.#now() });
    this.#changed(path);
  }

  #stat(path: string): FileStat | undefined {
    const node = this.#nodeAt(path);
    if (node === undefined) return undefined;
    const { kind, mode, inode } = node;
    const isFile = node.kind === "file";
    return {
      kind,
      mode,
      inode,
      group: "group" in node ? (node.group ?? 0) : 0,
      sizeBytes: isFile ? Buffer.byteLength(node.content) : 0,
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

  #makeFolder(path: string, mode: number, group = 0): void {
    const known = this.nodes.get(path);
    if (known?.kind === "file") throw new FilesError("EEXIST", path, `${path} exists and is not a directory`);
    if (known !== undefined && known.mode !== 0) return;
    if (dirname(path) !== path) this.#makeFolder(dirname(path), 0o755);
    this.nodes.set(path, { kind: "directory", mode, group, inode: ++this.#inodes });
    this.#changed(path);
  }

  #rename(from: string, to: string): void {
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

  #remove(path: string): void {
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

function rejectLongNames(path: string): void {
  if (path.split("/").some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES))
    throw new FilesError("ENAMETOOLONG", path, `${path} has a name of more than ${MAX_NAME_BYTES} bytes`);
}
