import { FFIType, read } from "bun:ffi";
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeSync,
} from "node:fs";
import { constants as ofSystem } from "node:os";
import { basename, dirname, join } from "node:path/posix";
import { FilesError, toFilesError } from "./fs/files.ts";
import { NO_LIBC, openLibc } from "./libc.ts";

/** What became of the wish to be the only one: the lock, or whoever has it. */
export type LockResult =
  | {
      readonly held: true;
      readonly release: () => void;
      /** As release, and the file goes too: for locks of things that come and go. */
      readonly remove: () => void;
    }
  /** What the holder wrote into the file about itself. */
  | { readonly held: false; readonly holder: string };

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Takes an exclusive flock(2) on a file and writes into it who we are. The kernel gives it back when the process ends,
 * however it ends, so there are no stale locks to judge. Throws `FilesError` where there can be no such file, or
 * none that can be locked: a file system without locks has nobody who holds one.
 */
export function takeLock(path: string, self: string): LockResult {
  try {
    return lockFile(path, self);
  } catch (error) {
    const failure = toFilesError(path, error);
    if (failure.code !== "ELOOP") throw failure;
    // O_NOFOLLOW says it with the same code as a loop: whoever may place a link must not choose the file that we write into.
    throw new FilesError("ELOOP", path, `${path} is a symlink, and no lock is taken through one`, { cause: error });
  }
}

function lockFile(path: string, self: string): LockResult {
  const descriptor = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  const failure = flock(descriptor);
  if (failure !== undefined) closeSync(descriptor);
  if (failure === "EWOULDBLOCK") return { held: false, holder: readFileSync(path, "utf8").trim() };
  if (failure !== undefined)
    throw new FilesError(failure, path, `${path} cannot be locked: ${failure === "ENOSYS" ? NO_LIBC : failure}`);
  const release = () => closeSync(descriptor);
  if (fstatSync(descriptor).nlink === 0) {
    // Its last holder has removed it between our open(2) and our flock(2): nobody else would find the file that we have.
    release();
    return lockFile(path, self);
  }
  try {
    ftruncateSync(descriptor);
    writeSync(descriptor, `${self}\n`, 0);
  } catch {
    // A full disk: the lock holds all the same, and the next agent is refused without a name.
  }
  const remove = () => {
    // While we hold it, so that it is our file and nobody else's.
    rmSync(path, { force: true });
    release();
  };
  return { held: true, release, remove };
}

/** The engine may make a call of its own between ours and the look at what ours has failed with: it is asked again what it was. */
const MOST_TRIES = 3;

/** Takes the lock by flock(2), without waiting. Returns the name of the error, `EWOULDBLOCK` where another one has it. */
export function flock(descriptor: number): string | undefined {
  const { i32, ptr } = FFIType;
  const libc = openLibc({
    flock: { args: [i32, i32], returns: i32 },
    __errno_location: { args: [], returns: ptr },
  });
  if (libc === undefined) return "ENOSYS";
  try {
    let errno = 0;
    for (let tries = 0; tries < MOST_TRIES && errno !== ofSystem.errno.EWOULDBLOCK; tries++) {
      if (libc.symbols.flock(descriptor, LOCK_EX | LOCK_NB) === 0) return undefined;
      const place = libc.symbols.__errno_location();
      errno = place === null ? 0 : read.i32(place, 0);
    }
    return nameOf(errno);
  } finally {
    libc.close();
  }
}

/** EAGAIN and EWOULDBLOCK are one number. */
function nameOf(errno: number): string {
  if (errno === ofSystem.errno.EWOULDBLOCK) return "EWOULDBLOCK";
  return Object.entries(ofSystem.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
}

/** The same path for whatever links lead to it, also where the last parts of it are not there yet. */
export function realPathAhead(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    if (path === "/") throw error;
    // What cannot be followed stays as it is written; that also holds for a loop, which is nobody's path.
    return join(realPathAhead(dirname(path)), basename(path));
  }
}
