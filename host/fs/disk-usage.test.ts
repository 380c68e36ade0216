import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { link, mkdtemp, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { diskUsage } from "./disk-usage.ts";

/* The contract of the method of `Files` is in test/contract/files.ts; this file tests what only a real disk can show. */

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-usage-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const { signal } = new AbortController();
const makeFolder = (name: string) => {
  const path = join(folder, name);
  mkdirSync(path);
  return path;
};

test("a file with two hard links counts once, a sparse file by its blocks, and names may be any bytes", async () => {
  const path = makeFolder("kinds");
  const { usedBytes: before } = await diskUsage(path, signal);
  await writeFile(join(path, "file"), new Uint8Array(1 << 16));
  await link(join(path, "file"), join(path, "again"));
  writeFileSync(Buffer.concat([Buffer.from(`${path}/x`), Uint8Array.of(0xff)]), "");
  await writeFile(join(path, "sparse"), "");
  await truncate(join(path, "sparse"), 1 << 30);
  await symlink(folder, join(path, "loop"));
  const { usedBytes, inodesUsed } = await diskUsage(path, signal);
  expect(usedBytes - before).toBeWithin(1 << 16, 2 * (1 << 16));
  expect(inodesUsed).toBe(5);
});

test("a top folder that is missing or a link is refused", async () => {
  await expect(diskUsage(join(folder, "none"), signal)).rejects.toMatchObject({ code: "ENOENT" });
  const path = makeFolder("linked");
  symlinkSync(path, join(folder, "to-linked"));
  await expect(diskUsage(join(folder, "to-linked"), signal)).rejects.toMatchObject({ code: "ENOTDIR" });
});

test("an abort ends a long measurement, and other work runs meanwhile", async () => {
  const path = makeFolder("many");
  for (let n = 0; n < 2000; n++) writeFileSync(join(path, `f${n}`), "");
  const abort = new AbortController();
  const reason = new Error("the time is over");
  let turns = 0;
  const measuring = diskUsage(path, abort.signal);
  const countTurns = () => {
    turns += 1;
    if (turns < 5) setImmediate(countTurns);
    else abort.abort(reason);
  };
  setImmediate(countTurns);
  await expect(measuring).rejects.toBe(reason);
  expect(turns).toBe(5);
});
