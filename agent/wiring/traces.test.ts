import { expect, test } from "bun:test";
import { preciseTime } from "./traces.ts";

const NOON = Date.parse("2026-01-01T12:00:00Z");

test.each([
  ["has the fraction that the process counts", NOON, NOON + 0.25, NOON + 0.25],
  ["has it also where the whole milliseconds lag behind", NOON, NOON + 4.9, NOON + 4.9],
  ["is that of a wall clock that was set forward", NOON + 3_600_000, NOON + 0.25, NOON + 3_600_000],
  ["is that of a wall clock that was set back", NOON - 3_600_000, NOON + 0.25, NOON - 3_600_000],
  ["is that of a wall clock that NTP has slewed by five milliseconds", NOON + 5, NOON, NOON + 5],
])("the time of a span %s", (_, wall, sinceStart, expected) => {
  expect(preciseTime(wall, sinceStart)).toBe(expected);
});
