import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, open, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeContent } from "../../agent/act/volumes/atomic-writer.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { mountsContract } from "./mounts.ts";
import { inMountNamespace } from "./own-namespace.ts";
import { startSwaps } from "./swapped-paths.ts";

inMountNamespace(import.meta.path, "the kernel keeps the contract of mounts", () => {
  mountsContract("the kernel", async () => {
    const root = await realpath(await mkdtemp(join(tmpdir(), "berth-mounts-")));
    const files = createFiles(root);
    return {
      files,
      mounts: createMounts(),
      async holdOpen(path) {
        const file = await open(files.path(path));
        return () => file.close();
      },
      end: () => rm(root, { recursive: true }),
    };
  });

  test("content for which a tmpfs has no room leaves the old files whole, and the next one that fits replaces them", async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "berth-mounts-")));
    const [mounts, files] = [createMounts(), createFiles(folder)];
    const write = (key: string, bytes: number, now: number) =>
      writeContent(files, ".", [{ path: "deep/key", content: key.repeat(bytes), mode: 0o644 }], now);
    const shown = async () => ({
      text: (await files.read("deep/key", 1 << 20)).slice(0, 3),
      folders: (await readdir(folder)).filter((name) => /^\.\.\d{4}/.test(name)).length,
    });
    await mounts.mountTmpfs(folder, { mode: 0o755, sizeBytes: 128 << 10 });
    try {
      await write("a", 40_000, 0);
      await expect(write("b", 120_000, 1000)).rejects.toMatchObject({ name: "FilesError", code: "ENOSPC" });
      expect(await shown()).toEqual({ text: "aaa", folders: 1 });
      await write("c", 50_000, 2000);
      expect(await shown()).toEqual({ text: "ccc", folders: 1 });
    } finally {
      await mounts.unmount(folder);
    }
    await rm(folder, { recursive: true });
  });

  test("no path is mounted that leaves its volume, while folder and symlink are swapped thousands of times", async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "berth-mounts-")));
    const [mounts, target] = [createMounts(), join(folder, "target")];
    const swapped = await startSwaps(folder);
    const found = { inside: 0, refused: 0 };
    try {
      const hasBoth = () => found.inside > 100 && found.refused > 100;
      // On a busy machine one side may come late: the test's own time limits the wait for it.
      for (let time = 0; !hasBoth() || swapped.swaps() < 10_000; time++) {
        const subPath = ["dir", "dir/sub", "dir/new", "dir/sub/new"][time % 4] ?? "dir";
        try {
          await mounts.bindBeneath(swapped.volume, subPath, target);
          expect(existsSync(join(target, "secret"))).toBe(false);
          await mounts.unmount(target);
          found.inside += 1;
        } catch (error) {
          expect(error).toMatchObject({ name: "FilesError", code: "EXDEV" });
          found.refused += 1;
        }
      }
    } finally {
      await swapped.end();
      await mounts.unmount(target);
    }
    expect((await readdir(swapped.outside, { recursive: true })).toSorted()).toEqual(["secret", "sub", "sub/secret"]);
    await rm(folder, { recursive: true });
  }, 600_000);
});
