import type { MicroTime, Time } from "../gen/types.ts";

/** A text is not an RFC 3339 time. */
export class TimeError extends Error {
  override readonly name = "TimeError";
}

const rfc3339 = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;
const minuteMs = 60_000;

/**
 * Parses a time such as `2026-01-02T03:04:05Z`, `…05.123456789Z` or `…05+02:00` to milliseconds since 1970, truncated.
 * Throws TimeError for anything else, including days and hours that do not exist.
 */
export function parseTime(text: Time | MicroTime): number {
  const parts = rfc3339.exec(text);
  if (parts === null)
    throw new TimeError(`${JSON.stringify(text.slice(0, 40))} is not a time such as 2026-01-02T03:04:05Z`);
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1, 7).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, Number((parts[7] ?? "").slice(0, 3).padEnd(3, "0")));
  const [offsetHours, offsetMinutes] = [Number(parts[9] ?? 0), Number(parts[10] ?? 0)];
  const isReal =
    date.getUTCMonth() === month - 1 && date.getUTCDate() === day && hour < 24 && minute < 60 && second < 60;
  if (!isReal || offsetHours > 23 || offsetMinutes > 59)
    throw new TimeError(`${JSON.stringify(text)} is a time that does not exist`);
  const offset = (offsetHours * 60 + offsetMinutes) * minuteMs;
  return date.getTime() + (parts[8] === "-" ? offset : -offset);
}

/** Formats the API's `Time`: whole seconds in UTC, truncated, such as `2026-01-02T03:04:05Z`. */
export function formatTime(epochMs: number): Time {
  return `${new Date(epochMs).toISOString().slice(0, -5)}Z`;
}

/** Formats the API's `MicroTime`: always six digits after the second, such as `2026-01-02T03:04:05.678000Z`. */
export function formatMicroTime(epochMs: number): MicroTime {
  const text = new Date(Math.floor(epochMs)).toISOString().slice(0, -1);
  return `${text}${String(Math.floor((epochMs - Math.floor(epochMs)) * 1000)).padStart(3, "0")}Z`;
}

/** Formats the annotation `kubernetes.io/config.seen`: RFC 3339 with a fraction, without trailing zeros. */
export function formatNanoTime(epochMs: number): string {
  return formatMicroTime(epochMs).replace(/\.?0*Z$/, "Z");
}
