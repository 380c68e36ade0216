import { FFIType, read } from "bun:ffi";
import { closeSync, constants, fstatSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { constants as ofSystem } from "node:os";
import { FilesError, toFilesError } from "./fs/files.ts";
import { libcProblem, openLibc } from "./libc.ts";

/** The result of an attempt to take a lock: held by us, or by another process. */
export type LockResult =
  | {
      readonly held: true;
      /**
       * Returns the descriptor of the lock, for a child process to inherit: the child keeps the lock if this process is
       * killed. `release` and `remove` end the lock of both.
       */
      readonly share: () => number;
      readonly release: () => void;
      /** Releases the lock and removes its file, for locks of temporary things. */
      readonly remove: () => void;
    }
  /** `holder`: the description that the holder wrote into the file. */
  | { readonly held: false; readonly holder: string };

/** An exclusive lock has one holder, a shared one any number, but none while another one holds it exclusively. */
export type LockMode = "exclusive" | "shared";

const OPERATIONS = { shared: 1, exclusive: 2, unlock: 8 } as const;
const LOCK_NB = 4;

/**
 * Takes a flock(2) on a file and, if it is exclusive, writes the holder's `description` into it. The kernel releases the
 * lock when the process ends, however it ends, so there are no stale locks. Throws `FilesError` if the file cannot be
 * created, or its file system does not support locks.
 */
export function takeLock(path: string, description: string, mode: LockMode = "exclusive"): LockResult {
  try {
    return lockFile(path, description, mode);
  } catch (error) {
    const failure = toFilesError(path, error);
    if (failure.code !== "ELOOP") throw failure;
    // O_NOFOLLOW reports a symlink as ELOOP, too. It is refused: a planted symlink must not choose the file that we
    // write into.
    throw new FilesError("ELOOP", path, `${path} is a symlink; a lock file must not be one`, { cause: error });
  }
}

function lockFile(path: string, description: string, mode: LockMode): LockResult {
  const descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  const failure = flock(descriptor, mode);
  // Of the open file: its holder may remove the path at any time.
  const holder = failure === "EWOULDBLOCK" ? readFileSync(descriptor, "utf8").trim() : undefined;
  if (failure !== undefined) closeSync(descriptor);
  if (holder !== undefined) return { held: false, holder };
  if (failure !== undefined)
    throw new FilesError(failure, path, `${path} cannot be locked: ${failure === "ENOSYS" ? libcProblem() : failure}`);
  let isShared = false;
  const release = () => {
    // After close(2) alone, a child with the descriptor would keep the lock, such as a daemon that a plugin has started.
    if (isShared) flock(descriptor, "unlock");
    closeSync(descriptor);
  };
  const { nlink, size } = fstatSync(descriptor);
  if (nlink === 0) {
    // Race: its last holder has removed it between our open(2) and our flock(2). Other processes would lock another
    // file.
    release();
    return lockFile(path, description, mode);
  }
  try {
    // Only a file with content: ext4 writes a truncated file to the disk when it is closed (`auto_da_alloc`).
    if (size > 0) ftruncateSync(descriptor);
    if (mode === "exclusive") writeSync(descriptor, `${description}\n`, 0);
  } catch {
    // A full disk: the lock is held all the same; a second agent is refused without the holder's description.
  }
  const remove = () => {
    // Before the release, so that it is certainly our file.
    rmSync(path, { force: true });
    release();
  };
  const share = () => {
    isShared = true;
    return descriptor;
  };
  return { held: true, share, release, remove };
}

/** Bun may make a system call between ours and the read of errno, which overwrites it: flock(2) is then repeated. */
const MAX_TRIES = 3;

/**
 * Takes the lock, or releases it, by flock(2) without waiting. Returns the name of the error, `EWOULDBLOCK` if another
 * process holds it, and undefined for success.
 *
 * @internal
 */
export function flock(descriptor: number, operation: LockMode | "unlock" = "exclusive"): string | undefined {
  const { i32, ptr } = FFIType;
  const libc = openLibc({
    flock: { args: [i32, i32], returns: i32 },
    __errno_location: { args: [], returns: ptr },
  });
  if (libc === undefined) return "ENOSYS";
  try {
    let errno = 0;
    for (let tries = 0; tries < MAX_TRIES && errno !== ofSystem.errno.EWOULDBLOCK; tries++) {
      if (libc.symbols.flock(descriptor, OPERATIONS[operation] | LOCK_NB) === 0) return undefined;
      const errnoAddress = libc.symbols.__errno_location();
      errno = errnoAddress === null ? 0 : read.i32(errnoAddress, 0);
    }
    return errnoName(errno);
  } finally {
    libc.close();
  }
}

/** EAGAIN and EWOULDBLOCK are the same number. */
function errnoName(errno: number): string {
  if (errno === ofSystem.errno.EWOULDBLOCK) return "EWOULDBLOCK";
  return Object.entries(ofSystem.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
}
