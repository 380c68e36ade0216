import type { LogTime } from "./log-options.ts";

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
const ZERO = 48;
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

/** The bytes of `2026-01-02T03:04:05`. */
const SECOND_BYTES = 19;

/** Reads times as Go's `time.Parse` with RFC3339Nano does; a fraction may be of any length, of which nine digits count. */
function createTimeReader() {
  /** The last valid time to its second: neighbouring lines are mostly of the same one. */
  const known = new Uint8Array(SECOND_BYTES);
  /** Seconds since the epoch of `known`, read as UTC. */
  let knownSeconds = Number.NaN;
  let nanos = 0;
  /** The offset as written, such as `+02:00`; of length 0 for UTC. */
  const zone = new Uint8Array(6);
  let zoneLength = 0;
  let offsetSeconds = 0;

  function readSecond(bytes: Uint8Array, start: number): boolean {
    let index = SECOND_BYTES - 1;
    while (index >= 0 && bytes[start + index] === known[index]) index--;
    if (index < 0) return true;
    const seconds = secondsOf(bytes, start);
    if (Number.isNaN(seconds)) return false;
    for (index = 0; index < SECOND_BYTES; index++) known[index] = bytes[start + index] ?? 0;
    knownSeconds = seconds;
    return true;
  }

  /** Returns where the fraction ends. */
  function readFraction(bytes: Uint8Array, start: number, end: number): number {
    nanos = 0;
    const separator = bytes[start];
    // Go takes a comma, too.
    if (separator !== 46 && separator !== 44) return start;
    let at = start + 1;
    let weight = 100_000_000;
    for (; at < end; at++) {
      const digit = (bytes[at] ?? 0) - ZERO;
      if (digit < 0 || digit > 9) break;
      nanos += digit * weight;
      weight = Math.floor(weight / 10);
    }
    return at === start + 1 ? -1 : at;
  }

  function readZone(bytes: Uint8Array, start: number, end: number): boolean {
    zoneLength = 0;
    offsetSeconds = 0;
    if (end - start === 1) return bytes[start] === 90;
    const sign = bytes[start];
    if (end - start !== 6 || (sign !== 43 && sign !== 45) || bytes[start + 3] !== COLON) return false;
    const [hours, minutes] = [twoDigits(bytes, start + 1), twoDigits(bytes, start + 4)];
    // `>=` is false of NaN.
    if (!(hours <= 24 && minutes <= 60)) return false;
    offsetSeconds = (sign === 45 ? -1 : 1) * (hours * 60 + minutes) * 60;
    if (offsetSeconds === 0) return true;
    zoneLength = 6;
    for (let index = 0; index < 6; index++) zone[index] = bytes[start + index] ?? 0;
    return true;
  }

  return {
    read(bytes: Uint8Array, start: number, end: number): boolean {
      if (end - start <= SECOND_BYTES || !readSecond(bytes, start)) return false;
      const fractionEnd = readFraction(bytes, start + SECOND_BYTES, end);
      return fractionEnd >= 0 && readZone(bytes, fractionEnd, end);
    },
    isBefore(time: LogTime): boolean {
      const seconds = knownSeconds - offsetSeconds;
      return seconds < time.seconds || (seconds === time.seconds && nanos < time.nanos);
    },
    write(into: Uint8Array, at: number): number {
      into.set(known, at);
      let end = at + SECOND_BYTES;
      into[end++] = 46;
      for (let weight = 100_000_000; weight >= 1; weight /= 10) into[end++] = ZERO + (Math.floor(nanos / weight) % 10);
      if (zoneLength === 0) into[end++] = 90;
      for (let index = 0; index < zoneLength; index++) into[end++] = zone[index] ?? 0;
      into[end++] = SPACE;
      return end;
    },
  };
}

function twoDigits(bytes: Uint8Array, at: number): number {
  const [tens, ones] = [(bytes[at] ?? 0) - ZERO, (bytes[at + 1] ?? 0) - ZERO];
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : Number.NaN;
}

/** Seconds since the epoch of `2026-01-02T03:04:05` in UTC; NaN for a time that does not exist. */
function secondsOf(bytes: Uint8Array, at: number): number {
  const year = twoDigits(bytes, at) * 100 + twoDigits(bytes, at + 2);
  const [month, day] = [twoDigits(bytes, at + 5), twoDigits(bytes, at + 8)];
  const [hour, minute, second] = [twoDigits(bytes, at + 11), twoDigits(bytes, at + 14), twoDigits(bytes, at + 17)];
  const isSeparated =
    bytes[at + 4] === 45 &&
    bytes[at + 7] === 45 &&
    bytes[at + 10] === 84 &&
    bytes[at + 13] === 58 &&
    bytes[at + 16] === 58;
  // Comparisons with NaN are false.
  const isInRange = year >= 0 && month >= 1 && day >= 1 && hour <= 23 && minute <= 59 && second <= 59;
  if (!isSeparated || !isInRange) return Number.NaN;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  return date.getUTCMonth() === month - 1 && date.getUTCDate() === day ? date.getTime() / 1000 : Number.NaN;
}
