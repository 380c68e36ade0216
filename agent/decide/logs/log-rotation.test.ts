import { expect, test } from "bun:test";
import {
  type LogMeasurement,
  measureLog,
  newestRotated,
  nextLookAt,
  planRotatedFiles,
  type RotatedFilesInput,
  rotatedName,
} from "./log-rotation.ts";

const settings = { maxSizeBytes: 10_000_000, maxFiles: 5, maxWorkers: 1, monitorIntervalMs: 10_000 };
const at = (sizeBytes: number, time: number, bytesPerMs = 0): LogMeasurement => ({
  ...{ sizeBytes, at: time, elapsedMs: 0, hasGrown: false, bytesPerMs },
});

const looks: readonly (readonly [
  sentence: string,
  before: LogMeasurement | undefined,
  sizeBytes: number,
  now: number,
  lookAt: number | undefined,
])[] = [
  ["seen for the first time: when it is written to", undefined, 5_000_000, 1000, undefined],
  ["unchanged: when it is written to", at(5000, 0), 5000, 1000, undefined],
  ["unchanged after a fast time: when it is written to", at(5000, 0, 50_000), 5000, 1000, undefined],
  ["that would take hours: at the interval", at(0, 0), 1000, 60_000, 70_000],
  ["that would take hours, after a short time: after twice that", at(0, 0), 1000, 1000, 3000],
  ["at 50 MB/s: when it can have reached the limit", at(0, 0), 5_000_000, 100, 200],
  ["that would take two seconds: then", at(0, 0), 5_000_000, 2000, 4000],
  ["between two bursts of 50 MB/s: at half that rate", at(4_000_000, 0, 50_000), 5_000_000, 100, 300],
  ["that is nearly full: not at once", at(9_000_000, 0), 9_999_999, 100, 200],
  ["that was rotated: at the rate of the new file", at(9_999_999, 0), 1_000_000, 1000, 3000],
];
for (const [sentence, before, sizeBytes, now, lookAt] of looks)
  test(`the next look at a log ${sentence}`, () => {
    expect(nextLookAt(measureLog(before, sizeBytes, now), settings)).toBe(lookAt);
  });

const a = "0.log.20260101-000000";
const b = "0.log.20260102-000000";
const c = "0.log.20260103-000000";
const d = "0.log.20260103-000000.500";
const plans: readonly (readonly [
  sentence: string,
  input: Partial<RotatedFilesInput>,
  remove: readonly string[],
  compress: readonly string[],
])[] = [
  ["no rotated file", {}, [], []],
  ["the newest file stays as it is", { files: [a, b, c] }, [], [a, b]],
  ["all are compressed of a container that has ended", { files: [a, b], keepsNewest: false }, [], [a, b]],
  ["the oldest go", { files: [d, `${a}.gz`, c, `${b}.gz`], maxRotated: 2 }, [`${a}.gz`, `${b}.gz`], [c]],
  ["none stays", { files: [a, b], maxRotated: 0 }, [a, b], []],
  ["a compression that broke off is repeated", { files: [a, `${a}.tmp`, b] }, [`${a}.tmp`], [a]],
  ["a compression that ended is not repeated", { files: [a, `${a}.gz`, b] }, [a], []],
  ["files of the same second keep their order", { files: [`${c}.gz`, d], maxRotated: 1 }, [`${c}.gz`], []],
  ["other instances and files stay", { files: ["1.log", `1${a}`, "10.log.x", "0.log", "x"] }, [], []],
  ["a file that is being compressed stays", { files: [a, `${a}.tmp`, b, c], busy: a, maxRotated: 1 }, [b], []],
];
for (const [sentence, input, remove, compress] of plans)
  test(`rotated files: ${sentence}`, () => {
    const defaults = { log: "0.log", files: ["0.log"], maxRotated: 4, keepsNewest: true };
    expect(planRotatedFiles({ ...defaults, ...input })).toEqual({ remove, compress });
  });

test("a rotated log is named after the time in UTC, in milliseconds only where two have the same second", () => {
  const now = Date.UTC(2026, 0, 2, 3, 4, 5, 67);
  const name = "0.log.20260102-030405";
  expect(rotatedName("0.log", now, ["0.log", "1.log.20260102-030405"])).toBe(name);
  for (const present of [name, `${name}.gz`, `${name}.tmp`])
    expect(rotatedName("0.log", now, [present])).toBe(`${name}.067`);
});

test("the newest rotated file is the one that may have been the log", () => {
  expect(newestRotated("0.log", ["0.log", a, `${b}.gz`, c, "1.log.20270101-000000"])).toBe(c);
  expect(newestRotated("0.log", [a, `${b}.gz`])).toBeUndefined();
  expect(newestRotated("0.log", [`${a}.tmp`])).toBeUndefined();
});
