// Plants faults in the decisions and the observation, one at a time, and says which suite is the first to find each:
// `bun test/mutation/run.ts [COUNT] [SEED]`; BERTH_SEED is the seed where the argument is left out: after tests for what was not
// found, `BERTH_SEED=N npm run test:extended -- "planted faults"` plants the same faults again. With --write it puts the result
// into docs/mutation-tests.md.
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { seededRandom } from "../random.ts";
import { seconds } from "../test-summary.ts";
import { findingSuite, type SuiteResult } from "./finding-suite.ts";
import { describeMutant, draw, type Mutant, mutantsOf, plant } from "./mutants.ts";
import { type Finding, mutationDocument, share, unjudgedFaults } from "./mutation-document.ts";

/** Which files get faults. */
const PLANTED = ["agent/decide", "agent/observed"];
/** The suites in the order of their durations: the first one that fails twice, or runs out of time twice, has found the fault. */
const SUITES: Readonly<Record<string, readonly string[]>> = {
  "unit tests of the component": ["./agent/decide", "./agent/observed"],
  "unit tests of the agent": ["./agent"],
  scenarios: ["./test/scenarios"],
  "docs conformance": ["./test/docs-conformance"],
};
/** A fault may make code loop or wait for ever. With one a suite may take so many times as long as without, within these bounds. */
const TIMEOUT_FACTOR = 6;
const MIN_TIMEOUT_MS = 60_000;
const MAX_TIMEOUT_MS = 10 * 60_000;
/** At least this share of the faults must be found, and each of the others is judged. */
const REQUIRED = 0.9;

/** A copy of the tree at `commit`, so that the tree stays as it is. */
async function copyTree(commit: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "berth-mutation-"));
  const archive = join(folder, "tree.tar");
  await execa("git", ["archive", `--output=${archive}`, commit]);
  await execa("tar", ["-xf", archive, "-C", folder]);
  await rm(archive);
  await symlink(join(process.cwd(), "node_modules"), join(folder, "node_modules"));
  return folder;
}

/**
 * Runs a suite in the copy, for at most `timeoutMs`. The seed selects everything that is random in it: lags, deaths, and
 * the inputs of fuzz tests.
 */
async function runSuite(folder: string, suite: string, timeoutMs: number): Promise<SuiteResult> {
  const options = ["--bail", "--timeout=30000"];
  const result = await execa(process.execPath, ["test", ...options, ...(SUITES[suite] ?? [])], {
    cwd: folder,
    env: { FUZZ_RUNS: "50", DIE_EVERY: "17", BERTH_SEED: String(seed), NO_COLOR: "1" },
    timeout: timeoutMs,
    killSignal: "SIGKILL",
    reject: false,
    buffer: false,
    stdio: "ignore",
  });
  if (result.timedOut) console.log(`${suite} ran longer than ${seconds(timeoutMs)}`);
  return result.timedOut ? "timed out" : result.failed ? "failed" : "passed";
}

async function testMutant(folder: string, mutant: Mutant, timeouts: ReadonlyMap<string, number>): Promise<Finding> {
  const path = join(folder, mutant.path);
  const source = await readFile(path, "utf8");
  await writeFile(path, plant(mutant, source));
  const foundBy = await findingSuite(Object.keys(SUITES), (suite) =>
    runSuite(folder, suite, timeouts.get(suite) ?? MAX_TIMEOUT_MS),
  );
  await writeFile(path, source);
  const finding = { text: describeMutant(mutant, source), foundBy };
  console.log(`${(foundBy ?? "NOT FOUND").padEnd(28)} ${finding.text}`);
  return finding;
}

async function allMutants(): Promise<readonly Mutant[]> {
  const { stdout } = await execa("git", ["ls-files", ...PLANTED]);
  const paths = stdout.split("\n").filter((path) => path.endsWith(".ts") && !path.endsWith(".test.ts"));
  return (await Promise.all(paths.map(async (path) => mutantsOf(path, await readFile(path, "utf8"))))).flat();
}

process.chdir(join(import.meta.dirname, "../.."));
const [count = 100, givenSeed] = process.argv.slice(2).map(Number).filter(Number.isFinite);
const seed = givenSeed ?? Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));
const all = await allMutants();
console.log(`${count} of ${all.length} faults, seed ${seed}`);
const waiting = [...draw(all, count, seededRandom(seed))];
const findings: Finding[] = [];
const { stdout: commit } = await execa("git", ["rev-parse", "--short=12", "HEAD"]);
const folders = await Promise.all([copyTree(commit), copyTree(commit)]);
try {
  const timeouts = new Map<string, number>();
  for (const suite of Object.keys(SUITES)) {
    const started = performance.now();
    // In both copies at once, as with the faults.
    const results = await Promise.all(folders.map((folder) => runSuite(folder, suite, MAX_TIMEOUT_MS)));
    for (const result of results) if (result !== "passed") throw new Error(`without a fault, ${suite} ${result}`);
    const timeoutMs = Math.ceil(TIMEOUT_FACTOR * (performance.now() - started));
    timeouts.set(suite, Math.min(MAX_TIMEOUT_MS, Math.max(MIN_TIMEOUT_MS, timeoutMs)));
  }
  const queue = async (folder: string) => {
    for (let mutant = waiting.pop(); mutant !== undefined; mutant = waiting.pop())
      findings.push(await testMutant(folder, mutant, timeouts));
  };
  await Promise.all(folders.map(queue));
} finally {
  for (const folder of folders) await rm(folder, { recursive: true });
}
if (process.argv.includes("--write"))
  await writeFile(
    "docs/mutation-tests.md",
    mutationDocument({ findings, all: all.length, seed, commit, date: new Date() }, Object.keys(SUITES)),
  );
console.log(`${findings.filter(({ foundBy }) => foundBy !== undefined).length} of ${findings.length} found`);
const unjudged = unjudgedFaults(findings);
for (const text of unjudged) console.log(`neither found nor judged: ${text}`);
process.exitCode = share(findings) >= REQUIRED && unjudged.length === 0 ? 0 : 1;
