import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ifAbsent } from "./bed/if-absent.ts";
import { type CheckScope, pathsToLint, readScope, recordPass, type Snapshot, takeSnapshot } from "./check-scope.ts";
import { createInterruption, type Interruption } from "./interruption.ts";
import { reducedBy } from "./run-size.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { findTests, limitToAffected, staticSuites, type TestFile, testSuite } from "./suites.ts";
import { closingLine, failureExcerpts, outcomeLine } from "./test-summary.ts";

/**
 * The timeout of a quick test: ten times the duration of the longest one, because up to eight groups run in parallel on a
 * machine that may be busy.
 */
const TEST_TIMEOUT_MS = 30_000;

/**
 * Each parser gets 50 random inputs, and every eighth scenario kills the agent after every 17th call: enough to find most
 * new bugs quickly. In CI `npm test` tries ten thousand inputs, and each scenario kills the agent after every fifth call.
 */
const QUICK_ENV = { FUZZ_RUNS: "50", DIE_EVERY: "17", REPEAT_EVERY: "8" };

interface CheckOptions {
  /** Added to the tests' environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Left out: all tests run. */
  readonly scope?: CheckScope;
}

/**
 * Runs the quick check over `files` in parallel: types, format, lint, unused code and every test of the scope that needs no
 * special machine. Tests often wait for a clock or a program, so several groups of them keep two cores busy. Prints one line
 * per suite.
 */
export async function check(
  files: readonly TestFile[],
  reports: string,
  print: (line: string) => void,
  interruption: Interruption,
  { env = {}, scope }: CheckOptions = {},
): Promise<readonly Outcome[]> {
  const run = async (suite: Suite) => await announce(await runSuite(suite, reports, interruption), print);
  const quick = files.filter(({ isQuick }) => isQuick);
  const group = (name: string, own: readonly TestFile[], count: number) =>
    split(own, count).map((part, index) => testSuite(`${name} ${index + 1}/${count}`, part, env, TEST_TIMEOUT_MS));
  /** Each process that runs scenarios compiles the whole agent, so there are only two of them. */
  const groups = (own: readonly TestFile[]) => [
    ...group(
      "unit tests",
      own.filter(({ isScenario }) => !isScenario),
      4,
    ),
    ...group(
      "scenarios",
      own.filter(({ isScenario }) => isScenario),
      2,
    ),
  ];
  const affectedGroups = (since: string) => {
    const [always, others] = [quick.filter(({ alwaysRuns }) => alwaysRuns), quick.filter((file) => !file.alwaysRuns)];
    return [
      ...group("tests that always run", always, 2),
      ...groups(others).map((suite) => limitToAffected(suite, since)),
    ];
  };
  if (scope === undefined || "allBecause" in scope)
    return await Promise.all([...staticSuites(), ...groups(quick)].map(run));
  const linted = await pathsToLint(".", scope.changed);
  return await Promise.all([...staticSuites(linted), ...affectedGroups(scope.since)].map(run));
}

/** Splits files into groups, without those that would be empty. */
const split = (files: readonly TestFile[], count: number) =>
  Array.from({ length: count }, (_, part) => files.filter((_file, index) => index % count === part)).filter(
    (part) => part.length > 0,
  );

/**
 * Prints a suite's outcome, and the output of its failed tests. A test that skips itself prints a line `skipped: <why>`, one
 * whose recording was made on another machine a line `recording: <what it does>`; both are shown too. Returns the outcome.
 */
export async function announce(outcome: Outcome, print: (line: string) => void): Promise<Outcome> {
  print(outcomeLine(outcome));
  const lines = (await readFile(outcome.log, "utf8").catch(ifAbsent(""))).trimEnd().split("\n");
  for (const title of outcome.skipped) print(`  skipped: ${title}`);
  for (const reason of lines.filter((line) => /^(skipped|recording): /.test(line))) print(`  ${reason}`);
  if (outcome.failed.length > 0) {
    for (const title of outcome.failed.slice(0, 50)) print(`  failed: ${title}`);
    for (const excerpt of failureExcerpts(lines.join("\n")).slice(0, 20)) print(excerpt);
    print(`(full log: ${outcome.log})`);
  }
  return outcome;
}

/**
 * Prints the failed tests of all suites once more, at the end of a long run: their names, and of each suite the output
 * of the first three.
 */
export async function announceFailures(outcomes: readonly Outcome[], print: (line: string) => void): Promise<void> {
  for (const { name, failed, log } of outcomes.filter((outcome) => outcome.failed.length > 0)) {
    print(`\nfailed in ${name}:`);
    for (const title of failed.slice(0, 50)) print(`  ${title}`);
    const output = await readFile(log, "utf8").catch(ifAbsent(""));
    for (const excerpt of failureExcerpts(output).slice(0, 3)) print(excerpt);
  }
}

/**
 * Decides what the check runs: with the argument `--all` all tests, and otherwise those that a change since the last pass can
 * affect. Throws on other arguments.
 */
async function scopeFor(args: readonly string[], now: Snapshot): Promise<CheckScope> {
  const unknown = args.find((arg) => arg !== "--all");
  if (unknown !== undefined) throw new Error(`${unknown}: npm run check knows only the argument --all`);
  return args.length > 0 ? { allBecause: "the argument is --all" } : await readScope(".", now);
}

const describeScope = (scope: CheckScope) =>
  "since" in scope
    ? "runs the tests, and lints the files, that a change since the last pass can affect; `npm run check -- --all` runs all"
    : `runs all tests: ${scope.allBecause}`;

/** Records a pass. One that had tried less by a variable of the environment is not recorded. Returns why not. */
async function recordPassOf(now: Snapshot, outcomes: readonly Outcome[]): Promise<string | undefined> {
  if (outcomes.some(({ failed }) => failed.length > 0)) return undefined;
  const reducing = reducedBy(process.env);
  if (reducing.length > 0) return `${reducing.join(", ")} made it smaller`;
  if ("problem" in now) return now.problem;
  await recordPass(".", now.commit);
  return undefined;
}

if (import.meta.main) {
  process.chdir(join(import.meta.dirname, ".."));
  const started = performance.now();
  const reports = await mkdtemp(join(tmpdir(), "berth-check-"));
  const interruption = createInterruption({ print: console.log, cleanUp: async () => {} });
  const files = (await findTests(".")).filter(({ isLong }) => !isLong);
  const now = await takeSnapshot(".");
  const scope = await scopeFor(process.argv.slice(2), now);
  console.log(describeScope(scope));
  const outcomes = await check(files, reports, console.log, interruption, { env: QUICK_ENV, scope });
  await announceFailures(outcomes, console.log);
  // The logs of a check that has failed stay for the reader of its output.
  if (outcomes.every(({ failed }) => failed.length === 0)) await rm(reports, { recursive: true });
  const unrecorded = await recordPassOf(now, outcomes);
  if (unrecorded !== undefined) console.log(`the next check runs all of this again: ${unrecorded}`);
  console.log(`${closingLine(outcomes)} in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  process.exitCode = outcomes.some((outcome) => outcome.failed.length > 0) ? 1 : 0;
}
