import { FFIType, read } from "bun:ffi";
import { constants as ofSystem } from "node:os";
import { libcProblem, openLibc } from "../libc.ts";

/** mount(2), umount2(2) and openat2(2). Each returns the name of the kernel's error if it fails. */
export interface MountCalls {
  mount(input: MountInput): string | undefined;
  umount(path: string, flags: number): string | undefined;
  /** Returns the file descriptor, which no child process gets. */
  openat2(input: OpenInput): number | string;
}

interface MountInput {
  readonly source: string;
  readonly target: string;
  readonly fsType: string;
  readonly flags: number;
  /** The file system's own options, separated by commas. */
  readonly options: string;
}

interface OpenInput {
  /** The open folder that the path is relative to. */
  readonly folder: number;
  readonly path: string;
  readonly flags: number;
  /** How the path is resolved: `RESOLVE_…`. */
  readonly resolve: number;
}

/** The number of openat2(2), for which glibc has no function; the same on x86-64 and arm64, as the flag is. */
const SYS_OPENAT2 = 437n;
const O_CLOEXEC = 0o2000000;

/** Throws `Error` with the code `ENOSYS` where the C library cannot be used. */
export function createMountCalls(): MountCalls {
  // Opened on first use, since the compilation of the functions takes a millisecond, and kept for the next mounts.
  let opened: ReturnType<typeof openSymbols> | undefined;
  const symbols = () => {
    opened ??= openSymbols();
    return opened;
  };
  const errnoOf = () => {
    const address = symbols().__errno_location();
    return address === null ? 0 : read.i32(address, 0);
  };
  return {
    mount: ({ source, target, fsType, flags, options }) =>
      callUntilSure(
        () =>
          symbols().mount(toCString(source), toCString(target), toCString(fsType), BigInt(flags), toCString(options)),
        errnoOf,
      ),
    umount: (path, flags) => callUntilSure(() => symbols().umount2(toCString(path), flags), errnoOf),
    openat2({ folder, path, flags, resolve }) {
      // struct open_how: flags, mode, resolve.
      const how = new BigUint64Array([BigInt(flags | O_CLOEXEC), 0n, BigInt(resolve)]);
      let descriptor = -1;
      const call = () => {
        descriptor = Number(
          symbols().syscall(SYS_OPENAT2, BigInt(folder), toCString(path), how, BigInt(how.byteLength)),
        );
        return descriptor;
      };
      return callUntilSure(call, errnoOf) ?? descriptor;
    },
  };
}

function openSymbols() {
  const { i32, i64, u64, ptr } = FFIType;
  const libc = openLibc({
    mount: { args: [ptr, ptr, ptr, u64, ptr], returns: i32 },
    umount2: { args: [ptr, i32], returns: i32 },
    syscall: { args: [i64, i64, ptr, ptr, u64], returns: i64 },
    __errno_location: { args: [], returns: ptr },
  });
  if (libc === undefined) throw Object.assign(new Error(libcProblem()), { code: "ENOSYS" });
  return libc.symbols;
}

const MAX_TRIES = 4;

/**
 * Bun may make a system call between ours and the read of errno, which overwrites it. A call that has failed has changed
 * nothing, so it is repeated until it succeeds, or fails twice for the same reason.
 */
function callUntilSure(call: () => number, errnoOf: () => number): string | undefined {
  let last = 0;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    if (call() >= 0) return undefined;
    const errno = errnoOf();
    if (errno === last) break;
    last = errno;
  }
  return Object.entries(ofSystem.errno).find(([, number]) => number === last)?.[0] ?? `errno ${last}`;
}

const toCString = (text: string) => Buffer.from(`${text}\0`);
