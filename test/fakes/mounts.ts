import { basename, dirname, join } from "node:path/posix";
import { FilesError } from "../../host/fs/files.ts";
import type { BindOptions, HugePagesOptions, Mount, Mounts, TmpfsOptions } from "../../host/fs/mounts.ts";
import { resolveBeneath } from "./beneath.ts";
import type { DiskMounts, FakeDisk, FileNode } from "./files.ts";

export type MountsVerb = "mountTmpfs" | "mountHugePages" | "bind" | "bindBeneath" | "unmount" | "makeShared";

/** A look at a mount whose server does not answer. On the kernel nothing of the process would happen any more. */
export class DeadServerError extends Error {}

interface TableEntry extends Mount {
  readonly isReadOnly: boolean;
  /** Where the content of a bind mount is; undefined for a tmpfs. */
  readonly from: string | undefined;
  readonly sizeBytes: number;
  /** What a tmpfs hides until it is unmounted. */
  readonly hidden: readonly (readonly [path: string, node: FileNode])[];
}

/** The device of the disk itself. */
const DISK = "8:1";
/** Huge pages of x86-64. */
const PAGE_SIZES: readonly number[] = [2 ** 21, 2 ** 30];

/**
 * A mount table over a disk in memory: a tmpfs hides what is below it, and loses its content when it is unmounted; a bind
 * mount shows its source at another path. The table outlives agents.
 */
export class FakeMounts implements Mounts {
  /** The paths of open files: their mounts are busy. */
  readonly openFiles = new Set<string>();
  /** The servers that do not answer: a look at a mount of theirs would hang. */
  readonly deadServers = new Set<string>();
  /** Called before a method takes effect; it may throw. */
  before: (verb: MountsVerb, path: string) => void = () => {};
  readonly #disk: FakeDisk;
  readonly #sharedPaths = new Set<string>();
  #table: readonly TableEntry[] = [];
  #devices = 0;

  constructor(disk: FakeDisk) {
    this.#disk = disk;
    disk.mounts = {
      sourceOf: (path) => {
        const found = this.#at(path);
        if (found !== undefined && this.#isDead(found))
          throw new DeadServerError(`${path} is on a server that does not answer`);
        return found?.from;
      },
      isReadOnly: (path) => this.#at(path)?.isReadOnly ?? false,
      hasSpace: (path, addedBytes) => this.#hasSpace(path, addedBytes),
      below: (path) => this.#below(path),
    } satisfies DiskMounts;
  }

  /** All mount points, the oldest first. */
  get mountPoints(): readonly string[] {
    return this.#table.map(({ mountPoint }) => mountPoint);
  }

  async list(): Promise<readonly Mount[]> {
    const root = { mountPoint: "/", device: DISK, root: "/", fsType: "ext4", source: "/dev/sda", options: ["rw"] };
    return [root, ...this.#table].map(({ mountPoint, device, root: path, fsType, source, options }) => ({
      mountPoint,
      device,
      root: path,
      fsType,
      source,
      options,
      isShared: this.#isShared(mountPoint),
    }));
  }

  async mountPointsBelow(path: string): Promise<readonly string[]> {
    return this.#below(this.#pointAt(path));
  }

  async mountsAt(path: string): Promise<readonly Mount[]> {
    const at = join(this.#disk.locate(dirname(path), true).path, basename(path));
    return (await this.list()).filter(({ mountPoint }) => mountPoint === at);
  }

  async mountTmpfs(path: string, { sizeBytes, mode, group, isSwapAllowed = false }: TmpfsOptions): Promise<void> {
    this.before("mountTmpfs", path);
    const options = ["rw", "relatime", ...(isSwapAllowed ? [] : ["noswap"])];
    const fileSystem = { fsType: "tmpfs", source: "tmpfs", options, sizeBytes: sizeBytes ?? Number.POSITIVE_INFINITY };
    this.#mountEmpty(path, fileSystem, { mode, ...(group !== undefined && { group }) });
  }

  async mountHugePages(path: string, { pageBytes, mode, group }: HugePagesOptions): Promise<void> {
    this.before("mountHugePages", path);
    if (!PAGE_SIZES.includes(pageBytes)) throw notMounted("EINVAL", path, path, "the kernel refuses the options");
    const fileSystem = { fsType: "hugetlbfs", source: "nodev", options: ["rw", "relatime"], sizeBytes: 0 };
    this.#mountEmpty(path, fileSystem, { mode, ...(group !== undefined && { group }) });
  }

  /** Mounts an empty file system over a folder, unless it is there already. */
  #mountEmpty(
    path: string,
    fileSystem: Pick<TableEntry, "fsType" | "source" | "options" | "sizeBytes">,
    { mode, group }: { readonly mode: number; readonly group?: number },
  ): void {
    this.#existing(path, path);
    const at = this.#pointAt(path);
    if (this.#at(at)?.fsType === fileSystem.fsType) return;
    if (this.#disk.nodes.get(at)?.kind !== "directory") throw notMounted("ENOTDIR", path, path, "it is not a folder");
    const hidden = this.#disk.takeNodes(at);
    this.#disk.addFolder(at, mode, group);
    this.#add({ mountPoint: at, ...fileSystem, isReadOnly: false, from: undefined, hidden });
  }

  async bind(source: string, target: string, { isReadOnly }: BindOptions): Promise<void> {
    this.before("bind", target);
    const from = this.#existing(source, target);
    this.#existing(target, target);
    const at = this.#pointAt(target);
    const present = this.#at(at);
    const isSame = present?.from === from;
    if (present !== undefined && !isSame) throw notMounted("EBUSY", target, target, "something else is mounted there");
    const [sourceNode, targetNode] = [from, at].map((path) => this.#disk.nodes.get(path)?.kind === "directory");
    if (sourceNode !== targetNode)
      throw notMounted("ENOTDIR", target, `${source} at ${target}`, "one of them is a folder, and the other is none");
    this.#table = this.#table.filter((entry) => entry !== present);
    const isNowReadOnly = isReadOnly || present?.isReadOnly === true;
    this.#add({
      mountPoint: at,
      ...this.#fileSystemOf(from),
      options: [isNowReadOnly ? "ro" : "rw", "relatime"],
      isReadOnly: isNowReadOnly,
      from,
      sizeBytes: Number.POSITIVE_INFINITY,
      hidden: [],
    });
  }

  async bindBeneath(folder: string, path: string, target: string): Promise<void> {
    this.before("bindBeneath", target);
    const { isReadOnly } = this.#disk.locate(folder, true);
    const from = this.#makeBeneath(this.#existing(folder, folder), path, isReadOnly);
    const at = this.#pointAt(target);
    const present = this.#at(at);
    if (present?.from === from) return;
    if (present !== undefined) this.#remove(present);
    this.#makeTarget(at, this.#disk.nodes.get(from)?.kind === "directory");
    this.#add({
      mountPoint: at,
      ...this.#fileSystemOf(from),
      options: [isReadOnly ? "ro" : "rw", "relatime"],
      isReadOnly,
      from,
      sizeBytes: Number.POSITIVE_INFINITY,
      hidden: [],
    });
  }

  async unmount(path: string): Promise<void> {
    this.before("unmount", path);
    const { path: at } = this.#disk.locate(path, false);
    if (this.#at(at) === undefined) return;
    if (this.isBusy(at)) {
      const why = "a process uses a file of it, or something is mounted below";
      throw new FilesError("EBUSY", path, `${path} cannot be unmounted: ${why}`);
    }
    for (let found = this.#at(at); found !== undefined; found = this.#at(at)) this.#remove(found);
  }

  async isShared(path: string): Promise<boolean> {
    return this.#isShared(this.#existing(path, path));
  }

  async makeShared(path: string): Promise<void> {
    this.before("makeShared", path);
    this.#existing(path, path);
    const at = this.#pointAt(path);
    if (this.#isShared(at)) return;
    if (this.#at(at) === undefined) await this.bind(path, path, { isReadOnly: false, isRecursive: false });
    this.#sharedPaths.add(at);
  }

  /** Mounts the file system of a server over a folder, without a look at what is mounted there. */
  mountNetwork(at: string, { fsType, source, options }: Pick<Mount, "fsType" | "source" | "options">): void {
    const hidden = this.#disk.takeNodes(at);
    this.#disk.addFolder(at, 0o755);
    const isReadOnly = options.includes("ro");
    const all = [isReadOnly ? "ro" : "rw", "relatime"];
    const sizeBytes = Number.POSITIVE_INFINITY;
    this.#add({ mountPoint: at, fsType, source, options: all, isReadOnly, from: undefined, sizeBytes, hidden });
  }

  /** The source of the newest mount at exactly this path. */
  sourceAt(path: string): string | undefined {
    return this.#at(path)?.source;
  }

  unmountNetwork(path: string): void {
    const found = this.#at(path);
    if (found !== undefined) this.#remove(found);
  }

  isBusy(path: string): boolean {
    return this.#below(path).some((each) => each !== path) || [...this.openFiles].some((file) => isWithin(file, path));
  }

  isMountOfDeadServer(path: string): boolean {
    const found = this.#at(path);
    return found !== undefined && this.#isDead(found);
  }

  /** Whether a folder is there, without a look at what is mounted over it. */
  hasFolder(path: string): boolean {
    return this.#disk.nodes.get(path)?.kind === "directory";
  }

  /** What a restart of the machine does. */
  unmountAll(): void {
    for (const entry of this.#table.toReversed()) this.#remove(entry);
    this.#sharedPaths.clear();
    this.openFiles.clear();
  }

  #isDead({ source }: TableEntry): boolean {
    return [...this.deadServers].some((server) => source.startsWith(`${server}:`));
  }

  /** The file system of what is at a path, and where it is there. */
  #fileSystemOf(path: string): Pick<Mount, "fsType" | "source" | "device" | "root"> {
    const found = this.#table.findLast(({ mountPoint, from }) => from === undefined && isWithin(path, mountPoint));
    if (found === undefined) return { fsType: "ext4", source: "/dev/sda", device: DISK, root: path };
    const { fsType, source, device, mountPoint } = found;
    return { fsType, source, device, root: path.slice(mountPoint.length) || "/" };
  }

  #at(path: string): TableEntry | undefined {
    return this.#table.findLast(({ mountPoint }) => mountPoint === path);
  }

  /** A file system is new unless its device is given. */
  #add(entry: Omit<TableEntry, "isShared" | "device" | "root"> & Partial<Pick<TableEntry, "device" | "root">>): void {
    this.#table = [...this.#table, { device: `0:${++this.#devices}`, root: "/", ...entry, isShared: false }];
  }

  #remove(entry: TableEntry): void {
    this.#table = this.#table.filter((each) => each !== entry);
    if (entry.from !== undefined) return;
    this.#disk.takeNodes(entry.mountPoint);
    for (const [path, node] of entry.hidden) this.#disk.nodes.set(path, node);
  }

  /** Returns the path of what is there, after it has made what is missing. */
  #makeBeneath(root: string, path: string, isReadOnly: boolean): string {
    const { nodes } = this.#disk;
    const { found, missing } = resolveBeneath(nodes, root, path);
    return missing.reduce((parent, name) => {
      const at = `${parent}/${name}`;
      if (nodes.has(at)) throw new FilesError("ELOOP", at, `${at} is a loop of symlinks`);
      if (isReadOnly) throw new FilesError("EROFS", at, `${at} cannot be written: the file system is read-only`);
      this.#disk.addFolder(at, nodes.get(root)?.mode ?? 0o755);
      return at;
    }, found);
  }

  #makeTarget(at: string, isFolder: boolean): void {
    const { nodes } = this.#disk;
    const present = nodes.get(at)?.kind;
    if (present === (isFolder ? "directory" : "file")) return;
    if ([...nodes.keys()].some((each) => each.startsWith(`${at}/`)))
      throw new FilesError("ENOTEMPTY", at, `${at} is not empty`);
    if (isFolder) this.#disk.addFolder(at, 0o750);
    else this.#disk.addFile(at, 0o640);
  }

  #below(path: string): readonly string[] {
    return this.#table.map(({ mountPoint }) => mountPoint).filter((mountPoint) => isWithin(mountPoint, path));
  }

  #isShared(path: string): boolean {
    return [...this.#sharedPaths].some((shared) => isWithin(path, shared));
  }

  #hasSpace(path: string, addedBytes: number): boolean {
    const tmpfs = this.#table.findLast(({ mountPoint, from }) => from === undefined && isWithin(path, mountPoint));
    if (tmpfs === undefined) return true;
    let usedBytes = 0;
    for (const [each, node] of this.#disk.nodes)
      if (node.kind === "file" && isWithin(each, tmpfs.mountPoint)) usedBytes += node.bytes.length;
    return usedBytes + addedBytes <= tmpfs.sizeBytes;
  }

  /** The path of what exists at a path. */
  #existing(path: string, subject: string): string {
    const { path: at } = this.#disk.locate(path, true);
    if (!this.#disk.nodes.has(at)) throw new FilesError("ENOENT", subject, `${path} does not exist`);
    return at;
  }

  /** The path at which the mount table has a mount at a path. */
  #pointAt(path: string): string {
    const { path: at } = this.#disk.locate(path, false);
    return this.#disk.nodes.get(at)?.kind === "symlink" ? this.#disk.locate(path, true).path : at;
  }
}

const isWithin = (path: string, folder: string) => folder === "/" || path === folder || path.startsWith(`${folder}/`);

function notMounted(code: string, target: string, subject: string, reason: string): FilesError {
  return new FilesError(code, target, `${subject} cannot be mounted: ${reason}`);
}
