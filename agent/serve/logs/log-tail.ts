import type { ReadableFile } from "../../../host/fs/readable-file.ts";

const NEWLINE = 10;

/**
 * Returns where the last `lines` lines of a file begin. A last line without an end does not count as one. Reads the file
 * backwards, a block at a time. Rule: cri-client findTailLineStartIndex.
 */
export async function findTailStart(file: ReadableFile, lines: number, block: Buffer): Promise<number> {
  let newlines = 0;
  for (let right = await file.sizeBytes(); right > 0; ) {
    const left = Math.max(0, right - block.length);
    // A file that was truncated meanwhile has fewer bytes.
    const length = Math.min(await file.read(block.subarray(0, right - left), left), right - left);
    for (let at = lastNewline(block, length); at >= 0; at = lastNewline(block, at)) {
      newlines++;
      if (newlines > lines) return left + at + 1;
    }
    right = left;
  }
  return 0;
}

/** The position of the last newline before `end`, or -1. */
const lastNewline = (block: Buffer, end: number) => (end === 0 ? -1 : block.lastIndexOf(NEWLINE, end - 1));
