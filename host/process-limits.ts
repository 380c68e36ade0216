import { FFIType, read } from "bun:ffi";
import { writeFileSync } from "node:fs";
import { constants as ofSystem } from "node:os";
import { FilesError, toFilesError } from "./fs/files.ts";
import { libcProblem, openLibc } from "./libc.ts";

/** The limits that the kernel applies to this process, and to the programs that it starts from then on. */
export interface ProcessLimits {
  /** Which processes the OOM killer ends first: from -1000, never, to 1000. Throws `FilesError`. */
  setOomScoreAdj(score: number): void;
  /** How many files may be open; the process cannot raise it again without CAP_SYS_RESOURCE. Throws `FilesError`. */
  setMaxOpenFiles(count: number): void;
}

/** RLIMIT_NOFILE of Linux on x86-64 and arm64. */
const RLIMIT_NOFILE = 7;
const OOM_SCORE_ADJ = "/proc/self/oom_score_adj";

export function createProcessLimits(): ProcessLimits {
  return {
    setOomScoreAdj(score) {
      try {
        writeFileSync(OOM_SCORE_ADJ, String(score));
      } catch (error) {
        throw toFilesError(OOM_SCORE_ADJ, error);
      }
    },
    setMaxOpenFiles(count) {
      const failure = setrlimit(count);
      if (failure === undefined) return;
      const why = failure === "ENOSYS" ? libcProblem() : failure;
      throw new FilesError(failure, "RLIMIT_NOFILE", `RLIMIT_NOFILE cannot be set to ${count}: ${why}`);
    },
  };
}

/** setrlimit(2) of both the soft and the hard limit. Returns the name of the error. */
function setrlimit(count: number): string | undefined {
  const libc = openLibc({
    setrlimit: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
    __errno_location: { args: [], returns: FFIType.ptr },
  });
  if (libc === undefined) return "ENOSYS";
  try {
    // struct rlimit: rlim_cur, rlim_max.
    const limits = new BigUint64Array([BigInt(count), BigInt(count)]);
    if (libc.symbols.setrlimit(RLIMIT_NOFILE, limits) === 0) return undefined;
    const address = libc.symbols.__errno_location();
    const errno = address === null ? 0 : read.i32(address, 0);
    return Object.entries(ofSystem.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
  } finally {
    libc.close();
  }
}
