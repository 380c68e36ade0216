import { expect, test } from "bun:test";
import type { Suite } from "./suite.ts";
import { extendedSuites, findTests, LONGEST_FIRST, machineSuites, runInQueues, type TestFile } from "./suites.ts";

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
  const queues = startSuites(["a", "b", "c", "d"], ["x", "y"], ["h", "i"]);
  expect(await queues.running()).toEqual(["a", "b"]);
  await queues.finishBuild();
  await queues.end("a");
  expect(await queues.running()).toEqual(["b", "h"]);
  await queues.end("b");
  expect(await queues.running()).toEqual(["h", "c"]);
  await queues.end("c", "d");
  expect(await queues.running()).toEqual(["h", "x"]);
  await queues.end("x");
  expect(await queues.running()).toEqual(["h", "y"]);
  await queues.end("h", "y");
  expect(await queues.running()).toEqual(["i"]);
  await queues.end("i");
  await queues.done;
});

test("a third queue takes the suites that wait, and the others help when they have ended", async () => {
  const queues = startSuites(["a", "b"], ["x"], [], { plain: ["i", "j", "k"], upstream: ["y"] });
  expect(await queues.running()).toEqual(["a", "b", "i"]);
  await queues.end("i");
  expect(await queues.running()).toEqual(["a", "b", "j"]);
  await queues.finishBuild();
  await queues.end("j");
  expect(await queues.running()).toEqual(["a", "b", "y"]);
  await queues.end("a", "b");
  expect(await queues.running()).toEqual(["y", "x", "k"]);
  await queues.end("y", "x", "k");
  await queues.done;
});

test("a further queue takes any suite but a heavy one, once what only computes has ended", async () => {
  const queues = startSuites(["a", "b", "c"], ["x"], ["h", "i"], { plain: ["j", "k"], upstream: [] });
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["a", "b", "j"]);
  await queues.finishComputing();
  expect(await queues.running()).toEqual(["a", "b", "j", "x"]);
  await queues.end("x");
  expect(await queues.running()).toEqual(["a", "b", "j", "c"]);
  await queues.end("a", "b", "j", "c", "h", "k", "i");
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

test("every test file is in exactly one suite, or is quick, random or extended", async () => {
  const files = await findTests(".");
  const suites = Object.values<readonly Suite[]>({ ...machineSuites(files) }).flat();
  const inSuites = suites.flatMap(({ argv }) => argv.filter((arg) => arg.endsWith(".test.ts")));
  const elsewhere = files.filter(isElsewhere).map(({ path }) => `./${path}`);
  expect([...inSuites, ...elsewhere].toSorted()).toEqual(files.map(({ path }) => `./${path}`).toSorted());
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

test("the tests of several releases of containerd run on the releases in between in the extended run", async () => {
  const extended = extendedSuites(await findTests("."));
  expect(extended.find(({ name }) => name === "e2e agent-kill on containerd 1.7,2.0")).toMatchObject({
    argv: expect.arrayContaining(["./test/e2e/agent-kill.test.ts"]),
    env: { BERTH_CONTAINERD: "1.7,2.0" },
  });
  for (const version of ["1.7", "2.0"])
    expect(extended.map(({ name }) => name)).toContain(`contract extended runtime-containerd-${version}`);
});

const isElsewhere = ({ path, isQuick, isFuzz, isExtended }: TestFile) =>
  isQuick || isFuzz || isExtended || path.startsWith("test/docs-conformance/");
