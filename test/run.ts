import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackSuite } from "./bed/packages.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, check } from "./check.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { findTests, fuzzTests, testSuite, testsIn } from "./suites.ts";
import { closingLine, seconds, withoutSkips } from "./tally.ts";

const minuteMs = 60_000;

/**
 * Everything, one suite after the other, since they share the machine's two cores, its bridges and its iptables:
 * the quick check, the build, the contracts on the fake and on both containerds, the compiled binary on a real runtime,
 * and the parsers under random input.
 */
function machineSuites(files: readonly string[], isThorough: boolean): readonly Suite[] {
  const build = [process.execPath, "cli/build.ts"];
  const fuzzRuns = process.env["FUZZ_RUNS"] ?? (isThorough ? "100000" : "2000");
  return [
    { name: "build", argv: build, hasReport: false, timeoutMs: 5 * minuteMs },
    testSuite("contracts", testsIn(files, "test/contract/")),
    testSuite("end to end", testsIn(files, "test/e2e/")),
    testSuite(`fuzz, ${fuzzRuns} each`, fuzzTests(files), { FUZZ_RUNS: fuzzRuns }),
  ];
}

/** In CI nothing may be left out silently: a skip counts as a failure there. */
const requiresAll = process.env["CI"] === "true" || process.env["BERTH_REQUIRE_ALL"] === "1";

async function runAll(say: (line: string) => void): Promise<readonly Outcome[]> {
  for (const suite of ["bookworm", "forky"] as const) await unpackSuite(suite, say);
  await resetBeds(false, (line) => say(`left by an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  say(`reports in ${reports}`);
  const outcomes = [...(await check(reports, say))];
  for (const suite of machineSuites(findTests("."), requiresAll)) {
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
