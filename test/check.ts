import { mkdtemp, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { findTests, staticSuites, type TestFile, testSuite } from "./suites.ts";
import { closingLine, outcomeLine } from "./test-summary.ts";

/**
 * How long a quick test may take. Ten times what the longest does alone: five parts of them run side by side, on a machine that
 * may have other things to do.
 */
const LONGEST_TEST_MS = 30_000;

/**
 * Few random inputs a parser, and a death after every seventeenth call of a play: enough to see most new mistakes soon. `npm test` tries a
 * hundred thousand in CI, and every call.
 */
const QUICKLY = { FUZZ_RUNS: "50", DIE_EVERY: "17" };

/**
 * The quick check over `files`: types, format, lint, unused code and every test that needs no machine, all side by side: a
 * test often waits, for a clock or for a program that it has started. The tests run in five parts, which leave two cores little rest.
 * One line each as they end. `env` is added to the tests' environment.
 */
export async function check(
  files: readonly TestFile[],
  reports: string,
  say: (line: string) => void,
  env: Readonly<Record<string, string>> = {},
): Promise<readonly Outcome[]> {
  const run = async (suite: Suite) => await announce(await runSuite(suite, reports), say);
  const quick = files.filter(({ isQuick }) => isQuick);
  const parts = [0, 1, 2, 3, 4].map((part) => quick.filter((_, index) => index % 5 === part));
  const tests = parts.map((part, index) =>
    testSuite(`unit and scenario tests ${index + 1}/5`, part, env, LONGEST_TEST_MS),
  );
  return await Promise.all([...staticSuites(), ...tests].map(run));
}

/**
 * Says how a suite ended, and all that it printed if it failed. A test that skips itself prints `skipped: ` and why on a
 * line of its own, which is shown too. Returns the outcome.
 */
export async function announce(outcome: Outcome, say: (line: string) => void): Promise<Outcome> {
  say(outcomeLine(outcome));
  const lines = (await readFile(outcome.log, "utf8").catch(() => "")).trimEnd().split("\n");
  for (const title of outcome.skipped) say(`  skipped: ${title}`);
  for (const reason of lines.filter((line) => line.startsWith("skipped: "))) say(`  ${reason}`);
  if (outcome.failed.length > 0) {
    for (const title of outcome.failed.slice(0, 50)) say(`  failed: ${title}`);
    say([...lines.slice(0, 300), ...(lines.length > 300 ? ["…"] : []), `(all of it: ${outcome.log})`].join("\n"));
  }
  return outcome;
}

if (import.meta.main) {
  process.chdir(join(import.meta.dirname, ".."));
  const started = performance.now();
  const reports = await mkdtemp(join(tmpdir(), "berth-check-"));
  const outcomes = await check(await findTests("."), reports, console.log, QUICKLY);
  console.log(`${closingLine(outcomes)} in ${((performance.now() - started) / 1000).toFixed(1)} s`);
  process.exitCode = outcomes.some((outcome) => outcome.failed.length > 0) ? 1 : 0;
}
