import { afterAll, beforeAll, expect, test } from "bun:test";
import { appendFileSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec } from "../exec.ts";
import { createFiles } from "./files.ts";
import { createMounts } from "./mounts.ts";
import { removeTree } from "./remove-tree.ts";

let folder: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-tree-")));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const run = (...argv: [string, ...string[]]) => createExec().run(argv, { timeoutMs: 10_000 });

const mayMount = process.getuid?.() === 0;
if (!mayMount) console.warn("skipped: removal beside real mounts, since only root may mount");

/** Mounts a folder with a file `precious` over `at` while the callback runs. */
async function mounted(at: string, work: () => unknown, ...options: readonly string[]): Promise<void> {
  const volume = await mkdtemp(join(folder, "volume-"));
  await writeFile(join(volume, "precious"), "precious");
  await mkdir(at, { recursive: true });
  await run("mount", ...(options.length === 0 ? ["--bind", volume] : options), at);
  try {
    if (options.length > 0) await writeFile(join(at, "precious"), "precious");
    await work();
    expect(existsSync(join(at, "precious"))).toBe(true);
  } finally {
    await run("umount", at);
  }
}

test.skipIf(!mayMount)(
  "nothing is removed through a bind mount of the same file system, by whatever path",
  async () => {
    const root = join(folder, "data");
    const at = join(root, "pods/u/volumes/v");
    await symlink("data", join(folder, "link"));
    await mounted(at, async () => {
      for (const path of [root, join(folder, "link")]) {
        expect(await createMounts().mountPointsBelow(join(path, "pods/u"))).toEqual([at]);
        await expect(createFiles(path).remove("pods/u")).rejects.toMatchObject({
          name: "FilesError",
          code: "EBUSY",
          path: at,
          message: `${at} cannot be removed: it is a mount point, and nothing below a mount is removed`,
        });
      }
    });
    await createFiles(join(folder, "link")).remove("pods/u");
    expect(readdirSync(join(root, "pods"))).toEqual([]);
  },
);

test.skipIf(!mayMount)("nothing is removed through a mount of another file system", async () => {
  const at = join(folder, "other/inner");
  const remove = () => expect(removeTree(join(folder, "other"))).rejects.toMatchObject({ code: "EBUSY", path: at });
  await mounted(at, remove, "-t", "tmpfs", "berth-test");
  await removeTree(join(folder, "other"));
  expect(existsSync(join(folder, "other"))).toBe(false);
});

test.skipIf(!mayMount)("nothing is removed if the folder itself is a mount point", async () => {
  const at = join(folder, "itself");
  await mounted(at, () => expect(removeTree(at)).rejects.toMatchObject({ code: "EBUSY", path: at }));
});

test.skipIf(!mayMount)("nothing is removed through a mounted file", async () => {
  const file = join(folder, "with-file/file");
  await mkdir(join(folder, "with-file"));
  await writeFile(file, "");
  await writeFile(join(folder, "precious"), "precious");
  await run("mount", "--bind", join(folder, "precious"), file);
  try {
    await expect(removeTree(join(folder, "with-file"))).rejects.toMatchObject({ code: "EBUSY", path: file });
    expect(await Bun.file(file).text()).toBe("precious");
  } finally {
    await run("umount", file);
  }
});

test.skipIf(!mayMount)("nothing is removed through a mount that is created during the removal", async () => {
  const tree = join(folder, "busy");
  for (let n = 0; n < 30; n++) {
    mkdirSync(join(tree, `${n}`), { recursive: true });
    for (let file = 0; file < 10; file++) writeFileSync(join(tree, `${n}/${file}`), "");
  }
  const volume = join(folder, "late-volume");
  mkdirSync(volume);
  writeFileSync(join(volume, "precious"), "precious");
  const removal = removeTree(tree).then(
    () => "removed",
    (error: unknown) => error,
  );
  while (readdirSync(tree).length > 25) await new Promise<void>((resolve) => setImmediate(resolve));
  // spawnSync blocks this process: nothing else happens in it meanwhile.
  const at = join(tree, readdirSync(tree).at(-1)!);
  expect(Bun.spawnSync(["mount", "--bind", volume, at]).exitCode).toBe(0);
  try {
    expect(await removal).toMatchObject({ code: "EBUSY", path: at });
    expect(readdirSync(volume)).toEqual(["precious"]);
  } finally {
    await run("umount", at);
  }
});

test("a symlink is removed, and its target is kept", async () => {
  await mkdir(join(folder, "kept"));
  await writeFile(join(folder, "kept/file"), "");
  await mkdir(join(folder, "linking"));
  await symlink(join(folder, "kept"), join(folder, "linking/link"));
  await symlink(join(folder, "kept"), join(folder, "top-link"));
  await removeTree(join(folder, "linking"));
  await removeTree(join(folder, "top-link"));
  expect(existsSync(join(folder, "linking"))).toBe(false);
  expect(existsSync(join(folder, "top-link"))).toBe(false);
  expect(readdirSync(join(folder, "kept"))).toEqual(["file"]);
});

test("a folder that is replaced by a symlink during the removal leads nowhere", async () => {
  const outside = join(folder, "outside");
  mkdirSync(outside);
  for (let n = 0; n < 50; n++) writeFileSync(join(outside, `f${n}`), "");
  for (let round = 0; round < 10; round++) {
    const tree = join(folder, "swapped");
    mkdirSync(join(tree, "inner"), { recursive: true });
    for (let n = 0; n < 50; n++) writeFileSync(join(tree, "inner", `f${n}`), "");
    // The removal may report the swap; the test asserts what is left.
    const removal = removeTree(tree).catch(() => undefined);
    for (let n = 0; n < 5 * round; n++) await new Promise<void>((resolve) => setImmediate(resolve));
    try {
      renameSync(join(tree, "inner"), join(folder, `away-${round}`));
      symlinkSync(outside, join(tree, "inner"));
    } catch (error) {
      // The removal runs in I/O threads and may be ahead of either.
      expect(error).toMatchObject({ code: "ENOENT" });
    }
    await removal;
    await removeTree(tree);
    expect(existsSync(tree)).toBe(false);
    expect(readdirSync(outside)).toHaveLength(50);
  }
});

test("names that are not UTF-8 are removed, too", async () => {
  const tree = join(folder, "bytes");
  mkdirSync(tree);
  const name = Buffer.concat([Buffer.from(`${tree}/x`), Uint8Array.of(0xff, 0xe2, 0x82)]);
  appendFileSync(name, "");
  mkdirSync(Buffer.concat([name, Buffer.from("folder")]));
  mkdirSync(join(tree, "ünïcode €"));
  await removeTree(tree);
  expect(existsSync(tree)).toBe(false);
});

test("folders of any depth are removed, with few open descriptors at a time", async () => {
  const tree = join(folder, "deep");
  mkdirSync(tree);
  // Built from the inside out: the innermost path would be too long.
  for (let depth = 0; depth < 500; depth++) {
    mkdirSync(join(folder, "outer"));
    if (existsSync(join(tree, "d"))) renameSync(join(tree, "d"), join(folder, "outer/d"));
    renameSync(join(folder, "outer"), join(tree, "d"));
  }
  let mostOpen = 0;
  const timer = setInterval(() => {
    mostOpen = Math.max(mostOpen, readdirSync("/proc/self/fd").length);
  }, 1);
  const before = readdirSync("/proc/self/fd").length;
  await removeTree(tree);
  clearInterval(timer);
  expect(existsSync(tree)).toBe(false);
  expect(mostOpen).toBeLessThan(before + 100);
  expect(readdirSync("/proc/self/fd").length).toBe(before);
});

test("an absent path is success, and an error has the path that failed", async () => {
  await removeTree(join(folder, "none"));
  await removeTree(join(folder, "none/none"));
  await expect(removeTree("/proc/self/task")).rejects.toMatchObject({
    name: "TreeError",
    path: "/proc/self/task",
    message: "/proc/self/task cannot be removed: EPERM",
  });
});
