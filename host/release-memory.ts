import { FFIType } from "bun:ffi";
import { readFileSync, readlinkSync } from "node:fs";
import { openLibc } from "./libc.ts";

/**
 * Creates a function that returns unused memory to the kernel: the garbage by a full collection (about 15 ms of CPU), and
 * the resident pages of the program file. These come back from the page cache at their next use, in some milliseconds
 * for all that a pod start needs, and meanwhile do not count as our memory.
 */
export function createReleaseMemory(): () => void {
  let releaseProgramPages: (() => void) | undefined;
  return () => {
    Bun.gc(true);
    Bun.shrink();
    releaseProgramPages ??= createProgramPageRelease();
    releaseProgramPages();
  };
}

/** A memory mapping of this process: its address and length in bytes. */
export interface MemoryRange {
  readonly address: number;
  readonly length: number;
}

/** MADV_DONTNEED: a released page is read from the file again at its next use. */
const MADV_DONTNEED = 4;

/**
 * Creates a function that releases the resident pages of the program file itself. The mappings are read once, since that
 * takes 6 ms and they last as long as the process. Never throws: on failure the pages stay.
 *
 * @internal
 */
export function createProgramPageRelease(): () => void {
  try {
    const ranges = unchangedMappings(readFileSync("/proc/self/smaps", "utf8"), readlinkSync("/proc/self/exe"));
    const { u64, i32 } = FFIType;
    const libc = openLibc({ madvise: { args: [u64, u64, i32], returns: i32 } });
    return () => {
      for (const { address, length } of ranges) libc?.symbols.madvise(address, length, MADV_DONTNEED);
    };
  } catch {
    // A sandbox may hide /proc.
    return () => {};
  }
}

/**
 * The read-only mappings of `file` in the text of /proc/PID/smaps that have no private (changed) pages.
 *
 * @internal
 */
export function unchangedMappings(smaps: string, file: string): readonly MemoryRange[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap((part) => {
    const [, start = "", end = "", access = "", path] =
      /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ +(.*)$/m.exec(part) ?? [];
    const isUnchanged = path === file && !access.includes("w") && /^Anonymous:\s+0 kB$/m.test(part);
    const address = Number.parseInt(start, 16);
    return isUnchanged ? [{ address, length: Number.parseInt(end, 16) - address }] : [];
  });
}
