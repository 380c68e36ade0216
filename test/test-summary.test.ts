import { expect, test } from "bun:test";
import type { Outcome } from "./suite.ts";
import { closingLine, extendedTestsDocument, failureExcerpts, hasPassed, outcomeLine, rowsIn } from "./test-summary.ts";

const good: Outcome = { name: "unit", durationMs: 1234, passed: 7, failed: [], skipped: [], log: "" };
const mixed: Outcome = { ...good, name: "e2e", passed: 2, failed: ["a"], skipped: ["b needs go", "c needs go"] };

test.each<[string, readonly Outcome[], string]>([
  ["suites that pass", [good, good], "14 passed, 0 failed"],
  ["failures and skips", [good, mixed], "9 passed, 1 failed, 2 skipped"],
  ["nothing at all", [], "0 passed, 0 failed"],
])("the closing line sums %s", (_, outcomes, line) => {
  expect(closingLine(outcomes)).toBe(line);
});

test("the line of a suite shows its verdict, time and counts", () => {
  expect(outcomeLine(good)).toBe("unit                             ok          1.2 s   7 passed");
  expect(outcomeLine(mixed)).toContain("FAILED");
  expect(outcomeLine({ ...good, passed: 0, skipped: ["no root"] })).toContain("skipped  ");
});

test.each<[row: string, isPassed: boolean]>([
  ["| e2e | 7 passed | 0.1 min | 2026-01-02 | 0123456789ab |  |", true],
  ["| e2e | 7 passed | 0.1 min | 2026-01-02 | 0123456789ab with uncommitted changes |  |", false],
  ["| e2e | 7 passed | 0.1 min | 2026-01-02 |  |  |", false],
  ["| e2e | 0 passed | 0.1 min | 2026-01-02 | 0123456789ab |  |", false],
  ["| e2e | 7 passed, 1 failed | 0.1 min | 2026-01-02 | 0123456789ab |  |", false],
  ["| e2e | 7 passed, 1 skipped | 0.1 min | 2026-01-02 | 0123456789ab |  |", false],
  ["| e2e | has not run |  |  |  |  |", false],
])("the row %p counts as passed: %p", (row, isPassed) => {
  expect(rowsIn(row).map(hasPassed)).toEqual([isPassed]);
});

const long = (count: number) => Array.from({ length: count }, (_, index) => `row ${index}`);

test.each<[string, readonly string[], readonly string[]]>([
  [
    "the lines between the test before and the failure",
    ["(pass) a", "error: b", "  at b.ts:1", "(fail) b [1.00ms]", "noise", "(skip) c", "error: d", "(fail) d"],
    ["error: b\n  at b.ts:1\n(fail) b [1.00ms]", "error: d\n(fail) d"],
  ],
  ["the last 40 of many lines", [...long(90), "(fail) b"], [[...long(90).slice(-39), "(fail) b"].join("\n")]],
  ["the last 40 lines where no test is named", long(90), [long(90).slice(-40).join("\n")]],
])("the excerpts of a failed suite are %s", (_, output, excerpts) => {
  expect(failureExcerpts(`${output.join("\n")}\n`)).toEqual(excerpts);
});

test("the document of the extended tests has a row for each suite, and keeps the rows of those that did not run", () => {
  const suites = ["unit", "e2e", "vm"];
  const ages = new Map<string, number>([
    ["0123456789ab", 201],
    ["ba9876543210", 200],
  ]);
  const ageOf = (commit: string) => ages.get(commit);
  const start = { commit: "0123456789ab", now: new Date("2026-01-02T03:04:05Z"), ageOf: () => 0 };
  const first = extendedTestsDocument(suites, [good, mixed], start);
  expect(first).toMatchInlineSnapshot(`
    "# Extended tests

    The last result of each suite of \`npm run test:extended\`. With arguments it runs the suites with these names, or whose names begin with them.
    A result is old if more than 200 commits came after its own. A commit that is not in the history was one of a branch that was rebased later:
    it cannot be checked out, so its suite is to be run again.

    | suite | result | duration | date | commit | age |
    |---|---|---|---|---|---|
    | unit | 7 passed | 0.0 min | 2026-01-02 | 0123456789ab |  |
    | e2e | 2 passed, 1 failed, 2 skipped | 0.0 min | 2026-01-02 | 0123456789ab |  |
    | vm | has not run |  |  |  |  |
    "
  `);
  const later = { commit: "ba9876543210", now: new Date(0), ageOf };
  const second = extendedTestsDocument(suites, [{ ...mixed, failed: [] }], later, first);
  expect(second.split("\n").filter((line) => line.startsWith("| "))).toMatchInlineSnapshot(`
    [
      "| suite | result | duration | date | commit | age |",
      "| unit | 7 passed | 0.0 min | 2026-01-02 | 0123456789ab | old: 201 commits since |",
      "| e2e | 2 passed, 2 skipped | 0.0 min | 1970-01-01 | ba9876543210 |  |",
      "| vm | has not run |  |  |  |  |",
    ]
  `);
  const elsewhere = extendedTestsDocument(suites, [], { ...later, ageOf: () => undefined }, second);
  expect(elsewhere).toContain("| unit | 7 passed | 0.0 min | 2026-01-02 | 0123456789ab | not in the history |");
});
