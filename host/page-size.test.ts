import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readPageBytes } from "./page-size.ts";

test("the page size of this machine is a power of two, at least 4 KiB", () => {
  expect(readPageBytes()).toBeGreaterThanOrEqual(4096);
  expect(Number.isInteger(Math.log2(readPageBytes()))).toBe(true);
});

test("the page size is a pair of the auxiliary vector", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-auxv-"));
  const file = join(folder, "auxv");
  await writeFile(file, new BigUint64Array([3n, 6n, 6n, 16_384n, 0n, 0n]));
  expect(readPageBytes(file)).toBe(16_384);
  await writeFile(file, new BigUint64Array([3n, 6n, 0n, 0n]));
  expect(() => readPageBytes(file)).toThrow(`${file} does not contain the size of a page`);
  await rm(folder, { recursive: true });
});
