import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { programName } from "./program-name.ts";

let folder = "";
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-name-")));
  await writeFile(join(folder, "berth"), "");
});
afterEach(() => rm(folder, { recursive: true }));

const nameOf = (argv0: string, which: string | null = null, isCompiled = true) =>
  programName({ argv0, execPath: join(folder, "berth"), isCompiled, which: () => which });

test("a program that the shell has found is called by its name", () => {
  expect(nameOf("berth")).toBe("berth");
});

test("a program that was called by its path, and that the shell does not find, is called by that path", () => {
  expect(nameOf("dist/berth")).toBe("dist/berth");
});

test("a program that was called by its path is called by its name where the shell finds it", async () => {
  await symlink("berth", join(folder, "link"));
  expect(nameOf("/usr/bin/berth", join(folder, "link"))).toBe("berth");
});

test("a program that was called by its path is called by that path where the shell finds another one", async () => {
  await writeFile(join(folder, "installed"), "");
  expect(nameOf("dist/berth", join(folder, "installed"))).toBe("dist/berth");
});

test("a run from source is called berth", () => {
  expect(nameOf("/usr/bin/bun", null, false)).toBe("berth");
});
