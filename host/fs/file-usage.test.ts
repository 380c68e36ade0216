import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { usageOfFile, usageOfFiles } from "./file-usage.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-file-usage-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("only the files directly in a folder count, and a symlink for itself alone", async () => {
  await writeFile(join(folder, "0.log"), "x".repeat(20_000));
  const { usedBytes = 0 } = (await usageOfFile(join(folder, "0.log"))) ?? {};
  expect(usedBytes).toBeGreaterThanOrEqual(20_000);
  await mkdir(join(folder, "below"));
  await writeFile(join(folder, "below/large"), "x".repeat(100_000));
  await symlink(join(folder, "below/large"), join(folder, "link"));
  expect(await usageOfFiles(folder)).toEqual({ usedBytes, inodesUsed: 2 });
});

test("what does not exist, or is a folder in place of a file, is undefined", async () => {
  expect(await usageOfFiles(join(folder, "none"))).toBeUndefined();
  expect(await usageOfFile(join(folder, "none"))).toBeUndefined();
  expect(await usageOfFile(folder)).toBeUndefined();
  await writeFile(join(folder, "file"), "");
  expect(await usageOfFiles(join(folder, "file"))).toBeUndefined();
});
