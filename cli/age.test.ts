import { expect, test } from "bun:test";
import { ageOf } from "./age.ts";

const [second, minute, hour, day] = [1_000, 60_000, 3_600_000, 86_400_000];
const now = Date.parse("2026-01-01T12:00:00Z");

/** As duration.HumanDuration of apimachinery prints them, at both ends of each format. */
const rows: readonly (readonly [ageMs: number, text: string])[] = [
  [-5 * second, "0s"],
  [0, "0s"],
  [999, "0s"],
  [90 * second, "90s"],
  [2 * minute - 1, "119s"],
  [2 * minute, "2m"],
  [2 * minute + 30 * second, "2m30s"],
  [10 * minute - second, "9m59s"],
  [10 * minute + 30 * second, "10m"],
  [3 * hour - second, "179m"],
  [3 * hour, "3h"],
  [5 * hour + 12 * minute, "5h12m"],
  [8 * hour - minute, "7h59m"],
  [8 * hour + 30 * minute, "8h"],
  [2 * day - hour, "47h"],
  [2 * day, "2d"],
  [3 * day + 4 * hour, "3d4h"],
  [8 * day - hour, "7d23h"],
  [8 * day + 4 * hour, "8d"],
  [2 * 365 * day - hour, "729d"],
  [2 * 365 * day, "2y"],
  [2 * 365 * day + 10 * day, "2y10d"],
  [8 * 365 * day + 10 * day, "8y"],
];
for (const [ageMs, text] of rows)
  test(`an age of ${ageMs} ms is ${text}`, () => {
    expect(ageOf(new Date(now - ageMs).toISOString(), now)).toBe(text);
  });

test("a time that is none has no age", () => {
  expect(ageOf("", now)).toBe("-");
});
