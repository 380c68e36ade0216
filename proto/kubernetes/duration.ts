/** A text that is no duration. */
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
const longestNanos = 2n ** 63n - 1n;
const longestText = 128;

/**
 * Milliseconds of a duration as Go writes it, and as flags, KubeletConfiguration and the API use it: `1h2m3.5s`, `300ms`,
 * `-1.5h`, `0`. Microseconds and nanoseconds come back as fractions of a millisecond. Throws DurationError for everything
 * else, a number without a unit included, and for more than 292 years. Rule: Go, time.ParseDuration.
 */
export function parseDurationMs(text: string): number {
  const [, sign, rest = ""] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (rest === "0") return 0;
  if (rest === "" || rest.length > longestText) throw notADuration(text, "");
  const nanos = rest.split(/(?<=[^\d.])(?=[\d.])/).reduce((sum, term) => sum + readTerm(text, term), 0n);
  if (nanos > longestNanos) throw notADuration(text, ": it is longer than 292 years");
  const ms = Number(nanos / nanosPerMs) + Number(nanos % nanosPerMs) / 1_000_000;
  return sign === "-" && ms !== 0 ? -ms : ms;
}

/** Nanoseconds of one number with its unit, such as `3.5s`. */
function readTerm(text: string, term: string): bigint {
  const [, whole = "", , fraction = "", unit = ""] = /^(\d*)(\.(\d*))?([^\d.]*)$/.exec(term) ?? [];
  if (whole === "" && fraction === "") throw notADuration(text, "");
  const nanos = unitNanos.get(unit);
  if (nanos !== undefined) return (BigInt(whole + fraction) * nanos) / 10n ** BigInt(fraction.length);
  throw notADuration(
    text,
    unit === "" ? ": it lacks a unit, such as s" : `: ${quote(unit)} is none of the units ns, us, ms, s, m, h`,
  );
}

/** Milliseconds as Go writes a duration: `1h2m3.5s`, `1m0s`, `300ms`, `0s`. Rule: Go, Duration.String. */
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

/** The number divided by 10 ^ places, without closing zeros. */
function decimal(value: bigint, places: number): string {
  const digits = value.toString().padStart(places + 1, "0");
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`.replace(/\.?0+$/, "");
}

function notADuration(text: string, problem: string): DurationError {
  return new DurationError(`${quote(text)} is not a duration such as 1m30s or 500ms${problem}`);
}

function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text);
}
