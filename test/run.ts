import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackSuite } from "./bed/packages.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, check } from "./check.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { findTests, type TestFile, testSuite } from "./suites.ts";
import { closingLine, seconds, withoutSkips } from "./tally.ts";

const minuteMs = 60_000;

/**
 * What needs the machine, one suite after the other, since they share its cores, bridges and iptables: the build, the
 * parsers under random input, the contracts on real runtimes, and the compiled binary on a real runtime.
 */
function machineSuites(files: readonly TestFile[], isThorough: boolean): readonly Suite[] {
  const build = [process.execPath, "cli/build.ts"];
  const fuzzRuns = process.env["FUZZ_RUNS"] ?? (isThorough ? "100000" : "2000");
  const fuzz = files.filter(({ isFuzz }) => isFuzz);
  const byFile = files
    .filter(({ path, isQuick }) => !isQuick && /^test\/(contract|e2e)\//.test(path))
    .map((file) => testSuite(titleOf(file.path), [file]));
  return [
    { name: "build", argv: build, hasReport: false, timeoutMs: 5 * minuteMs },
    testSuite(`fuzz, ${fuzzRuns} each`, fuzz, { FUZZ_RUNS: fuzzRuns }, 10 * minuteMs),
    ...byFile,
  ];
}

/** `test/e2e/bed.test.ts` is called `e2e bed`. */
const titleOf = (path: string) => path.replace(/^test\/(\w+)\/(.*)\.test\.ts$/, "$1 $2");

/** In CI nothing may be left out silently: a skip counts as a failure there. */
const requiresAll = process.env["CI"] === "true" || process.env["BERTH_REQUIRE_ALL"] === "1";

async function runAll(say: (line: string) => void): Promise<readonly Outcome[]> {
  for (const suite of ["bookworm", "forky"] as const) await unpackSuite(suite, say);
  await resetBeds(false, (line) => say(`left by an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  say(`reports in ${reports}`);
  const files = await findTests(".");
  const outcomes = [
    ...(await check(
      files.filter(({ isFuzz }) => !isFuzz),
      reports,
      say,
    )),
  ];
  for (const suite of machineSuites(files, requiresAll)) {
    const outcome = await runSuite(suite, reports);
    outcomes.push(await announce(requiresAll ? withoutSkips(outcome) : outcome, say));
  }
  return outcomes;
}

process.chdir(join(import.meta.dirname, ".."));
const started = performance.now();
const outcomes = await runAll(console.log);
console.log(`all of it took ${seconds(performance.now() - started)}`);
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
