// Runs the tests that take too long for CI, and writes their results to docs/extended-tests.md: npm run test:extended.
// With arguments, only the suites with these names, or whose names begin with one of them.
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { ifAbsent } from "./bed/if-absent.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, announceFailures } from "./check.ts";
import { commitsIn, commitsSince } from "./evidence-commits.ts";
import { allExtendedSuites } from "./extended-suites.ts";
import { createInterruption } from "./interruption.ts";
import { reducedBy } from "./run-size.ts";
import { applySkipPolicy } from "./skip-policy.ts";
import { type Outcome, runSuite } from "./suite.ts";
import { findTests } from "./suites.ts";
import { closingLine, extendedTestsDocument } from "./test-summary.ts";

const DOCUMENT = "docs/extended-tests.md";

async function currentCommit(): Promise<string> {
  const { stdout: commit } = await execa("git", ["rev-parse", "--short=12", "HEAD"]);
  const { stdout: changes } = await execa("git", ["status", "--porcelain", "--", ".", ":!docs"]);
  return changes === "" ? commit : `${commit} with uncommitted changes`;
}

async function documentWith(names: readonly string[], outcome: Outcome, previous: string): Promise<string> {
  const commits = commitsIn(`${previous} ${commit}`);
  const ages = new Map(await Promise.all(commits.map(async (each) => [each, await commitsSince(each)] as const)));
  const ageOf = (each: string) => ages.get(commitsIn(each)[0] ?? "");
  return extendedTestsDocument(names, [outcome], { commit, now: new Date(), ageOf }, previous);
}

process.chdir(join(import.meta.dirname, ".."));
const reduced = reducedBy(process.env);
if (reduced.length > 0) throw new Error(`the document records whole runs: run this without ${reduced.join(", ")}`);
const selected = process.argv.slice(2);
const all = allExtendedSuites(await findTests("."));
/** An argument that is a whole name means no other suite. */
const isSelected = (name: string) => (each: string) =>
  all.some((suite) => suite.name === each) ? name === each : name.startsWith(each);
const suites = all.filter(({ name }) => selected.length === 0 || selected.some(isSelected(name)));
if (suites.length === 0) throw new Error(`no suite begins with ${selected.join(" or ")}`);
const reports = await mkdtemp(join(tmpdir(), "berth-extended-"));
const commit = await currentCommit();
const cleanUp = () => resetBeds(false, console.log);
const interruption = createInterruption({ print: console.log, cleanUp });
const outcomes: Outcome[] = [];
for (const suite of suites) {
  // These are the tests that nothing else runs: each must run here, also those in a namespace, which a process of their own runs.
  const requireAll = { BERTH_REQUIRE_ALL: "1" };
  const result = await runSuite({ ...suite, env: { ...suite.env, ...requireAll } }, reports, interruption);
  const judged = applySkipPolicy(result, false, requireAll);
  const outcome = await announce(judged, console.log);
  outcomes.push(outcome);
  const previous = await readFile(DOCUMENT, "utf8").catch(ifAbsent(""));
  const names = all.map(({ name }) => name);
  await writeFile(DOCUMENT, await documentWith(names, outcome, previous));
}
await announceFailures(outcomes, console.log);
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
