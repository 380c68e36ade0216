import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildInto, requiredVersion } from "./go-module.ts";

let cache = "";
beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), "berth-go-module-test-"));
});
afterEach(() => rm(cache, { recursive: true }));

test("a build appears in one step, and of two at once the first one stays", async () => {
  const folder = join(cache, "upstream", "program-1.0");
  await buildInto(folder, async (work) => {
    await buildInto(folder, (other) => writeFile(join(other, "program"), "of the other process"));
    await writeFile(join(work, "program"), "own");
  });
  expect(await readFile(join(folder, "program"), "utf8")).toBe("of the other process");
  expect(await readdir(join(cache, "upstream"))).toEqual(["program-1.0"]);
});

test("a failed build leaves nothing", async () => {
  const folder = join(cache, "program-1.0");
  await expect(buildInto(folder, () => Promise.reject(new Error("syntax error")))).rejects.toThrow("syntax error");
  expect(await readdir(cache)).toEqual([]);
});

test("a go.mod names the version of a module, and its absence is an error", () => {
  expect(requiredVersion("require (\n\texample.org/a/v2 v2.0.14 // indirect\n)\n", "example.org/a/v2")).toBe("2.0.14");
  expect(() => requiredVersion("module b\n", "example.org/a")).toThrow("go.mod requires no example.org/a");
});
