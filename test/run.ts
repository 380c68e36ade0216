import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackPackages } from "./bed/packages.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, check } from "./check.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { docsConformanceSuite, findTests, type TestFile, testSuite } from "./suites.ts";
import { closingLine, seconds, withoutSkips } from "./test-summary.ts";
import { unavailableReason } from "./upstream/programs.ts";

const minuteMs = 60_000;

/**
 * The parsers under random input, 10⁵ inputs each in CI. The longest come first, so that both queues end at about the
 * same time.
 */
function fuzzSuites(files: readonly TestFile[]): readonly Suite[] {
  const runs = process.env["FUZZ_RUNS"] ?? (requiresAll ? "100000" : "2000");
  const fuzz = files.filter(({ isFuzz }) => isFuzz).toSorted((a, b) => Number(isSlowFuzz(b)) - Number(isSlowFuzz(a)));
  return fuzz.map((file) => testSuite(`fuzz ${titleOf(file.path)}`, [file], { FUZZ_RUNS: runs }, 20 * minuteMs));
}

/** Fuzz tests of the whole agent and of the whole configuration take longest. */
const isSlowFuzz = ({ path }: TestFile) => /^(test\/scenarios|agent\/config)\//.test(path);

/** Builds Kubernetes' own programs, which takes minutes if Go's caches are empty. */
async function upstreamSuite(): Promise<Suite> {
  const unavailable = await unavailableReason();
  const argv = [process.execPath, "test/upstream/build.ts"];
  // The timeout is long because the build runs beside other suites.
  return { name: "upstream programs", argv, hasReport: false, timeoutMs: 60 * minuteMs, unavailable };
}

/**
 * The suites that need root and a container runtime: the build, the contracts on real runtimes, and the end-to-end
 * tests of the binary. Those that need the upstream programs come last.
 */
function machineSuites(files: readonly TestFile[]): Readonly<Record<"before" | "after", readonly Suite[]>> {
  const build = [process.execPath, "cli/build.ts"];
  const byFile = files.filter(
    ({ path, isQuick, isFuzz }) => !isQuick && !isFuzz && /^test\/(contract|e2e)\//.test(path),
  );
  const suites = (expected: boolean) =>
    byFile
      .filter(({ needsUpstream }) => needsUpstream === expected)
      .map((file) => testSuite(titleOf(file.path), [file]));
  return {
    before: [{ name: "build", argv: build, hasReport: false, timeoutMs: 5 * minuteMs }, ...suites(false)],
    after: suites(true),
  };
}

/** The name of a file's suite: `e2e bed` for `test/e2e/bed.test.ts`. */
const titleOf = (path: string) =>
  path
    .replace(/(\.fuzz)?\.test\.ts$/, "")
    .replace(/^test\//, "")
    .replaceAll("/", " ");

/** In CI a skip counts as a failure, so that nothing is left out silently. */
const requiresAll = process.env["CI"] === "true" || process.env["BERTH_REQUIRE_ALL"] === "1";

const applySkipPolicy = (outcome: Outcome) => (requiresAll ? withoutSkips(outcome) : outcome);

async function runAll(print: (line: string) => void): Promise<readonly Outcome[]> {
  for (const packageSet of ["bookworm", "trixie", "forky"] as const) await unpackPackages(packageSet, print);
  await resetBeds(false, (line) => print(`leftover of an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  print(`reports in ${reports}`);
  const files = await findTests(".");
  const plain = files.filter(({ isFuzz }) => !isFuzz);
  const outcomes: Outcome[] = [];
  const run = async (suite: Suite) => {
    const outcome = await announce(applySkipPolicy(await runSuite(suite, reports)), print);
    outcomes.push(outcome);
    return outcome;
  };
  // Runs in parallel with the suites that do not need it. Without Go or its modules it is skipped, which is not a
  // failure.
  const upstreamBuild = await upstreamSuite();
  const isUpstreamAvailable = upstreamBuild.unavailable === undefined;
  const runUpstream = async (suite: Suite) => {
    if (isUpstreamAvailable) return await run(suite);
    const outcome = await announce(await runSuite(suite, reports), print);
    outcomes.push(outcome);
    return outcome;
  };
  const upstream = runUpstream(upstreamBuild);
  outcomes.push(...(await check(plain, reports, print)).map(applySkipPolicy));
  await runInTwoQueues([...fuzzSuites(files), docsConformanceSuite(files)], run);
  // Wait for the build: a compiler beside them would disturb the following suites, which measure time.
  const { failed } = await upstream;
  // Sequential, because these suites share the machine's cores, bridges and iptables, and measure time.
  const { before, after } = machineSuites(files);
  for (const suite of before) await run(suite);
  // Without this, each suite would try to build the programs itself.
  const unavailable = failed.length > 0 ? "the upstream programs could not be built" : upstreamBuild.unavailable;
  for (const suite of after) await runUpstream({ ...suite, unavailable });
  return outcomes;
}

async function runInTwoQueues(suites: readonly Suite[], run: (suite: Suite) => Promise<unknown>): Promise<void> {
  const waiting = [...suites];
  const queue = async () => {
    for (let suite = waiting.shift(); suite !== undefined; suite = waiting.shift()) await run(suite);
  };
  await Promise.all([queue(), queue()]);
}

process.chdir(join(import.meta.dirname, ".."));
const started = performance.now();
const outcomes = await runAll(console.log);
console.log(`total time: ${seconds(performance.now() - started)}`);
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
