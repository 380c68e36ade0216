import { afterAll, beforeAll, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, renameSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { lstat, mkdir, mkdtemp, realpath, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { changeGroup } from "./change-group.ts";
import { removeTree } from "./remove-tree.ts";

/* The contract of the method of `Files` is in test/contract/files.ts; this file tests what only a real disk can show. */

let folder: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-group-")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: files of another group, since only root may give them away");
/** Others than root can give their files to their own group only. */
const group = isRoot ? 4567 : (process.getgid?.() ?? 0);
const change = { group, addedFileMode: 0o660, addedFolderMode: 0o2770, signal: new AbortController().signal };
const modeOf = async (path: string) => (await stat(join(folder, path))).mode & 0o7777;

test("a link that leads out of the tree gets the group, and its target does not change", async () => {
  await mkdir(join(folder, "links/inner"), { recursive: true });
  await mkdir(join(folder, "outside"), { mode: 0o700 });
  await writeFile(join(folder, "outside/file"), "", { mode: 0o600 });
  symlinkSync("../outside", join(folder, "links/to-folder"));
  symlinkSync(join(folder, "outside/file"), join(folder, "links/inner/to-file"));
  symlinkSync("nowhere", join(folder, "links/to-nowhere"));
  symlinkSync("loop", join(folder, "links/loop"));
  expect(await changeGroup(join(folder, "links"), change)).toEqual({ count: 6, failure: undefined });
  for (const link of ["to-folder", "inner/to-file", "to-nowhere", "loop"])
    expect((await lstat(join(folder, "links", link))).gid).toBe(group);
  expect([await modeOf("outside"), await modeOf("outside/file")]).toEqual([0o700, 0o600]);
  if (isRoot) expect((await stat(join(folder, "outside/file"))).gid).toBe(process.getgid?.() as number);
});

test("a top folder that is a link is refused", async () => {
  await mkdir(join(folder, "target"), { mode: 0o700 });
  symlinkSync("target", join(folder, "link"));
  await expect(changeGroup(join(folder, "link"), change)).rejects.toMatchObject({ code: "ENOTDIR" });
  expect(await modeOf("target")).toBe(0o700);
});

test("folders that are replaced by links meanwhile lead nowhere", async () => {
  const outside = join(folder, "precious");
  mkdirSync(outside);
  for (let n = 0; n < 50; n++) writeFileSync(join(outside, `f${n}`), "", { mode: 0o600 });
  for (let round = 0; round < 10; round++) {
    const tree = join(folder, `swapped-${round}`);
    mkdirSync(join(tree, "inner/deep"), { recursive: true });
    for (let n = 0; n < 40; n++) writeFileSync(join(tree, "inner/deep", `f${n}`), "", { mode: 0o600 });
    const changing = changeGroup(tree, change);
    for (let n = 0; n < 6 * round; n++) await new Promise<void>((resolve) => setImmediate(resolve));
    renameSync(join(tree, "inner/deep"), join(folder, `away-${round}`));
    symlinkSync(outside, join(tree, "inner/deep"));
    expect((await changing).failure).toBeUndefined();
  }
  for (const name of readdirSync(outside)) expect(statSync(join(outside, name)).mode & 0o777).toBe(0o600);
});

test("set-user-id bits survive, pipes are not opened, and names that are not UTF-8 are found", async () => {
  const tree = join(folder, "odd");
  await mkdir(tree);
  const name = Buffer.concat([Buffer.from(`${tree}/x`), Uint8Array.of(0xff, 0xe2, 0x82)]);
  writeFileSync(name, "", { mode: 0o600 });
  execFileSync("mkfifo", ["-m", "600", join(tree, "pipe")]);
  await writeFile(join(tree, "program"), "");
  execFileSync("chmod", ["6755", join(tree, "program")]);
  expect(await changeGroup(tree, change)).toEqual({ count: 4, failure: undefined });
  expect((await stat(name)).mode & 0o777).toBe(0o660);
  expect([await modeOf("odd/pipe"), await modeOf("odd/program")]).toEqual([0o660, 0o6775]);
  expect((await stat(join(tree, "program"))).gid).toBe(group);
});

test("a file that is right already is not written to", async () => {
  await mkdir(join(folder, "done"));
  await writeFile(join(folder, "done/file"), "");
  await changeGroup(join(folder, "done"), change);
  const changedMs = async () =>
    [await stat(join(folder, "done")), await stat(join(folder, "done/file"))].map((s) => s.ctimeMs);
  const before = await changedMs();
  await changeGroup(join(folder, "done"), change);
  expect(await changedMs()).toEqual(before);
});

test("a tree is changed however deep it is, with few open descriptors at a time", async () => {
  const tree = join(folder, "deep");
  mkdirSync(tree);
  // Built from the inside out: the innermost path would be too long.
  for (let depth = 0; depth < 150; depth++) {
    mkdirSync(join(folder, "outer"), { mode: 0o700 });
    if (depth > 0) renameSync(join(tree, "folder-of-tree"), join(folder, "outer/folder-of-tree"));
    renameSync(join(folder, "outer"), join(tree, "folder-of-tree"));
  }
  let mostOpen = 0;
  const countOpen = () => {
    mostOpen = Math.max(mostOpen, readdirSync("/proc/self/fd").length);
  };
  const before = readdirSync("/proc/self/fd").length;
  expect(await changeGroup(tree, { ...change, onProgress: countOpen })).toEqual({ count: 151, failure: undefined });
  expect(mostOpen).toBeLessThan(before + 20);
  expect(readdirSync("/proc/self/fd").length).toBe(before);
  await removeTree(tree);
});

test("an abort ends a long change between files, before the top folder; other work runs meanwhile", async () => {
  const tree = join(folder, "big");
  mkdirSync(tree, { mode: 0o700 });
  for (let n = 0; n < 600; n++) writeFileSync(join(tree, `f${n}`), "", { mode: 0o600 });
  const controller = new AbortController();
  const reason = new Error("the pod is deleted");
  let [last, turns] = [0, 0];
  const onProgress = (count: number) => {
    last = count;
    if (count === 300) controller.abort(reason);
  };
  const changing = changeGroup(tree, { ...change, signal: controller.signal, onProgress });
  let isOver = false;
  const countTurns = async () => {
    for (; !isOver; turns++) await new Promise<void>((resolve) => setImmediate(resolve));
  };
  const counting = countTurns();
  await expect(changing).rejects.toBe(reason);
  isOver = true;
  await counting;
  expect(last).toBeWithin(300, 400);
  expect(turns).toBeGreaterThan(5);
  expect(await modeOf("big")).toBe(0o700);
});

test("an interrupted change leaves no tree that looks done, even if an earlier change had completed it", async () => {
  const tree = join(folder, "undone");
  mkdirSync(tree, { mode: 0o700 });
  for (let n = 0; n < 100; n++) writeFileSync(join(tree, `f${n}`), "", { mode: 0o600 });
  await changeGroup(tree, change);
  expect(await modeOf("undone")).toBe(0o2770);
  const controller = new AbortController();
  const onProgress = () => controller.abort(new Error("the pod is deleted"));
  const second = { ...change, addedFileMode: 0o664, signal: controller.signal, onProgress };
  await expect(changeGroup(tree, second)).rejects.toThrow("the pod is deleted");
  expect(await modeOf("undone")).toBe(0o770);
  await changeGroup(tree, change);
  expect(await modeOf("undone")).toBe(0o2770);
});

test.skipIf(!isRoot)("files that cannot be changed do not end it; the first one is reported", async () => {
  // procfs refuses every change, also root's.
  const result = await changeGroup("/proc/sys/kernel/random", change);
  expect(result.failure).toMatchObject({ path: expect.stringMatching(/^\/proc\/sys\/kernel\/random\/./) });
  expect(result.failure?.error).toMatchObject({ code: "EPERM" });
});
