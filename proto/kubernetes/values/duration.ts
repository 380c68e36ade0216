import { truncateText } from "../../truncate-text.ts";

/** A text is not a duration. */
export class DurationError extends Error {
  override readonly name = "DurationError";
}

const unitNanos: ReadonlyMap<string, bigint> = new Map([
  ["ns", 1n],
  ["us", 1_000n],
  ["µs", 1_000n],
  ["μs", 1_000n],
  ["ms", 1_000_000n],
  ["s", 1_000_000_000n],
  ["m", 60_000_000_000n],
  ["h", 3_600_000_000_000n],
]);

const nanosPerMs = 1_000_000n;

/** Go counts nanoseconds in an int64. */
const MAX_NANOS = 2n ** 63n - 1n;
const MAX_TEXT_LENGTH = 128;
/** Messages show the beginning of a longer text. */
const MAX_SHOWN_LENGTH = 40;

/**
 * Parses a duration as Go, flags, KubeletConfiguration and the API write it (`1h2m3.5s`, `300ms`, `-1.5h`, `0`) to
 * milliseconds. Microseconds and nanoseconds become fractions. Throws DurationError for anything else, including a
 * number without a unit and more than 292 years. Rule: Go, time.ParseDuration.
 */
export function parseDurationMs(text: string): number {
  const [, sign, rest = ""] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (rest === "0") return 0;
  if (rest === "" || rest.length > MAX_TEXT_LENGTH) throw durationError(text, "");
  const nanos = rest.split(/(?<=[^\d.])(?=[\d.])/).reduce((sum, term) => sum + parseTerm(text, term), 0n);
  if (nanos > MAX_NANOS) throw durationError(text, ": it is longer than 292 years");
  const ms = Number(nanos / nanosPerMs) + Number(nanos % nanosPerMs) / 1_000_000;
  return sign === "-" && ms !== 0 ? -ms : ms;
}

/** Parses one number with its unit, such as `3.5s`, to nanoseconds. */
function parseTerm(text: string, term: string): bigint {
  const [, integer = "", , fraction = "", unit = ""] = /^(\d*)(\.(\d*))?([^\d.]*)$/.exec(term) ?? [];
  if (integer === "" && fraction === "") throw durationError(text, "");
  const nanos = unitNanos.get(unit);
  if (nanos !== undefined) return (BigInt(integer + fraction) * nanos) / 10n ** BigInt(fraction.length);
  throw durationError(
    text,
    unit === "" ? ": it lacks a unit, such as s" : `: ${quote(unit)} is none of the units ns, us, ms, s, m, h`,
  );
}

/**
 * Formats milliseconds as Go formats a duration: `1h2m3.5s`, `1m0s`, `300ms`, `0s`. Rule: Go, Duration.String.
 *
 * @internal
 */
export function formatDuration(durationMs: number): string {
  const ms = Math.abs(durationMs);
  const nanos = BigInt(Math.trunc(ms)) * nanosPerMs + BigInt(Math.round((ms % 1) * 1_000_000));
  const sign = durationMs < 0 && nanos > 0n ? "-" : "";
  if (nanos === 0n) return "0s";
  if (nanos < 1_000n) return `${sign}${nanos}ns`;
  if (nanos < 1_000_000n) return `${sign}${decimal(nanos, 3)}µs`;
  if (nanos < 1_000_000_000n) return `${sign}${decimal(nanos, 6)}ms`;
  const minutes = nanos / 60_000_000_000n;
  const seconds = `${decimal(nanos % 60_000_000_000n, 9)}s`;
  if (minutes === 0n) return `${sign}${seconds}`;
  return minutes < 60n ? `${sign}${minutes}m${seconds}` : `${sign}${minutes / 60n}h${minutes % 60n}m${seconds}`;
}

/** As `formatDuration`, in whole milliseconds; `0s` for a negative duration. */
export function formatElapsed(durationMs: number): string {
  return formatDuration(Math.max(0, Math.trunc(durationMs)));
}

/** The value divided by 10 ^ places, without trailing zeros. */
function decimal(value: bigint, places: number): string {
  const digits = value.toString().padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "");
}

function durationError(text: string, problem: string): DurationError {
  return new DurationError(`${quote(text)} is not a duration such as 1m30s or 500ms${problem}`);
}

function quote(text: string): string {
  return JSON.stringify(truncateText(text, MAX_SHOWN_LENGTH));
}
