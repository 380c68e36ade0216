import { FFIType } from "bun:ffi";
import { readFileSync, readlinkSync } from "node:fs";
import { openLibc } from "./libc.ts";

/** Where a part of this process's memory begins, and how long it is. */
export interface Pages {
  readonly address: number;
  readonly length: number;
}

/** The kernel's MADV_DONTNEED: what is asked for again is there again, from the file. */
const DONT_NEED = 4;

/**
 * Lets go of the pages of the program itself: those that only its start needed, some 20 MB, then count for no process, and the
 * others are there again, from the kernel's cache, at their first use. Never throws: where it cannot be done, nothing is lost.
 */
export function letGoOfProgram(): void {
  try {
    const all = pagesOf(readFileSync("/proc/self/smaps", "utf8"), readlinkSync("/proc/self/exe"));
    const { u64, i32 } = FFIType;
    const libc = openLibc({ madvise: { args: [u64, u64, i32], returns: i32 } });
    for (const { address, length } of all) libc?.symbols.madvise(address, length, DONT_NEED);
    libc?.close();
  } catch {
    // A sandbox may hide /proc: the pages stay.
  }
}

/**
 * The parts of a process's memory that are `file`, word for word, as /proc/PID/smaps shows them: nobody can write to them, and nothing
 * of them differs from the file.
 */
export function pagesOf(smaps: string, file: string): readonly Pages[] {
  return smaps.split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m).flatMap((part) => {
    const [, from = "", until = "", access = "", path] =
      /^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ +(.*)$/m.exec(part) ?? [];
    const isAsInFile = path === file && !access.includes("w") && /^Anonymous:\s+0 kB$/m.test(part);
    const address = Number.parseInt(from, 16);
    return isAsInFile ? [{ address, length: Number.parseInt(until, 16) - address }] : [];
  });
}
