import type { Outcome } from "./suite.ts";

/** The line for a finished suite. */
export function outcomeLine({ name, durationMs, passed, failed, skipped }: Outcome): string {
  const verdict = failed.length > 0 ? "FAILED" : passed === 0 && skipped.length > 0 ? "skipped" : "ok";
  const counts = [`${passed} passed`, ...count(failed, "failed"), ...count(skipped, "skipped")].join(", ");
  return `${name.padEnd(32)} ${verdict.padEnd(8)} ${seconds(durationMs).padStart(8)}   ${counts}`;
}

/** At most this many lines of the output of one failed test are shown: the error with its diff and position. */
const LINES_PER_FAILURE = 40;

/** Matches the line with which bun ends a test. */
const testEnd = /^\((pass|fail|skip|todo)\) /;

/**
 * The parts of a suite's output that belong to its failed tests: what stands between the end of the test before and
 * bun's line `(fail) name`, at most the last 40 lines of it. Without such a line (a program, a file that could not be
 * loaded, a killed run) the last 40 lines of the output.
 */
export function failureExcerpts(output: string): readonly string[] {
  const lines = output.trimEnd().split("\n");
  const failures = lines.flatMap((line, index) => (line.startsWith("(fail) ") ? [index] : []));
  if (failures.length === 0) return [lines.slice(-LINES_PER_FAILURE).join("\n")];
  return failures.map((end) => {
    const previous = lines.slice(0, end).findLastIndex((line) => testEnd.test(line));
    const start = Math.max(previous + 1, end + 1 - LINES_PER_FAILURE);
    return lines.slice(start, end + 1).join("\n");
  });
}

/** The last line of the output, which CI parses. */
export function closingLine(outcomes: readonly Outcome[]): string {
  const passed = outcomes.reduce((sum, one) => sum + one.passed, 0);
  const failed = outcomes.flatMap((one) => one.failed);
  const skipped = outcomes.flatMap((one) => one.skipped);
  return [`${passed} passed, ${failed.length} failed`, ...count(skipped, "skipped")].join(", ");
}

/** A result counts as old after so many more commits. */
const OLD_COMMITS = 200;

/** A row of the document; the name of the suite is its key. */
interface ExtendedRow {
  readonly suite: string;
  readonly result: string;
  readonly duration?: string;
  readonly date?: string;
  /** Twelve digits, perhaps with words after them. */
  readonly commit?: string;
}

function rowOf({ name, durationMs, passed, failed, skipped }: Outcome, commit: string, now: Date): ExtendedRow {
  const result = [`${passed} passed`, ...count(failed, "failed"), ...count(skipped, "skipped")].join(", ");
  const duration = `${(durationMs / 60_000).toFixed(1)} min`;
  return { suite: name, result, duration, date: now.toISOString().slice(0, 10), commit };
}

function readRow(line: string): ExtendedRow {
  const [, suite = "", result = "", duration = "", date = "", commit = ""] = line.split("|").map((cell) => cell.trim());
  return { suite, result, duration, date, commit };
}

/** The rows of the document, in its order. The result of one: `7 passed`, `2 passed, 1 failed`, or `has not run`. */
export const rowsIn = (document: string): readonly ExtendedRow[] =>
  document
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| suite |"))
    .map(readRow);

/** Whether a suite has passed as it is in a commit: with uncommitted changes, words come after the commit's digits. */
export const hasPassed = (row: ExtendedRow | undefined): boolean =>
  row !== undefined && /^[1-9]\d* passed$/.test(row.result) && /^[0-9a-f]{12}$/.test(row.commit ?? "");

type AgeOf = (commit: string) => number | undefined;

function formatRow({ suite, result, duration = "", date = "", commit = "" }: ExtendedRow, ageOf: AgeOf): string {
  return `| ${[suite, result, duration, date, commit, commit === "" ? "" : describeAge(ageOf(commit))].join(" | ")} |`;
}

function describeAge(age: number | undefined): string {
  if (age === undefined) return "not in the history";
  return age > OLD_COMMITS ? `old: ${age} commits since` : "";
}

/**
 * The document with the last result of each of the extended tests. `suites` are the names of all of them, in order. A
 * suite that is not among `outcomes` keeps its row of `previous`, the document so far, or gets one that says that it has
 * never run. `ageOf` gives the number of commits since one; undefined: it is not in the history.
 */
export function extendedTestsDocument(
  suites: readonly string[],
  outcomes: readonly Outcome[],
  { commit, now, ageOf }: { readonly commit: string; readonly now: Date; readonly ageOf: AgeOf },
  previous = "",
): string {
  const known = rowsIn(previous);
  const rows = suites.map((suite): ExtendedRow => {
    const outcome = outcomes.find(({ name }) => name === suite);
    if (outcome !== undefined) return rowOf(outcome, commit, now);
    return known.find((row) => row.suite === suite) ?? { suite, result: "has not run" };
  });
  return [
    "# Extended tests",
    "",
    "The last result of each suite of `npm run test:extended`. With arguments it runs the suites with these names, or whose names begin with them.",
    `A result is old if more than ${OLD_COMMITS} commits came after its own. A commit that is not in the history was one of a branch that was rebased later:`,
    "it cannot be checked out, so its suite is to be run again.",
    "",
    "| suite | result | duration | date | commit | age |",
    "|---|---|---|---|---|---|",
    ...rows.map((row) => formatRow(row, ageOf)),
    "",
  ].join("\n");
}

export const seconds = (durationMs: number) => `${(durationMs / 1000).toFixed(1)} s`;

const count = (things: readonly string[], word: string) => (things.length === 0 ? [] : [`${things.length} ${word}`]);
