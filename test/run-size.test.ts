import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { otherVariables, reducedBy, reducingVariables } from "./run-size.ts";

const root = join(import.meta.dirname, "..");

/** A read of one variable, or of those that a pattern names: `env["DIE_AT"]`, `{ DIE_AT: dieAt }: Environment`. */
const READ = /\benv\["(\w+)"\]|\benv\.([A-Z_]+)\b|\{([^{}]*)\}(?:: Environment\b| = (?:process\.)?env\b)/g;

function variablesIn(text: string): readonly string[] {
  return [...text.matchAll(READ)].flatMap(([, quoted, dotted, names = ""]) => [
    ...[quoted, dotted].filter((name) => name !== undefined),
    ...(names.match(/\b[A-Z][A-Z_]+\b/g) ?? []),
  ]);
}

test("the tests read no variable that neither list names", async () => {
  const paths = [...new Bun.Glob("**/*.ts").scanSync(root)].filter(
    (path) => !path.startsWith("node_modules/") && (path.startsWith("test/") || path.endsWith(".fuzz.test.ts")),
  );
  const read = new Set<string>();
  for (const path of paths.filter((each) => !each.startsWith("test/run-size")))
    for (const name of variablesIn(await readFile(join(root, path), "utf8"))) read.add(name);
  const named = [...reducingVariables, ...Object.keys(otherVariables)];
  // The runtime's, not the tester's.
  expect([...read].filter((name) => !named.includes(name) && !name.startsWith("CNI_"))).toEqual([]);
  expect(named.filter((name) => !read.has(name))).toEqual([]);
});

test.each<[string, readonly string[]]>([
  ['const count = Number(process.env["BERTH_CHAOS"] ?? 200);', ["BERTH_CHAOS"]],
  ["const runs = Bun.env.FUZZ_RUNS;", ["FUZZ_RUNS"]],
  ["function select({ DIE_AT, DIE_BOTH }: Environment, turn: number)", ["DIE_AT", "DIE_BOTH"]],
  ["const { DIE_AT: dieAt, DIE_EVERY: dieEvery } = env;", ["DIE_AT", "DIE_EVERY"]],
])("finds the variables in %s", (text, names) => {
  expect(variablesIn(text)).toEqual(names);
});

test.each<[env: Readonly<Record<string, string>>, reduced: readonly string[]]>([
  [{ BERTH_SEED: "1", DIE_BOTH: "1", PATH: "/bin" }, []],
  [{ FUZZ_RUNS: "10" }, ["FUZZ_RUNS"]],
  [{ FUZZ_RUNS: "" }, ["FUZZ_RUNS"]],
  [{ DIE_EVERY: "17", BERTH_PODS: "a" }, ["DIE_EVERY", "BERTH_PODS"]],
])("with %p in the environment, %p make the run smaller", (env, reduced) => {
  expect(reducedBy(env)).toEqual([...reduced]);
});

test("the CI script passes none of them on", async () => {
  const script = await readFile(join(root, ".ci", "run"), "utf8");
  const unset = script.replaceAll("\\\n", "").match(/^unset (.*)$/m)?.[1] ?? "";
  expect(unset.trim().split(/\s+/).toSorted()).toEqual([...reducingVariables].toSorted());
});

test("the extended run refuses them before it runs a suite", async () => {
  const run = Bun.spawn([process.execPath, join(root, "test/extended.ts"), "no such suite"], {
    env: { PATH: process.env["PATH"], DIE_EVERY: "17", BERTH_PODS: "a" },
    stdout: "ignore",
    stderr: "pipe",
  });
  expect(await run.stderr.text()).toContain("without DIE_EVERY, BERTH_PODS");
  expect(await run.exited).toBe(1);
});
