import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runSuite, type Suite, strayFailures } from "./suite.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-suite-test-"));
});
afterAll(() => rm(folder, { recursive: true }));

const suite = (argv: readonly string[]): Suite => ({ name: "a suite", argv, hasReport: false, timeoutMs: 10_000 });

async function testFile(name: string, text: string): Promise<Suite> {
  const path = join(folder, `${name}.test.ts`);
  await writeFile(path, text);
  return { ...suite([process.execPath, "test", path]), name, hasReport: true };
}

test("a program with exit code 0 counts as one passed test", async () => {
  expect(await runSuite(suite(["true"]), folder)).toMatchObject({ passed: 1, failed: [] });
});

test("a program with another exit code counts as one failure, with its output in the log", async () => {
  const outcome = await runSuite(suite(["ls", "/nowhere"]), folder);
  expect(outcome).toMatchObject({ passed: 0, failed: ["a suite ended with code 2"] });
  expect(await readFile(outcome.log, "utf8")).toContain("/nowhere");
});

test("a missing program counts as a failure with ENOENT", async () => {
  expect((await runSuite(suite(["/no/such/program"]), folder)).failed).toEqual([expect.stringContaining("ENOENT")]);
});

test("a program that hangs is killed and counts as a failure", async () => {
  const outcome = await runSuite({ ...suite(["sleep", "60"]), timeoutMs: 50 }, folder);
  expect(outcome.failed).toEqual(["a suite ran longer than 0.05 s"]);
});

test("a suite that cannot run here is skipped with its reason", async () => {
  const outcome = await runSuite({ ...suite(["true"]), unavailable: "no go on PATH" }, folder);
  expect(outcome).toMatchObject({ passed: 0, failed: [], skipped: ["a suite: no go on PATH"] });
});

test("the tests of a file are counted", async () => {
  const counted = await testFile(
    "counted",
    `import { expect, test } from "bun:test";
test("good", () => {});
test("bad", () => expect(1).toBe(2));
test.skip("needs a moon", () => {});`,
  );
  expect(await runSuite(counted, folder)).toMatchObject({ passed: 1, failed: ["bad"], skipped: ["needs a moon"] });
});

test("a file that cannot be loaded counts as a failure, although the report omits it", async () => {
  const broken = await testFile("broken", `throw new Error("broken");`);
  expect((await runSuite(broken, folder)).failed).toEqual([
    expect.stringContaining("broken.test.ts could not be loaded"),
  ]);
});

test("a file without tests counts as a failure", async () => {
  expect((await runSuite(await testFile("empty", ""), folder)).failed).toHaveLength(1);
});

test("a killed run counts as a failure, unless reported failures explain its end", () => {
  expect(strayFailures("", "ended with SIGKILL", 0)).toEqual(["the run ended with SIGKILL"]);
  expect(strayFailures("", "ended with code 1", 2)).toEqual([]);
  expect(strayFailures("", undefined, 0)).toEqual([]);
});
