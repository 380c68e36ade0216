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

/** The parsers under random input: 10⁵ inputs each where everything is required. */
function fuzzSuites(files: readonly TestFile[]): readonly Suite[] {
  const runs = process.env["FUZZ_RUNS"] ?? (requiresAll ? "100000" : "2000");
  const fuzz = files.filter(({ isFuzz }) => isFuzz);
  return fuzz.map((file) => testSuite(`fuzz ${titleOf(file.path)}`, [file], { FUZZ_RUNS: runs }, 20 * minuteMs));
}

/** What needs the machine: the build, the contracts on real runtimes, and the compiled binary on a real runtime. */
function machineSuites(files: readonly TestFile[]): readonly Suite[] {
  const build = [process.execPath, "cli/build.ts"];
  const byFile = files.filter(
    ({ path, isQuick, isFuzz }) => !isQuick && !isFuzz && /^test\/(contract|e2e)\//.test(path),
  );
  return [
    { name: "build", argv: build, hasReport: false, timeoutMs: 5 * minuteMs },
    ...byFile.map((file) => testSuite(titleOf(file.path), [file])),
  ];
}

/** `test/e2e/bed.test.ts` is called `e2e bed`. */
const titleOf = (path: string) =>
  path
    .replace(/(\.fuzz)?\.test\.ts$/, "")
    .replace(/^test\//, "")
    .replaceAll("/", " ");

/** In CI nothing may be left out silently: a skip counts as a failure there. */
const requiresAll = process.env["CI"] === "true" || process.env["BERTH_REQUIRE_ALL"] === "1";

const judge = (outcome: Outcome) => (requiresAll ? withoutSkips(outcome) : outcome);

async function runAll(say: (line: string) => void): Promise<readonly Outcome[]> {
  for (const suite of ["bookworm", "forky"] as const) await unpackSuite(suite, say);
  await resetBeds(false, (line) => say(`left by an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  say(`reports in ${reports}`);
  const files = await findTests(".");
  const plain = files.filter(({ isFuzz }) => !isFuzz);
  const outcomes = [...(await check(plain, reports, say))].map(judge);
  const run = async (suite: Suite) => {
    outcomes.push(await announce(judge(await runSuite(suite, reports)), say));
  };
  await twoAtATime(fuzzSuites(files), run);
  // One after the other, since they share the machine's cores, bridges and iptables, and measure time.
  for (const suite of machineSuites(files)) await run(suite);
  return outcomes;
}

async function twoAtATime(suites: readonly Suite[], run: (suite: Suite) => Promise<void>): Promise<void> {
  const waiting = [...suites];
  const lane = async () => {
    for (let suite = waiting.shift(); suite !== undefined; suite = waiting.shift()) await run(suite);
  };
  await Promise.all([lane(), lane()]);
}

process.chdir(join(import.meta.dirname, ".."));
const started = performance.now();
const outcomes = await runAll(console.log);
console.log(`all of it took ${seconds(performance.now() - started)}`);
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
