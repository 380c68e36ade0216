import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { containerdVersions } from "./bed/containerd/containerd.ts";
import { versionsUnderTest } from "./e2e/versions-under-test.ts";
import { runSuite, type Suite } from "./suite.ts";
import {
  checkedFiles,
  docsConformanceSuite,
  extendedSuites,
  findTests,
  fuzzSuites,
  LONGEST_FIRST,
  longSuite,
  machineSuites,
  runInQueues,
  scenarioSuites,
  staticSuites,
  withSeed,
} from "./suites.ts";

const suite = (name: string): Suite => ({ name, argv: [], hasReport: true, timeoutMs: 1000 });

/** Runs suites that end when the caller says so. */
function startSuites(
  plain: readonly string[],
  upstream: readonly string[],
  heavy: readonly string[] = [],
  idle: { readonly plain: readonly string[]; readonly upstream: readonly string[] } = { plain: [], upstream: [] },
) {
  const running = new Map<string, () => void>();
  const build = Promise.withResolvers<void>();
  const computed = Promise.withResolvers<void>();
  const groups = {
    ...{ plain: plain.map(suite), upstream: upstream.map(suite), heavy: heavy.map(suite) },
    ...{ idle: idle.plain.map(suite), idleUpstream: idle.upstream.map(suite) },
  };
  const run = (started: Suite) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    running.set(started.name, resolve);
    return promise;
  };
  const done = runInQueues(groups, build.promise, run, computed.promise);
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    done,
    async running() {
      await settle();
      return [...running.keys()];
    },
    async end(...names: readonly string[]) {
      for (const name of names) {
        running.get(name)?.();
        running.delete(name);
        await settle();
      }
    },
    async finishComputing() {
      computed.resolve();
      await settle();
    },
    async finishBuild() {
      build.resolve();
      await settle();
    },
  };
}

test("suites that need the upstream programs begin after the build, one heavy one at a time", async () => {
  const queues = startSuites(["a", "b", "c"], ["x", "y"], ["h", "i"]);
  expect(await queues.running()).toEqual(["a"]);
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["a", "h"]);
  await queues.end("a");
  expect(await queues.running()).toEqual(["h", "b"]);
  await queues.end("b", "c");
  expect(await queues.running()).toEqual(["h", "x"]);
  await queues.end("x");
  expect(await queues.running()).toEqual(["h", "y"]);
  await queues.end("h", "y");
  expect(await queues.running()).toEqual(["i"]);
  await queues.end("i");
  await queues.done;
});

test("a third queue takes the suites that wait, and the others help when they have ended", async () => {
  const queues = startSuites(["a"], ["x"], [], { plain: ["i", "j", "k"], upstream: ["y"] });
  expect(await queues.running()).toEqual(["a", "i"]);
  await queues.end("i");
  expect(await queues.running()).toEqual(["a", "j"]);
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["a", "j", "x"]);
  await queues.end("j");
  expect(await queues.running()).toEqual(["a", "x", "y"]);
  await queues.end("a", "x");
  expect(await queues.running()).toEqual(["y", "k"]);
  await queues.end("y", "k");
  await queues.done;
});

test("a further queue takes any suite but a heavy one, once what only computes has ended", async () => {
  const queues = startSuites(["a", "b", "c"], ["x"], ["h", "i"], { plain: ["j", "k"], upstream: [] });
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["a", "j", "h"]);
  await queues.finishComputing();
  expect(await queues.running()).toEqual(["a", "j", "h", "x"]);
  await queues.end("x");
  expect(await queues.running()).toEqual(["a", "j", "h", "b"]);
  await queues.end("a", "j", "h", "b", "c", "i", "k");
  await queues.done;
});

test("queues without a suite wait for the build", async () => {
  const queues = startSuites(["a"], ["x", "y"]);
  await queues.end("a");
  expect(await queues.running()).toEqual([]);
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["x", "y"]);
  await queues.end("x", "y");
  await queues.done;
});

test("npm test runs each test file in exactly one suite, but for those of the extended run", async () => {
  const files = await findTests(".");
  const suites = [
    ...Object.values<readonly Suite[]>({ ...machineSuites(files) }).flat(),
    ...[longSuite(files), docsConformanceSuite(files)],
    ...[...scenarioSuites(files), ...fuzzSuites(files, { inputs: 10 })],
  ];
  const inSuites = suites.flatMap(({ argv }) => argv.filter((arg) => arg.endsWith(".test.ts")));
  const others = [...checkedFiles(files), ...files.filter(({ isExtended }) => isExtended)].map(
    ({ path }) => `./${path}`,
  );
  expect([...inSuites, ...others].toSorted()).toEqual(files.map(({ path }) => `./${path}`).toSorted());
});

test("a test that starts a program of the clone or reads its files always runs, one of its imports alone does not", async () => {
  const files = await findTests(".");
  const alwaysRuns = (path: string) => files.find((file) => file.path === path)?.alwaysRuns;
  for (const path of ["cli/run.test.ts", "test/tidy/tidy.test.ts", "test/readme.test.ts", "cli/build.test.ts"])
    expect([path, alwaysRuns(path)]).toEqual([path, true]);
  for (const path of ["agent/decide/pod/pod.test.ts", "test/scenarios/start.test.ts"])
    expect([path, alwaysRuns(path)]).toEqual([path, false]);
});

test("each of the longest suites exists, and begins before the others of its group", async () => {
  const all = Object.values<readonly Suite[]>({ ...machineSuites(await findTests(".")) });
  const groups = all.map((group) => group.map(({ name }) => name));
  expect(LONGEST_FIRST.filter((name) => !groups.flat().includes(name))).toEqual([]);
  for (const group of groups) {
    const longest = LONGEST_FIRST.filter((name) => group.includes(name));
    expect(group.slice(0, longest.length)).toEqual(longest);
  }
});

test("npm test and the extended run together try each release of containerd", async () => {
  const extended = extendedSuites(await findTests("."));
  const releasesOf = (title: string) =>
    extended
      .filter(({ name }) => name.startsWith(`${title} on containerd `))
      .flatMap(({ env }) => env?.["BERTH_CONTAINERD"]?.split(",") ?? []);
  expect([...versionsUnderTest, ...releasesOf("e2e agent-kill")].toSorted()).toEqual(
    [...containerdVersions].toSorted(),
  );
  for (const version of ["1.7", "2.0"])
    expect(extended.map(({ name }) => name)).toContain(`contract extended runtime-containerd-${version}`);
});

test("the extended run tries berth-cni as the whole program, where npm test tries one form", async () => {
  const whole = extendedSuites(await findTests(".")).filter(({ env }) => env?.["BERTH_DELEGATE_FORM"] === "whole");
  expect(whole.map(({ name }) => name)).toEqual([
    "contract cni-delegate-stops with the whole program",
    "contract cni-delegate with the whole program",
  ]);
});

test("of random manifests fewer are tried than of other inputs, unless FUZZ_RUNS gives the number of all", async () => {
  const files = await findTests(".");
  const inputsOf = (title: string, env: Readonly<Record<string, string>>) =>
    fuzzSuites(files, { inputs: 10_000, manifests: 2000 }, env).find(({ name }) => name === `fuzz ${title}`)?.env;
  expect(inputsOf("agent desired static manifest", {})).toEqual({ FUZZ_RUNS: "2000" });
  expect(inputsOf("cni readers", {})).toEqual({ FUZZ_RUNS: "10000" });
  expect(inputsOf("agent desired static manifest", { FUZZ_RUNS: "7" })).toEqual({ FUZZ_RUNS: "7" });
});

test.each([
  [{}, "5"],
  [{ DIE_EVERY: "1" }, "1"],
  [{ DIE_BOTH: "1" }, "1"],
])("with %j the agent dies after one of %s calls of a scenario in npm test", async (env, expected) => {
  for (const suite of scenarioSuites(await findTests("."), env)) expect(suite.env).toEqual({ DIE_EVERY: expected });
});

test("withSeed adds BERTH_SEED to the environment of a suite", async () => {
  const [fuzz] = fuzzSuites(await findTests("."), { inputs: 10 }, {});
  expect(withSeed(fuzz!, "7").env).toEqual({ FUZZ_RUNS: "10", BERTH_SEED: "7" });
});

test("the check lints what has changed, nothing without a change, and no generated file", async () => {
  const lint = (linted?: readonly string[]) => staticSuites(linted).find(({ name }) => name === "format and lint");
  expect(lint()?.argv).toEqual([expect.stringContaining("biome"), "ci", "--colors=off", "--error-on-warnings"]);
  expect(lint([])).toBeUndefined();
  expect(lint(["test/random.ts"])?.argv.at(-1)).toBe("test/random.ts");
  const reports = await mkdtemp(join(tmpdir(), "berth-lint-"));
  try {
    const { passed, failed } = await runSuite(lint(["proto/cri/gen/api.ts"])!, reports);
    expect({ passed, failed }).toEqual({ passed: 1, failed: [] });
  } finally {
    await rm(reports, { recursive: true });
  }
}, 60_000);
