import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unpackPackages } from "./bed/packages.ts";
import { resetBeds } from "./bed/reset.ts";
import { announce, announceFailures, check } from "./check.ts";
import { createInterruption, type Interruption } from "./interruption.ts";
import { selectSeed } from "./run-seed.ts";
import { applySkipPolicy, isWithoutUpstream, requiresAll } from "./skip-policy.ts";
import { type Outcome, runSuite, type Suite } from "./suite.ts";
import {
  checkedFiles,
  docsConformanceSuite,
  findTests,
  fuzzSuites,
  guestSuites,
  longSuite,
  machineSuites,
  runInQueues,
  scenarioSuites,
  withLowPriority,
  withSeed,
} from "./suites.ts";
import { closingLine, seconds } from "./test-summary.ts";
import { unavailableReason } from "./upstream/programs.ts";

const minuteMs = 60_000;

/** Builds Kubernetes' own programs, which takes minutes if Go's caches are empty. It can be left out on demand. */
async function upstreamSuite(): Promise<Suite> {
  const unavailable = isWithoutUpstream(process.env)
    ? "BERTH_WITHOUT_UPSTREAM=1 leaves out what needs Kubernetes' own programs"
    : await unavailableReason();
  const argv = [process.execPath, "test/upstream/build.ts"];
  // The timeout is long because the build runs beside other suites.
  return { name: "upstream programs", argv, hasReport: false, timeoutMs: 60 * minuteMs, unavailable };
}

async function runAll(print: (line: string) => void, interruption: Interruption): Promise<readonly Outcome[]> {
  const emulation =
    process.arch === "arm64"
      ? []
      : (["bookworm-emulator", "bookworm-arm64", "bookworm-cross", "vm-host", "vm-node"] as const);
  for (const packageSet of ["bookworm", "bookworm-dbus", "bookworm-nftables", "trixie", "forky", ...emulation] as const)
    await unpackPackages(packageSet, print);
  await resetBeds(false, (line) => print(`leftover of an earlier run: ${line}`));
  const reports = await mkdtemp(join(tmpdir(), "berth-test-"));
  print(`reports in ${reports}`);
  const seed = await selectSeed(process.env);
  print(`BERTH_SEED=${seed} repeats the random choices of the tests on fakes`);
  const files = await findTests(".");
  const outcomes: Outcome[] = [];
  const began = performance.now();
  const printTime = (what: string) => print(`${what} ended after ${seconds(performance.now() - began)}`);
  const run = async (suite: Suite, needsUpstream = false) => {
    const result = await runSuite(suite, reports, interruption);
    const outcome = await announce(applySkipPolicy(result, needsUpstream, process.env), print);
    outcomes.push(outcome);
    return outcome;
  };
  // Runs in parallel with the suites that do not need it.
  const upstreamBuild = await upstreamSuite();
  const upstream = run(upstreamBuild, true);
  const checked = await check(checkedFiles(files), reports, print, interruption, {
    env: { BERTH_SEED: seed },
  });
  outcomes.push(...checked.map((outcome) => applySkipPolicy(outcome, false, process.env)));
  printTime("the check");
  await run({ name: "build", argv: [process.execPath, "cli/build.ts"], hasReport: false, timeoutMs: 5 * minuteMs });
  // Without this, each suite would try to build the programs itself.
  const built = upstream.then(({ failed }) =>
    failed.length > 0 ? "the upstream programs could not be built" : upstreamBuild.unavailable,
  );
  const fuzz = fuzzSuites(files, { inputs: requiresAll(process.env) ? 10_000 : 2000, manifests: 2000 });
  const machine = machineSuites(files);
  // They keep less than half a processor busy, and one of them takes two minutes.
  const suites = { ...machine, idle: [...machine.idle, withSeed(longSuite(files), seed)] };
  const last = [...suites.aloneUpstream, ...guestSuites(process.arch)];
  const needsUpstream = new Set([...suites.upstream, ...suites.heavy, ...suites.idleUpstream, ...last]);
  const runMachineSuite = async (suite: Suite) =>
    needsUpstream.has(suite) ? await run({ ...suite, unavailable: await built }, true) : await run(suite);
  // What needs nothing but the processor gets what the others leave.
  const background = [...scenarioSuites(files), ...fuzz, docsConformanceSuite(files)].map((suite) =>
    withLowPriority(withSeed(suite, seed)),
  );
  const runInBackground = async () => {
    for (let suite = background.shift(); suite !== undefined; suite = background.shift()) await run(suite);
  };
  // It waits for the build, so that it runs beside the suites of control planes, which leave a processor idle.
  const computed = built.then(runInBackground);
  const queues = runInQueues(suites, built, runMachineSuite, computed).then(() => printTime("the queues"));
  // What is left has both processors.
  await Promise.all([computed, queues.then(runInBackground)]);
  printTime("what has the lowest priority");
  for (const suite of [...suites.alone, ...last]) await runMachineSuite(suite);
  return outcomes;
}

process.chdir(join(import.meta.dirname, ".."));
const started = performance.now();
const cleanUp = () => resetBeds(false, console.log);
const outcomes = await runAll(console.log, createInterruption({ print: console.log, cleanUp }));
await announceFailures(outcomes, console.log);
console.log(`total time: ${seconds(performance.now() - started)}`);
console.log(closingLine(outcomes));
process.exitCode = outcomes.some(({ failed }) => failed.length > 0) ? 1 : 0;
