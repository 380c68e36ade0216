// Runs the tests that take too long for CI, and writes their results to docs/extended-tests.md: npm run test:extended.
// With arguments, only the suites whose names begin with one of them, without writing.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { announce, announceFailures } from "./check.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import { extendedSuites, findTests, fuzzSuites } from "./suites.ts";
import { closingLine, extendedTestsDocument } from "./test-summary.ts";

const hourMs = 60 * 60_000;

/** A suite that is a program of its own. Its exit code counts. */
const program = (name: string, argv: readonly string[], env: Readonly<Record<string, string>> = {}): Suite => ({
  name,
  argv: [process.execPath, ...argv],
  hasReport: false,
  env,
  timeoutMs: 3 * hourMs,
});

async function allSuites(): Promise<readonly Suite[]> {
  const files = await findTests(".");
  return [
    ...extendedSuites(files),
    ...fuzzSuites(files, 100_000).map((suite) => ({ ...suite, timeoutMs: hourMs })),
    program("live differential", ["test/upstream/run.ts", "differential"]),
    program("chaos 200", ["test/upstream/run.ts", "chaos"], { BERTH_CHAOS: "200" }),
    program("memory after 2000 pods", ["test", "./test/e2e/memory.test.ts"], { BERTH_MEMORY_PODS: "2000" }),
    program("vm", ["test/vm/run.ts"]),
    program("planted faults", ["test/mutation/run.ts", "100", "--write"]),
  ];
}

async function currentCommit(): Promise<string> {
  const { stdout: commit } = await execa("git", ["rev-parse", "--short=12", "HEAD"]);
  const { stdout: changes } = await execa("git", ["status", "--porcelain"]);
  return changes === "" ? commit : `${commit} with uncommitted changes`;
}

process.chdir(join(import.meta.dirname, ".."));
const selected = process.argv.slice(2);
const suites = (await allSuites()).filter(
  ({ name }) => selected.length === 0 || selected.some((each) => name.startsWith(each)),
);
if (suites.length === 0) throw new Error(`no suite begins with ${selected.join(" or ")}`);
const reports = await mkdtemp(join(tmpdir(), "berth-extended-"));
const outcomes: Outcome[] = [];
for (const suite of suites) outcomes.push(await announce(await runSuite(suite, reports), console.log));
await announceFailures(outcomes, console.log);
if (selected.length === 0)
  await writeFile("docs/extended-tests.md", extendedTestsDocument(outcomes, await currentCommit(), new Date()));
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
