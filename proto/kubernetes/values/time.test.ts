import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { formatMicroTime, formatNanoTime, formatTime, parseTime, TimeError } from "./time.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
// A busy machine needs ten times the usual millisecond for an input.
const timeoutMs = 5_000 + 10 * numRuns;
const noon = Date.UTC(2026, 0, 2, 12, 0, 0);

describe("parseTime accepts every form of RFC 3339:", () => {
  const rows: readonly (readonly [text: string, epochMs: number])[] = [
    ["2026-01-02T12:00:00Z", noon],
    ["2026-01-02T12:00:00.5Z", noon + 500],
    ["2026-01-02T12:00:00.123456789Z", noon + 123],
    ["2026-01-02T12:00:00.000001Z", noon],
    ["2026-01-02T14:00:00+02:00", noon],
    ["2026-01-02T06:30:00-05:30", noon],
    ["2026-01-02T12:00:00+00:00", noon],
    ["1970-01-01T00:00:00Z", 0],
    ["0001-01-01T00:00:00Z", -62_135_596_800_000],
    ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
    ["9999-12-31T23:59:59Z", Date.UTC(9999, 11, 31, 23, 59, 59)],
  ];
  for (const [text, epochMs] of rows)
    test(text, () => {
      expect(parseTime(text)).toBe(epochMs);
    });
});

describe("parseTime rejects everything else:", () => {
  const rows = [
    "",
    "now",
    "2026-01-02",
    "2026-01-02 12:00:00Z",
    "2026-01-02t12:00:00z",
    "2026-01-02T12:00:00",
    "2026-01-02T12:00Z",
    "2026-01-02T12:00:00.Z",
    "2026-01-02T12:00:00+0200",
    "2026-01-02T12:00:00+24:00",
    "2026-1-2T12:00:00Z",
    "2026-13-02T12:00:00Z",
    "2026-00-02T12:00:00Z",
    "2026-02-30T12:00:00Z",
    "2025-02-29T12:00:00Z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T12:60:00Z",
    "2026-01-02T12:00:60Z",
    "2026-01-02T12:00:00Z\n",
  ];
  for (const text of rows)
    test(JSON.stringify(text), () => {
      expect(() => parseTime(text)).toThrow(TimeError);
    });
});

test("a Time has whole seconds, a MicroTime six digits, config.seen as many as needed", () => {
  expect(formatTime(noon + 999)).toBe("2026-01-02T12:00:00Z");
  expect(formatMicroTime(noon + 999)).toBe("2026-01-02T12:00:00.999000Z");
  expect(formatMicroTime(noon + 0.25)).toBe("2026-01-02T12:00:00.000250Z");
  expect(formatNanoTime(noon)).toBe("2026-01-02T12:00:00Z");
  expect(formatNanoTime(noon + 120)).toBe("2026-01-02T12:00:00.12Z");
});

test(
  "a formatted time parses to itself, in the years 0 to 9999",
  () => {
    const moment = fc.integer({ min: Date.UTC(0, 0, 1) - 1900 * 365 * 86_400_000, max: Date.UTC(9999, 11, 31) });
    fc.assert(
      fc.property(moment, (epochMs) => {
        expect(parseTime(formatMicroTime(epochMs))).toBe(epochMs);
        expect(parseTime(formatNanoTime(epochMs))).toBe(epochMs);
        expect(parseTime(formatTime(epochMs))).toBe(Math.floor(epochMs / 1000) * 1000);
      }),
      { numRuns },
    );
  },
  timeoutMs,
);

test(
  "any text parses or throws a TimeError",
  () => {
    const nearly = fc.stringMatching(
      /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$/,
    );
    /** A time with at most one other character. */
    const mutated = fc
      .tuple(fc.nat(), fc.constantFrom("Z", "+02:00", "-23:59"), fc.nat(40), fc.constantFrom(..."0129-:TZ."))
      .map(([epochMs, offset, at, character]) => {
        const text = formatMicroTime(epochMs).replace("Z", offset);
        return text.slice(0, at) + (at < text.length ? character : "") + text.slice(at + 1);
      });
    let parsed = 0;
    fc.assert(
      fc.property(fc.oneof(fc.string(), nearly, { weight: 3, arbitrary: mutated }), (text) => {
        try {
          const epochMs = parseTime(text);
          expect(Number.isSafeInteger(epochMs)).toBe(true);
          parsed += 1;
        } catch (error) {
          expect(error).toBeInstanceOf(TimeError);
        }
      }),
      { numRuns },
    );
    expect(parsed).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  timeoutMs,
);
