import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackSuite } from "./bed/packages.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, check } from "./check.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { findTests, pagesSuite, type TestFile, testSuite } from "./suites.ts";
import { closingLine, seconds, withoutSkips } from "./test-summary.ts";
import { whyUnavailable } from "./upstream/programs.ts";

const minuteMs = 60_000;

/** The parsers under random input: 10⁵ inputs each where everything is required. First those that take longest, so that no lane waits for the other. */
function fuzzSuites(files: readonly TestFile[]): readonly Suite[] {
  const runs = process.env["FUZZ_RUNS"] ?? (requiresAll ? "100000" : "2000");
  const fuzz = files.filter(({ isFuzz }) => isFuzz).toSorted((a, b) => Number(isWhole(b)) - Number(isWhole(a)));
  return fuzz.map((file) => testSuite(`fuzz ${titleOf(file.path)}`, [file], { FUZZ_RUNS: runs }, 20 * minuteMs));
}

/** Of the whole agent, and of its whole configuration. */
const isWhole = ({ path }: TestFile) => /^(test\/scenarios|agent\/config)\//.test(path);

/** Kubernetes' own programs, which take minutes to build where Go's caches are empty. */
async function upstreamSuite(): Promise<Suite> {
  const unavailable = await whyUnavailable();
  const argv = [process.execPath, "test/upstream/build.ts"];
  // With the time that the others leave it.
  return { name: "upstream programs", argv, hasReport: false, timeoutMs: 60 * minuteMs, unavailable };
}

/**
 * What needs the machine: the build, the contracts on real runtimes, and the compiled binary on a real runtime. Last come
 * those that need the upstream programs.
 */
function machineSuites(files: readonly TestFile[]): Readonly<Record<"before" | "after", readonly Suite[]>> {
  const build = [process.execPath, "cli/build.ts"];
  const byFile = files.filter(
    ({ path, isQuick, isFuzz }) => !isQuick && !isFuzz && /^test\/(contract|e2e)\//.test(path),
  );
  const suites = (wanted: boolean) =>
    byFile.filter(({ needsUpstream }) => needsUpstream === wanted).map((file) => testSuite(titleOf(file.path), [file]));
  return {
    before: [{ name: "build", argv: build, hasReport: false, timeoutMs: 5 * minuteMs }, ...suites(false)],
    after: suites(true),
  };
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
  for (const suite of ["bookworm", "trixie", "forky"] as const) await unpackSuite(suite, say);
  await resetBeds(false, (line) => say(`left by an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  say(`reports in ${reports}`);
  const files = await findTests(".");
  const plain = files.filter(({ isFuzz }) => !isFuzz);
  const outcomes: Outcome[] = [];
  const run = async (suite: Suite) => {
    const outcome = await announce(judge(await runSuite(suite, reports)), say);
    outcomes.push(outcome);
    return outcome;
  };
  // Beside all that does not need them. Where Go or its modules cannot be had nobody can run them: that is said, and is no failure.
  const wanted = await upstreamSuite();
  const canHaveUpstream = wanted.unavailable === undefined;
  const runUpstream = async (suite: Suite) => {
    if (canHaveUpstream) return await run(suite);
    const outcome = await announce(await runSuite(suite, reports), say);
    outcomes.push(outcome);
    return outcome;
  };
  const upstream = runUpstream(wanted);
  outcomes.push(...(await check(plain, reports, say)).map(judge));
  await twoAtATime([...fuzzSuites(files), pagesSuite(files)], run);
  // Not beside what follows: a compiler takes the disk, too, from suites that measure time.
  const { failed } = await upstream;
  // One after the other, since they share the machine's cores, bridges and iptables, and measure time.
  const { before, after } = machineSuites(files);
  for (const suite of before) await run(suite);
  // Else each of them would try to build for itself.
  const unavailable = failed.length > 0 ? "the upstream programs could not be built" : wanted.unavailable;
  for (const suite of after) await runUpstream({ ...suite, unavailable });
  return outcomes;
}

async function twoAtATime(suites: readonly Suite[], run: (suite: Suite) => Promise<unknown>): Promise<void> {
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
