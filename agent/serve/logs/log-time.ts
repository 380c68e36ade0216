import type { LogTime } from "./log-options.ts";

const SPACE = 32;
const ZERO = 48;
const COLON = 58;

/** The bytes of `2026-01-02T03:04:05`. */
const SECOND_BYTES = 19;

/** Reads the times of log lines, and writes them. It makes no object for a line, because a log has millions. */
interface TimeReader {
  /** Whether the bytes from `start` to `end` are a time. The functions below are about the last one that was. */
  read(bytes: Uint8Array, start: number, end: number): boolean;
  isBefore(time: LogTime): boolean;
  /** Writes the time with nine digits and a space behind it; returns the position after it. */
  write(into: Uint8Array, at: number): number;
}

/** Reads times as Go's `time.Parse` with RFC3339Nano does; a fraction may be of any length, of which nine digits count. */
export function createTimeReader(): TimeReader {
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
    read(bytes, start, end) {
      if (end - start <= SECOND_BYTES || !readSecond(bytes, start)) return false;
      const fractionEnd = readFraction(bytes, start + SECOND_BYTES, end);
      return fractionEnd >= 0 && readZone(bytes, fractionEnd, end);
    },
    isBefore(time) {
      const seconds = knownSeconds - offsetSeconds;
      return seconds < time.seconds || (seconds === time.seconds && nanos < time.nanos);
    },
    write(into, at) {
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
