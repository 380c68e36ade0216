import { statSync } from "node:fs";
import { chmod, readFile, realpath, stat, statfs } from "node:fs/promises";
import { basename, dirname, join } from "node:path/posix";
import { makeMountTarget, openBeneath } from "./bind-beneath.ts";
import { FilesError, toFilesError } from "./files.ts";
import { createMountCalls, type MountCalls } from "./mount-calls.ts";

/** One line of /proc/self/mountinfo (proc_pid_mountinfo(5)). */
export interface Mount {
  readonly mountPoint: string;
  /** The device of the file system: `98:0`. */
  readonly device: string;
  /** The path in the file system that is visible at the mount point. */
  readonly root: string;
  readonly fsType: string;
  readonly source: string;
  readonly options: readonly string[];
  /** Whether mounts below it appear in other mount namespaces, and theirs here. */
  readonly isShared: boolean;
}

export interface TmpfsOptions {
  /** The most that its files may take; by default half of the machine's memory. */
  readonly sizeBytes?: number;
  /** The mode of its root folder. */
  readonly mode: number;
  /** The group of its root folder; by default this process's. */
  readonly group?: number;
  /** Whether the kernel may write its files to swap space; by default it may not, where the kernel can promise that. */
  readonly isSwapAllowed?: boolean;
}

export interface HugePagesOptions {
  /** The size of its pages. The kernel has two or three: `EINVAL` for any other. */
  readonly pageBytes: number;
  /** The mode of its root folder. */
  readonly mode: number;
  /** The group of its root folder; by default this process's. */
  readonly group?: number;
}

export interface BindOptions {
  /** Writes fail with `EROFS`. Mounts below the source that come along keep their own mode. */
  readonly isReadOnly: boolean;
  /** The mounts below the source come along. */
  readonly isRecursive: boolean;
}

/**
 * The mounts of this process' mount namespace. All paths are absolute. Each method throws `FilesError` with the kernel's
 * code. The calls are synchronous in the kernel: none of them may be used on a server that may hang (NFS).
 */
export interface Mounts {
  list(): Promise<readonly Mount[]>;
  /**
   * The mount points at a path and below it, as real paths: they must be unmounted before the folder may be removed.
   * The path may contain symlinks; empty when it does not exist.
   */
  mountPointsBelow(path: string): Promise<readonly string[]>;
  /**
   * What is mounted at exactly a path, the oldest first. It reads the mount table and looks at the folder that the path is
   * in, never at what is mounted: a server may not answer. Empty where that folder does not exist.
   */
  mountsAt(path: string): Promise<readonly Mount[]>;
  /**
   * Mounts an empty tmpfs over a folder. A tmpfs that is mounted there already stays as it is, with its files.
   * Everything else is as the kubelet mounts it: `relatime`, without `nosuid` and `nodev`.
   */
  mountTmpfs(path: string, options: TmpfsOptions): Promise<void>;
  /**
   * Mounts an empty hugetlbfs over a folder: the memory of its files is in huge pages. One that is mounted there already
   * stays as it is, with its files.
   */
  mountHugePages(path: string, options: HugePagesOptions): Promise<void>;
  /**
   * Makes `source` visible at `target`: a folder on a folder, or a file on a file. The same source there already is
   * success; another one is `EBUSY`. Both paths may contain symlinks, which are followed: for a path in a folder that
   * containers write to there is `bindBeneath`.
   */
  bind(source: string, target: string, options: BindOptions): Promise<void>;
  /**
   * Makes a path below a folder visible at `target`, as `bind` does. The content of the folder is not trusted: symlinks
   * are followed, but a path that leaves the folder is refused (`EXDEV`), and what was checked is what is mounted,
   * whatever is renamed or replaced meanwhile. Missing folders of the path are made with the mode of the folder. The
   * target is made, too: a folder for a folder, an empty file for anything else. Another mount there is replaced.
   * Mounts below the path do not come along.
   */
  bindBeneath(folder: string, path: string, target: string): Promise<void>;
  /**
   * Unmounts what is mounted at a path, which may not be a symlink. Where nothing is mounted, or nothing exists, that is
   * success. `EBUSY`: a process uses a file of it, or something is mounted below.
   */
  unmount(path: string): Promise<void>;
  /** Whether the mount that a path is on is shared. */
  isShared(path: string): Promise<boolean>;
  /**
   * Makes the mount at a folder shared, with all mounts below it, so that mounts made there later appear in containers,
   * and theirs here. A folder that is no mount point, and on no shared mount, becomes one: a bind mount of itself. What
   * is mounted below it already stays visible.
   */
  makeShared(path: string): Promise<void>;
}

// mount(2), umount2(2); as on x86-64 and arm64.
const MS_RDONLY = 1;
const MS_REMOUNT = 32;
const MS_BIND = 4096;
const MS_REC = 16384;
const MS_SHARED = 1 << 20;
const UMOUNT_NOFOLLOW = 8;
/** Flags that a remount would clear if they were left out. The kernel preserves those of access times by itself. */
const KEPT_FLAGS: Readonly<Record<string, number>> = { nosuid: 2, nodev: 4, noexec: 8 };
/** `f_type` of statfs(2) for tmpfs. */
const TMPFS_MAGIC = 0x01021994;
/** More mounts on top of each other than anything makes. */
const MAX_STACKED_MOUNTS = 100;

export function createMounts(calls: MountCalls = createMountCalls()): Mounts {
  const list = async () => parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"));
  const mountsAt = async (path: string) => {
    const folder = await realPathIfPresent(dirname(path));
    if (folder === undefined) return [];
    const real = join(folder, basename(path));
    return (await list()).filter(({ mountPoint }) => mountPoint === real);
  };
  /** The topmost mount at the end of a path, which may be a symlink. */
  const mountAt = async (path: string) => (await mountsAt(await realpath(path))).at(-1);
  const mountOf = async (path: string) => {
    const real = await realpath(path);
    const isAbove = ({ mountPoint }: Mount) =>
      mountPoint === "/" || mountPoint === real || real.startsWith(`${mountPoint}/`);
    const above = (await list()).filter(isAbove);
    return above.findLast(({ mountPoint }) => above.every((each) => each.mountPoint.length <= mountPoint.length));
  };
  const mountTmpfs = createTmpfsMounter(calls);
  return {
    list,
    mountPointsBelow: (path) =>
      withFilesError(path, async () => {
        const real = await realPathIfPresent(path);
        if (real === undefined) return [];
        const prefix = real === "/" ? "/" : `${real}/`;
        return (await list())
          .map(({ mountPoint }) => mountPoint)
          .filter((mountPoint) => mountPoint === real || mountPoint.startsWith(prefix));
      }),
    mountsAt: (path) => withFilesError(path, () => mountsAt(path)),
    mountTmpfs: (path, options) =>
      withFilesError(path, async () => {
        if (!(await isTmpfsMountPoint(path))) mountTmpfs(path, options);
      }),
    mountHugePages: (path, options) =>
      withFilesError(path, async () => {
        if ((await mountAt(path))?.fsType !== "hugetlbfs") mountHugePages(calls, path, options);
        // The mount option takes no setgid bit.
        await chmod(path, options.mode);
      }),
    bind: (source, target, options) =>
      withFilesError(target, async () => {
        const present = await mountAt(target);
        if (present === undefined) bind(calls, source, target, options);
        else if (!isSameFile(source, target))
          throw new FilesError("EBUSY", target, `${target} cannot be mounted: something else is mounted there`);
        if (options.isReadOnly) remountReadOnly(calls, target, (await mountAt(target))?.options ?? []);
      }),
    bindBeneath: (folder, path, target) =>
      withFilesError(target, async () => {
        // The target is not looked at: once what is mounted there was removed, it has no real path that the kernel lists.
        const isMounted = (await mountsAt(target)).length > 0;
        bindBeneath(calls, { folder, path, target, isMounted });
      }),
    unmount: (path) => withFilesError(path, async () => unmount(calls, path)),
    isShared: (path) => withFilesError(path, async () => (await mountOf(path))?.isShared ?? false),
    makeShared: (path) =>
      withFilesError(path, async () => {
        if ((await mountOf(path))?.isShared) return;
        if ((await mountAt(path)) === undefined) bind(calls, path, path, { isReadOnly: false, isRecursive: true });
        throwMountError(path, calls.mount({ ...noInput, target: path, flags: MS_SHARED | MS_REC }));
      }),
  };
}

const noInput = { source: "none", fsType: "", options: "" };

/** Remembers whether the kernel knows the option `noswap` (6.4 and later). */
function createTmpfsMounter(calls: MountCalls): (path: string, options: TmpfsOptions) => void {
  let hasNoswap: boolean | undefined;
  return (path, { sizeBytes, mode, group, isSwapAllowed = false }) => {
    const options = [
      `mode=${mode.toString(8)}`,
      ...(group === undefined ? [] : [`gid=${group}`]),
      ...(sizeBytes === undefined ? [] : [`size=${sizeBytes}`]),
    ];
    const mount = (...more: readonly string[]) =>
      calls.mount({ source: "tmpfs", target: path, fsType: "tmpfs", flags: 0, options: [...options, ...more].join() });
    if (isSwapAllowed || hasNoswap === false) return throwMountError(path, mount());
    const failure = mount("noswap");
    if (failure !== "EINVAL" || hasNoswap === true) {
      hasNoswap ??= failure === undefined ? true : undefined;
      return throwMountError(path, failure);
    }
    throwMountError(path, mount());
    // The same options without it are valid.
    hasNoswap = false;
  };
}

function mountHugePages(calls: MountCalls, path: string, { pageBytes, mode, group }: HugePagesOptions): void {
  const options = [
    `pagesize=${pageBytes}`,
    `mode=${(mode & 0o1777).toString(8)}`,
    ...(group === undefined ? [] : [`gid=${group}`]),
  ];
  const input = { source: "nodev", target: path, fsType: "hugetlbfs", flags: 0, options: options.join() };
  throwMountError(path, calls.mount(input));
}

function bind(calls: MountCalls, source: string, target: string, { isRecursive }: BindOptions): void {
  const flags = MS_BIND | (isRecursive ? MS_REC : 0);
  throwMountError(target, calls.mount({ ...noInput, source, target, flags }), source);
}

/** The descriptor stays open until the mount is made: its path under /proc leads to what was checked, not to a name. */
function bindBeneath(
  calls: MountCalls,
  { folder, path, target, isMounted }: Record<"folder" | "path" | "target", string> & { readonly isMounted: boolean },
): void {
  const source = openBeneath(calls, folder, path);
  try {
    if (isMounted && isSameFile(source.path, target)) return;
    if (isMounted) unmount(calls, target);
    makeMountTarget(target, source.isFolder);
    const failure = calls.mount({ ...noInput, source: source.path, target, flags: MS_BIND });
    throwMountError(target, failure, `${folder}/${path}`);
  } finally {
    source.close();
  }
}

/** The kernel ignores MS_RDONLY in the call that makes a bind mount. */
function remountReadOnly(calls: MountCalls, target: string, options: readonly string[]): void {
  if (options.includes("ro")) return;
  const kept = options.reduce((flags, option) => flags | (KEPT_FLAGS[option] ?? 0), 0);
  const failure = calls.mount({ ...noInput, target, flags: MS_BIND | MS_REMOUNT | MS_RDONLY | kept });
  // A mount that a container may write to must not stay.
  if (failure !== undefined) unmount(calls, target);
  throwMountError(target, failure);
}

function unmount(calls: MountCalls, path: string): void {
  for (let mounts = 0; mounts < MAX_STACKED_MOUNTS; mounts++) {
    const failure = calls.umount(path, UMOUNT_NOFOLLOW);
    // EINVAL: not a mount point.
    if (failure === "EINVAL" || failure === "ENOENT" || failure === "ENOTDIR") return;
    if (failure !== undefined) throw unmountError(path, failure);
  }
  throw unmountError(path, "EBUSY");
}

function unmountError(path: string, code: string): FilesError {
  const why = code === "EBUSY" ? "a process uses a file of it, or something is mounted below" : reasonOf(code);
  return new FilesError(code, path, `${path} cannot be unmounted: ${why}`);
}

function throwMountError(target: string, code: string | undefined, source?: string): void {
  if (code === undefined) return;
  const subject = source === undefined ? target : `${source} at ${target}`;
  const notFolder = source === undefined ? "it is not a folder" : "one of them is a folder, and the other is none";
  const reason = code === "ENOTDIR" ? notFolder : reasonOf(code);
  throw new FilesError(code, target, `${subject} cannot be mounted: ${reason}`);
}

const reasons: Readonly<Record<string, string>> = {
  EPERM: "permission denied: mounts need CAP_SYS_ADMIN",
  EINVAL: "the kernel refuses the options",
  ENODEV: "the kernel does not have the file system",
  ENOSPC: "the mount namespace is full (fs.mount-max)",
  ENOENT: "it does not exist",
};

const reasonOf = (code: string) => reasons[code] ?? code;

/** A tmpfs is its own device, so this needs no list of all mounts. */
async function isTmpfsMountPoint(path: string): Promise<boolean> {
  if ((await statfs(path)).type !== TMPFS_MAGIC) return false;
  return (await stat(path)).dev !== (await stat(dirname(await realpath(path)))).dev;
}

function isSameFile(one: string, other: string): boolean {
  const [a, b] = [statSync(one), statSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}

async function withFilesError<T>(path: string, work: () => Promise<T>): Promise<T> {
  try {
    if (path.includes("\0")) throw new FilesError("EINVAL", path, `${JSON.stringify(path)} contains a null byte`);
    return await work();
  } catch (error) {
    throw toFilesError(path, error);
  }
}

/** The kernel lists mounts by their real paths. */
async function realPathIfPresent(path: string): Promise<string | undefined> {
  try {
    return await realpath(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * Parses lines such as `36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw`; skips malformed ones.
 */
export function parseMountinfo(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    // The first separator ends the optional fields; the source may be named `-`, too.
    const end = line.indexOf(" - ");
    const [, , device, root, mountPoint, options, ...optional] = line.slice(0, Math.max(0, end)).split(" ");
    const [fsType, source] = line.slice(end + " - ".length).split(" ");
    if (device === undefined || root === undefined || mountPoint === undefined || options === undefined) return [];
    if (fsType === undefined || source === undefined) return [];
    return [
      {
        mountPoint: unescapeOctal(mountPoint),
        device,
        root: unescapeOctal(root),
        fsType,
        source: unescapeOctal(source),
        options: options.split(","),
        isShared: optional.some((field) => field.startsWith("shared:")),
      },
    ];
  });
}

/**
 * The other mount points, by a mount table, at which the folder at a path is visible: those of the same path in the same
 * file system. The path must contain no symlinks.
 */
export function otherMountPointsOf(
  path: string,
  mounts: readonly Pick<Mount, "mountPoint" | "device" | "root">[],
): readonly string[] {
  const own = mounts.findLast(({ mountPoint }) => path === mountPoint || path.startsWith(withSlash(mountPoint)));
  if (own === undefined) return [];
  const root = join(own.root, path.slice(own.mountPoint.length));
  return mounts
    .filter((each) => each !== own && each.device === own.device && withSlash(each.root) === withSlash(root))
    .map(({ mountPoint }) => mountPoint);
}

const withSlash = (path: string) => (path.endsWith("/") ? path : `${path}/`);

/** The kernel writes space, tab, newline and backslash as `\040` and so on. */
function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
}
