import type { LogTime } from "./log-options.ts";
import { createTimeReader } from "./log-time.ts";

/** No runtime writes a longer header: the time has 35 bytes at most, and the only tags are `P` and `F`. */
export const MAX_HEADER_BYTES = 256;

/** `read` returns it if the header may continue behind the end of the bytes. */
export const INCOMPLETE = -1;
/** `read` returns it for a line that is not in CRI's format. */
export const BROKEN = -2;

/**
 * Reads the headers of lines of a log in CRI's format: `<RFC3339Nano> <stdout|stderr> <tags> `. It makes no object for a
 * line, because a log has millions.
 */
export interface CriLogHeader {
  /**
   * Reads the header that begins at `start`. Returns where the message begins; `INCOMPLETE` if the header may continue
   * behind `end`; `BROKEN` for a line that is not in this format. The fields below belong to the last header.
   */
  read(bytes: Uint8Array, start: number, end: number): number;
  isStderr(): boolean;
  /** Whether the line of the container continues in the next line of the log. */
  isPartial(): boolean;
  isBefore(time: LogTime): boolean;
  /** Writes the time with nine digits and a space behind it; returns the position after it. */
  writeTime(into: Uint8Array, at: number): number;
}

const NEWLINE = 10;
const SPACE = 32;
const codes = (text: string) => new TextEncoder().encode(text);
const STDOUT = codes("stdout ");
const STDERR = codes("stderr ");
const PARTIAL = "P".charCodeAt(0);
const COLON = ":".charCodeAt(0);

export function createCriLogHeader(): CriLogHeader {
  const time = createTimeReader();
  let isStderr = false;
  let isPartial = false;

  return {
    read(bytes, start, end) {
      const limit = Math.min(end, start + MAX_HEADER_BYTES);
      const tooLong = limit < end || end - start >= MAX_HEADER_BYTES ? BROKEN : INCOMPLETE;
      const timeEnd = findSpace(bytes, start, limit);
      if (timeEnd < 0) return timeEnd === BROKEN ? BROKEN : tooLong;
      if (!time.read(bytes, start, timeEnd)) return BROKEN;
      const streamEnd = findSpace(bytes, timeEnd + 1, limit);
      if (streamEnd < 0) return streamEnd === BROKEN ? BROKEN : tooLong;
      isStderr = startsWith(bytes, timeEnd + 1, streamEnd, STDERR);
      if (!isStderr && !startsWith(bytes, timeEnd + 1, streamEnd, STDOUT)) return BROKEN;
      const tagsEnd = findSpace(bytes, streamEnd + 1, limit);
      if (tagsEnd < 0) return tagsEnd === BROKEN ? BROKEN : tooLong;
      // Only the first tag counts; those of a later format are ignored.
      isPartial = bytes[streamEnd + 1] === PARTIAL && (tagsEnd === streamEnd + 2 || bytes[streamEnd + 2] === COLON);
      return tagsEnd + 1;
    },
    isStderr: () => isStderr,
    isPartial: () => isPartial,
    isBefore: time.isBefore,
    writeTime: time.write,
  };
}

/** Where the next space is; `BROKEN` if the line ends before, `INCOMPLETE` if the bytes do. */
function findSpace(bytes: Uint8Array, start: number, limit: number): number {
  for (let at = start; at < limit; at++) {
    const byte = bytes[at];
    if (byte === SPACE) return at;
    if (byte === NEWLINE) return BROKEN;
  }
  return INCOMPLETE;
}

/** Whether the field from `start` to the space at `end` is this word, which has its space behind it. */
function startsWith(bytes: Uint8Array, start: number, end: number, word: Uint8Array): boolean {
  if (end - start + 1 !== word.length) return false;
  for (let index = 0; index < word.length; index++) if (bytes[start + index] !== word[index]) return false;
  return true;
}
