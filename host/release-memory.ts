import { FFIType } from "bun:ffi";
import { readFileSync, readlinkSync } from "node:fs";
import { openLibc } from "./libc.ts";

/**
 * Creates a function that returns unused memory to the kernel by a full garbage collection (about 15 ms of CPU). Its
 * first call, after the start, also releases pages of the program; later calls do not, since the next pod start would
 * need those pages again.
 */
export function createReleaseMemory(): () => void {
  let hasReleasedProgram = false;
  return () => {
    Bun.gc(true);
    Bun.shrink();
    if (!hasReleasedProgram) releaseProgramPages();
    hasReleasedProgram = true;
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
 * Releases the resident pages of the program file itself. About 20 MB were needed by the start only and then no longer
 * count as our memory; the others come back from the page cache at their first use. Never throws: on failure the pages
 * stay.
 */
export function releaseProgramPages(): void {
  try {
    const ranges = unchangedMappings(readFileSync("/proc/self/smaps", "utf8"), readlinkSync("/proc/self/exe"));
    const { u64, i32 } = FFIType;
    const libc = openLibc({ madvise: { args: [u64, u64, i32], returns: i32 } });
    for (const { address, length } of ranges) libc?.symbols.madvise(address, length, MADV_DONTNEED);
    libc?.close();
  } catch {
    // A sandbox may hide /proc.
  }
}

/** The read-only mappings of `file` in the text of /proc/PID/smaps that have no private (changed) pages. */
export function unchangedMappings(smaps: string, file: string): readonly MemoryRange[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap((part) => {
    const [, start = "", end = "", access = "", path] =
      /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ +(.*)$/m.exec(part) ?? [];
    const isUnchanged = path === file && !access.includes("w") && /^Anonymous:\s+0 kB$/m.test(part);
    const address = Number.parseInt(start, 16);
    return isUnchanged ? [{ address, length: Number.parseInt(end, 16) - address }] : [];
  });
}
