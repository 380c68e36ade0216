import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { decideScope, pathsToLint, readScope, recordPass, type Snapshot, takeSnapshot } from "./check-scope.ts";
import { runSuite } from "./suite.ts";
import { findTests, limitToAffected, testSuite } from "./suites.ts";

test.each([
  [undefined, undefined, { allBecause: "no check has passed in this clone yet" }],
  ["5c34", undefined, { allBecause: "Git cannot compare with the last check that passed" }],
  ["5c34", [], { since: "5c34", changed: [] }],
  [
    "5c34",
    ["agent/decide/pod/pod.ts", "docs/a.json"],
    { since: "5c34", changed: ["agent/decide/pod/pod.ts", "docs/a.json"] },
  ],
  ["5c34", ["agent/main.ts", "package-lock.json"], { allBecause: "package-lock.json has changed" }],
  ["5c34", ["test/golden/differential/a.json"], { allBecause: "test/golden/differential/a.json has changed" }],
  ["5c34", ["setup.mjs"], { allBecause: "setup.mjs has changed" }],
])("after a check that passed at %p and the changes %j, a check runs %j", (checked, changed, expected) => {
  expect(decideScope(checked, changed)).toEqual(expected);
});

/** Nothing of the clone that runs this test, and no settings of its user. */
const gitEnv = {
  ...{ GIT_DIR: undefined, GIT_WORK_TREE: undefined, GIT_INDEX_FILE: undefined },
  ...{ GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1" },
};
const originalFolder = process.cwd();
let root = "";
const author = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
const git = (...args: readonly string[]) => execa("git", [...author, ...args], { cwd: root, env: gitEnv });
const write = (name: string, text: string) => writeFile(join(root, name), text);
const testOf = (name: string, title = name) =>
  `import { expect, test } from "bun:test";\nimport { ${name} } from "./${name}.ts";\ntest("${title} is one", () => { expect(${name}).toBe(1); });\n`;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-scope-test-"));
  await git("init", "-q");
  await mkdir(join(root, "host"));
  await write(".gitignore", "node_modules\n");
  for (const name of ["a", "b"]) {
    await write(`host/${name}.ts`, `export const ${name} = 1;\n`);
    await write(`host/${name}.test.ts`, testOf(name));
  }
  await git("add", ".");
  await git("commit", "-qm", "first");
});
afterEach(() => rm(root, { recursive: true }));

const commitOf = (snapshot: Snapshot) => ("commit" in snapshot ? snapshot.commit : "");
const scopeNow = async () => readScope(root, await takeSnapshot(root));
const pass = async () => recordPass(root, commitOf(await takeSnapshot(root)));

/** Runs what a check would run: returns the number of passed tests and the names of failed ones. */
async function runAffected(): Promise<{ readonly passed: number; readonly failed: readonly string[] }> {
  const scope = await scopeNow();
  if (!("since" in scope)) throw new Error(`the whole check runs: ${scope.allBecause}`);
  const suite = limitToAffected(testSuite("affected", await findTests(root)), scope.since);
  const reports = await mkdtemp(join(tmpdir(), "berth-scope-reports-"));
  process.chdir(root);
  try {
    const { passed, failed } = await runSuite(suite, reports);
    return { passed, failed };
  } finally {
    process.chdir(originalFolder);
    await rm(reports, { recursive: true });
  }
}

const nothing = { passed: 0, failed: [] };

test("the first check runs all tests, and one without a change none", async () => {
  expect(await scopeNow()).toEqual({ allBecause: "no check has passed in this clone yet" });
  await pass();
  expect(await runAffected()).toEqual(nothing);
});

test("a check runs the tests that import a changed file, committed or not", async () => {
  await pass();
  await write("host/a.ts", "export const a = 2;\n");
  expect(await runAffected()).toEqual({ passed: 0, failed: ["a is one"] });
  await git("commit", "-qam", "second");
  expect(await runAffected()).toEqual({ passed: 0, failed: ["a is one"] });
  await write("host/a.ts", "export const a = 1;\n");
  expect(await runAffected()).toEqual(nothing);
});

test("a check runs the tests that import a changed file through another one", async () => {
  await write("host/b.ts", 'export { a as b } from "./a.ts";\n');
  await pass();
  await write("host/a.ts", "export const a = 3 - 2;\n");
  expect(await runAffected()).toEqual({ passed: 2, failed: [] });
});

test("a check that has passed with an uncommitted change sees when the change is taken back", async () => {
  await write("host/b.ts", "export const b = 2 - 1;\n");
  await pass();
  expect(await runAffected()).toEqual(nothing);
  await git("checkout", "-q", "host/b.ts");
  expect(await runAffected()).toEqual({ passed: 1, failed: [] });
});

test("a check runs a new test, and none for a new file that nothing imports once it has passed", async () => {
  await pass();
  await write("host/c.test.ts", testOf("a", "c"));
  expect(await runAffected()).toEqual({ passed: 1, failed: [] });
  await write("notes.txt", "a note\n");
  expect(await scopeNow()).toEqual({ allBecause: "notes.txt has changed" });
  await pass();
  expect(await scopeNow()).toMatchObject({ since: expect.any(String) });
});

test("a check runs all tests when a file that no import names has changed, or has become a document", async () => {
  await write("table.json", "{}\n");
  await pass();
  await mkdir(join(root, "docs"));
  await rename(join(root, "table.json"), join(root, "docs/table.json"));
  expect(await scopeNow()).toEqual({ allBecause: "table.json has changed" });
});

test("a check sees that a file is gone which Git did not know when the last one passed", async () => {
  await write("table.json", "{}\n");
  await pass();
  await rm(join(root, "table.json"));
  expect(await scopeNow()).toEqual({ allBecause: "table.json has changed" });
});

test("a snapshot leaves the index of the clone alone, and can be taken in a conflict", async () => {
  await git("checkout", "-qb", "other");
  await write("host/a.ts", "export const a = 5;\n");
  await git("commit", "-qam", "other");
  await git("checkout", "-q", "-");
  await write("host/a.ts", "export const a = 6;\n");
  await git("commit", "-qam", "this");
  await execa("git", [...author, "merge", "-q", "other"], { cwd: root, env: gitEnv, reject: false });
  await write("host/new.ts", "export const one = 1;\n");
  const before = (await git("status", "--porcelain")).stdout;
  expect(before).toContain("UU host/a.ts");
  expect(commitOf(await takeSnapshot(root))).toMatch(/^[0-9a-f]{40}$/);
  expect((await git("status", "--porcelain")).stdout).toBe(before);
});

test("a check runs all tests when Git has lost the last snapshot, and without Git", async () => {
  const lost = { allBecause: "Git cannot compare with the last check that passed" };
  await recordPass(root, "0123456789012345678901234567890123456789");
  expect(await scopeNow()).toEqual(lost);
  await rm(join(root, ".git"), { recursive: true });
  expect(await takeSnapshot(root)).toEqual({ problem: expect.stringContaining("not a git repository") });
  expect(await scopeNow()).toEqual(lost);
});

test("lints what has changed and what imports it, also a file that Git does not know yet, and one whose import is gone", async () => {
  expect(await pathsToLint(root, [])).toEqual([]);
  expect(await pathsToLint(root, ["README.md"])).toEqual([]);
  expect(await pathsToLint(root, ["host/a.test.ts"])).toEqual(["host/a.test.ts"]);
  await mkdir(join(root, "cni"));
  await write("cni/new.ts", 'export { a } from "../host/a.ts";\n');
  expect(await pathsToLint(root, ["host/a.ts"])).toEqual(["cni/new.ts", "host/a.test.ts", "host/a.ts"]);
  await rm(join(root, "host/b.ts"));
  expect(await pathsToLint(root, ["host/b.ts"])).toEqual(["host/b.test.ts"]);
});
