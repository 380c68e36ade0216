import { expect, test } from "bun:test";
import type { Outcome } from "./suite.ts";
import { closingLine, outcomeLine, withoutSkips } from "./test-summary.ts";

const good: Outcome = { name: "unit", durationMs: 1234, passed: 7, failed: [], skipped: [], log: "" };
const mixed: Outcome = { ...good, name: "e2e", passed: 2, failed: ["a"], skipped: ["b needs go", "c needs go"] };

test.each<[string, readonly Outcome[], string]>([
  ["suites that pass", [good, good], "14 passed, 0 failed"],
  ["failures and skips", [good, mixed], "9 passed, 1 failed, 2 skipped"],
  ["nothing at all", [], "0 passed, 0 failed"],
])("the closing line sums %s", (_, outcomes, line) => {
  expect(closingLine(outcomes)).toBe(line);
});

test("withoutSkips turns a skip into a failure", () => {
  expect(closingLine([withoutSkips(mixed)])).toBe("2 passed, 3 failed");
  expect(withoutSkips(mixed).failed[1]).toBe("b needs go (skipped, but every test must run here)");
});

test("the line of a suite shows its verdict, time and counts", () => {
  expect(outcomeLine(good)).toBe("unit                             ok          1.2 s   7 passed");
  expect(outcomeLine(mixed)).toContain("FAILED");
  expect(outcomeLine({ ...good, passed: 0, skipped: ["no root"] })).toContain("skipped  ");
});
