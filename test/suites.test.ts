import { expect, test } from "bun:test";
import type { Suite } from "./suite.ts";
import { findTests, machineSuites, runInThreeQueues, type TestFile } from "./suites.ts";

const suite = (name: string): Suite => ({ name, argv: [], hasReport: true, timeoutMs: 1000 });

/** Runs suites that end when the caller says so. */
function startSuites(plain: readonly string[], upstream: readonly string[]) {
  const running = new Map<string, () => void>();
  const build = Promise.withResolvers<void>();
  const done = runInThreeQueues(
    { plain: plain.map(suite), upstream: upstream.map(suite) },
    build.promise,
    (started) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.set(started.name, resolve);
      return promise;
    },
  );
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return {
    done,
    async running() {
      await settle();
      return [...running.keys()];
    },
    async end(name: string) {
      running.get(name)?.();
      running.delete(name);
      await settle();
    },
    async finishBuild() {
      build.resolve();
      await settle();
    },
  };
}

test("suites that need the upstream programs begin after the build, two at a time while others wait", async () => {
  const queues = startSuites(["a", "b", "c", "d"], ["x", "y", "z"]);
  expect(await queues.running()).toEqual(["a", "b", "c"]);
  await queues.finishBuild();
  await queues.end("a");
  expect(await queues.running()).toEqual(["b", "c", "x"]);
  await queues.end("b");
  await queues.end("c");
  expect(await queues.running()).toEqual(["x", "y", "d"]);
  await queues.end("d");
  expect(await queues.running()).toEqual(["x", "y", "z"]);
  for (const name of ["x", "y", "z"]) await queues.end(name);
  await queues.done;
});

test("queues without a suite wait for the build", async () => {
  const queues = startSuites(["a"], ["x", "y"]);
  await queues.end("a");
  expect(await queues.running()).toEqual([]);
  await queues.finishBuild();
  expect(await queues.running()).toEqual(["x", "y"]);
  for (const name of ["x", "y"]) await queues.end(name);
  await queues.done;
});

test("every test file is in exactly one suite, or is quick, random or extended", async () => {
  const files = await findTests(".");
  const { plain, upstream, alone } = machineSuites(files);
  const machine = [...plain, ...upstream, ...alone].flatMap(({ argv }) =>
    argv.filter((arg) => arg.endsWith(".test.ts")),
  );
  const others = files.filter(isElsewhere).map(({ path }) => `./${path}`);
  expect([...machine, ...others].toSorted()).toEqual(files.map(({ path }) => `./${path}`).toSorted());
  expect(alone.filter(({ argv }) => upstream.some((each) => each.argv.at(-1) === argv.at(-1)))).toEqual([]);
});

const isElsewhere = ({ path, isQuick, isFuzz, isExtended }: TestFile) =>
  isQuick || isFuzz || isExtended || /^test\/(docs-conformance|vm)\//.test(path);
