import { afterEach, beforeEach, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { holdersOf } from "./lock-holders.ts";

let folder: string;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-holders-")));
});
afterEach(() => rm(folder, { recursive: true }));

test("the processes that have a file open are found with their commands, and no others", async () => {
  const path = join(folder, "lock");
  await writeFile(path, "");
  expect(await holdersOf(path)).toEqual([]);
  const descriptor = openSync(path, "r");
  const child = Bun.spawn(["sleep", "60"], { stdio: ["ignore", "ignore", "ignore", descriptor] });
  try {
    expect((await holdersOf(path)).map(({ pid }) => pid).toSorted()).toEqual([process.pid, child.pid].toSorted());
  } finally {
    closeSync(descriptor);
  }
  expect(await holdersOf(path)).toEqual([{ pid: child.pid, name: "sleep" }]);
  child.kill();
  await child.exited;
  expect(await holdersOf(path)).toEqual([]);
});
