import { dlopen, FFIType } from "bun:ffi";
import { closeSync, constants, ftruncateSync, openSync, readFileSync, writeSync } from "node:fs";
import { FilesError, toFilesError } from "./files.ts";

/** What became of the wish to be the only one: the lock, or whoever has it. */
export type LockResult =
  | { readonly held: true; readonly release: () => void }
  /** What the holder wrote into the file about itself. */
  | { readonly held: false; readonly holder: string };

const LOCK_EX = 2;
const LOCK_NB = 4;

/**
 * Takes an exclusive flock(2) on a file and writes into it who we are. The kernel gives it back when the process ends,
 * however it ends, so there are no stale locks to judge. Throws `FilesError` where there can be no such file.
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
  const libc = dlopen("libc.so.6", { flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 } });
  if (libc.symbols.flock(descriptor, LOCK_EX | LOCK_NB) !== 0) {
    closeSync(descriptor);
    return { held: false, holder: readFileSync(path, "utf8").trim() };
  }
  libc.close();
  ftruncateSync(descriptor);
  writeSync(descriptor, `${self}\n`, 0);
  return { held: true, release: () => closeSync(descriptor) };
}
