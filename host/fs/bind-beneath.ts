import {
  chmodSync,
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  rmdirSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { FilesError, toFilesError } from "./files.ts";
import type { MountCalls } from "./mount-calls.ts";

/** See open(2) and openat2(2); the same on x86-64 and arm64. */
const O_PATH = 0o10000000;
const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_NO_SYMLINKS = 0x04;
const RESOLVE_BENEATH = 0x08;
/** The bits of `st_mode` that chmod(2) sets. */
const MODE_BITS = 0o7777;
/** Tries while files are renamed elsewhere, during which the kernel does not promise that a `..` stays beneath. */
const MAX_TRIES = 128;

/** An open file or folder. It stays what it is, whatever is renamed or replaced meanwhile. */
interface OpenPath {
  /** A path that leads to it while it is open. */
  readonly path: string;
  readonly isFolder: boolean;
  close(): void;
}

/**
 * Opens a path below a folder whose content is not trusted, and makes the folders of it that are missing, with the
 * folder's own mode. Symlinks are followed, but none out of the folder (`EXDEV`), and a new folder is never made through
 * one. Nothing here is asynchronous. Throws `FilesError`.
 */
export function openBeneath(calls: Pick<MountCalls, "openat2">, folder: string, path: string): OpenPath {
  if (path.includes("\0")) throw new FilesError("EINVAL", folder, `${JSON.stringify(path)} contains a null byte`);
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  const root = openRoot(folder);
  try {
    const found = openat2Beneath(calls, { folder: root, path: names.join("/") || ".", flags: 0, resolve: 0 });
    const descriptor = found === "ENOENT" ? makeMissing(calls, root, names) : found;
    if (typeof descriptor === "string") throw Object.assign(new Error(descriptor), { code: descriptor });
    return toOpenPath(descriptor);
  } catch (error) {
    const failure = toFilesError(`${folder}/${path}`, error);
    if (failure.code !== "EXDEV") throw failure;
    throw new FilesError(
      "EXDEV",
      folder,
      `${path} leads out of ${folder}, or goes by an absolute symlink, which is refused wherever it leads`,
      { cause: error },
    );
  } finally {
    closeSync(root);
  }
}

const procPath = (descriptor: number) => `/proc/self/fd/${descriptor}`;

function openRoot(folder: string): number {
  try {
    return openSync(folder, O_PATH | constants.O_DIRECTORY);
  } catch (error) {
    throw toFilesError(folder, error);
  }
}

function toOpenPath(descriptor: number): OpenPath {
  const [path, close] = [procPath(descriptor), () => closeSync(descriptor)];
  try {
    return { path, isFolder: statSync(path).isDirectory(), close };
  } catch (error) {
    close();
    throw error;
  }
}

/**
 * Makes the missing folders of a path, each in its open parent, and opens the last one. Returns the kernel's code if
 * one cannot be opened.
 */
function makeMissing(calls: Pick<MountCalls, "openat2">, root: number, names: readonly string[]): number | string {
  const mode = statSync(procPath(root)).mode & MODE_BITS;
  const open = (folder: number, path: string, resolve: number) =>
    openat2Beneath(calls, { folder, path, flags: constants.O_DIRECTORY, resolve });
  let present = names.length;
  let found: number | string = "ENOENT";
  // The root itself is there, so this ends.
  while (found === "ENOENT" && present > 0) found = open(root, names.slice(0, --present).join("/") || ".", 0);
  for (const name of names.slice(present)) {
    if (typeof found === "string") break;
    const parent = found;
    try {
      const isNew = makeFolder(`${procPath(parent)}/${name}`, mode);
      found = open(parent, name, RESOLVE_NO_SYMLINKS);
      // The umask has limited the mode. By its descriptor, since the name may be a symlink by now.
      if (isNew && typeof found === "number") chmodSync(procPath(found), mode);
    } finally {
      closeSync(parent);
    }
  }
  return found;
}

/** Whether it is new: a folder that another container has just made keeps its mode. */
function makeFolder(path: string, mode: number): boolean {
  try {
    mkdirSync(path, { mode });
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

function openat2Beneath(
  calls: Pick<MountCalls, "openat2">,
  input: Parameters<MountCalls["openat2"]>[0],
): number | string {
  const resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | input.resolve;
  for (let tries = 1; ; tries++) {
    const found = calls.openat2({ ...input, flags: O_PATH | input.flags, resolve });
    if (found !== "EAGAIN" || tries === MAX_TRIES) return found;
  }
}

/** Makes an empty folder or file that something of that kind can be mounted at. Its parent exists. */
export function makeMountTarget(target: string, isFolder: boolean): void {
  const present = lstatSync(target, { throwIfNoEntry: false });
  if (present?.isDirectory() === isFolder && !present.isSymbolicLink()) return;
  if (present?.isDirectory()) rmdirSync(target);
  else if (present !== undefined) unlinkSync(target);
  if (isFolder) mkdirSync(target, { mode: 0o750 });
  else writeFileSync(target, "", { mode: 0o640, flag: "wx" });
}
