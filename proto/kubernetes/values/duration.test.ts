import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { DurationError, formatDuration, formatElapsed, parseDurationMs } from "./duration.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
// A busy machine needs ten times the usual millisecond for an input.
const timeoutMs = 5_000 + 10 * numRuns;

describe("parseDurationMs reads what Go reads:", () => {
  const rows: readonly (readonly [text: string, ms: number])[] = [
    ["0", 0],
    ["-0", 0],
    ["0s", 0],
    ["10s", 10_000],
    ["1h2m3.5s", 3_723_500],
    ["300ms", 300],
    ["1.5h", 5_400_000],
    ["-1.5h", -5_400_000],
    ["+5m", 300_000],
    [".5s", 500],
    ["1.s", 1000],
    ["1us", 0.001],
    ["1µs", 0.001],
    ["1μs", 0.001],
    ["100ns", 0.0001],
    ["1s1h", 3_601_000],
    ["1s1s", 2000],
    ["0.9999999999ns", 0],
    ["2540400h", 9_145_440_000_000],
  ];
  for (const [text, ms] of rows)
    test(text, () => {
      expect(parseDurationMs(text)).toBe(ms);
    });
});

describe("parseDurationMs rejects everything else with the reason:", () => {
  const rows: readonly (readonly [text: string, message: string])[] = [
    ["", '"" is not a duration such as 1m30s or 500ms'],
    ["-", '"-" is not a duration'],
    ["10", '"10" is not a duration such as 1m30s or 500ms: it lacks a unit, such as s'],
    ["1h10", "it lacks a unit"],
    ["1d", '"d" is none of the units ns, us, ms, s, m, h'],
    ["1M", '"M" is none of the units'],
    [" 1s", '" 1s" is not a duration'],
    ["1s ", '"s " is none of the units'],
    ["1 s", '" s" is none of the units'],
    [".s", '".s" is not a duration'],
    ["s", '"s" is not a duration'],
    ["1.2.3s", '"1.2.3s" is not a duration'],
    ["--1s", '"--1s" is not a duration'],
    ["1s-1s", '"s-" is none of the units'],
    ["3000000h", "it is longer than 292 years"],
    [`${"9".repeat(1_000_000)}s`, "is not a duration"],
  ];
  for (const [text, message] of rows)
    test(JSON.stringify(text.slice(0, 20)), () => {
      expect(() => parseDurationMs(text)).toThrow(message);
    });
});

test("formatDuration formats as Go does", () => {
  const rows: readonly (readonly [ms: number, text: string])[] = [
    [0, "0s"],
    [0.000001, "1ns"],
    [0.0011, "1.1µs"],
    [2.2, "2.2ms"],
    [300, "300ms"],
    [3300, "3.3s"],
    [60_000, "1m0s"],
    [245_000, "4m5s"],
    [3_600_000, "1h0m0s"],
    [3_723_500, "1h2m3.5s"],
    [-90_000, "-1m30s"],
    [86_400_000, "24h0m0s"],
  ];
  for (const [ms, text] of rows) expect(formatDuration(ms)).toBe(text);
});

test(
  "a formatted duration parses to itself, for all microseconds in ten years",
  () => {
    const tenYears = 10 * 366 * 86_400_000_000;
    fc.assert(
      fc.property(fc.integer({ min: -tenYears, max: tenYears }), (micros) => {
        expect(parseDurationMs(formatDuration(micros / 1000))).toBeCloseTo(micros / 1000, 4);
      }),
      { numRuns },
    );
  },
  timeoutMs,
);

test(
  "any text parses or throws a DurationError",
  () => {
    const nearly = fc.stringMatching(/^[+-]?([0-9.]{0,5}[a-zµ]{0,2}){0,4}$/);
    const usual = fc
      .array(fc.tuple(fc.constantFrom("0", "7", "1.5", ".5", "."), fc.constantFrom("h", "m", "s", "ms", "µs", "")), {
        minLength: 1,
        maxLength: 3,
      })
      .map((parts) => parts.flat().join(""));
    let parsed = 0;
    fc.assert(
      fc.property(fc.oneof(fc.string(), nearly, { weight: 2, arbitrary: usual }), (text) => {
        try {
          const durationMs = parseDurationMs(text);
          expect(Number.isFinite(durationMs)).toBe(true);
          parsed += 1;
        } catch (error) {
          expect(error).toBeInstanceOf(DurationError);
        }
      }),
      { numRuns },
    );
    expect(parsed).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  timeoutMs,
);

const durations: readonly [ms: number, text: string][] = [
  [0, "0s"],
  [345, "345ms"],
  [1500, "1.5s"],
  [59_999, "59.999s"],
  [130_250, "2m10.25s"],
  [3_605_000, "1h0m5s"],
  [-5, "0s"],
];
for (const [ms, text] of durations)
  test(`${ms} ms is ${text}`, () => {
    expect(formatElapsed(ms)).toBe(text);
  });
