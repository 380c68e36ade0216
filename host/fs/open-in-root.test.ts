import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec } from "../exec.ts";
import { createFiles, type Files } from "./files.ts";

/* The contract of `Files` is in test/contract/files.ts; this file tests what only a real disk can show. */

let root: string;
let files: Files;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-in-root-"));
  files = createFiles(root);
});
afterAll(() => rm(root, { recursive: true }));

const descriptors = () => readdirSync("/proc/self/fd").length;

test("a FIFO without a writer is opened without blocking", async () => {
  await mkdir(join(root, "fifo"));
  await createExec().run(["mkfifo", join(root, "fifo/pipe")], { timeoutMs: 10_000 });
  const failure = await files.readBeneath("fifo", "pipe", 10).catch((error: unknown) => error);
  expect(failure).toMatchObject({ code: "ENOTFILE", message: `${root}/fifo/pipe is a fifo, not a regular file` });
});

test("a path that is too deep, or has too many symlinks, is refused, and no descriptor stays open", async () => {
  await mkdir(join(root, "deep", ...Array.from({ length: 70 }, () => "d")), { recursive: true });
  for (let n = 0; n < 45; n++) await symlink(`link-${n + 1}`, join(root, `deep/link-${n}`));
  await writeFile(join(root, "deep/link-45"), "end");
  const before = descriptors();
  const codes = [];
  for (const path of [Array.from({ length: 70 }, () => "d").join("/"), "link-0", "d/none", "d/../../../.."])
    codes.push(
      await files.readBeneath("deep", path, 10).then(
        () => "read",
        (error: unknown) => (error as { code: string }).code,
      ),
    );
  expect(codes).toEqual(["ENAMETOOLONG", "ELOOP", "ENOENT", "ENOTFILE"]);
  expect(Buffer.from(await files.readBeneath("deep", "link-10", 10)).toString()).toBe("end");
  expect(descriptors()).toBe(before);
});

test("a folder that is replaced by a symlink again and again never allows a read outside of the root", async () => {
  await mkdir(join(root, "raced/own"), { recursive: true });
  await mkdir(join(root, "precious"));
  await writeFile(join(root, "raced/own/file"), "inside");
  await writeFile(join(root, "precious/file"), "outside");
  await symlink(join(root, "precious"), join(root, "raced/link"));
  let isOver = false;
  const swapping = (async () => {
    while (!isOver)
      for (const from of ["own", "link"]) {
        await rename(join(root, "raced", from), join(root, "raced/way"));
        await rename(join(root, "raced/way"), join(root, "raced", from));
      }
  })();
  const seen = new Set<string>();
  for (let n = 0; n < 2000; n++)
    seen.add(
      await files.readBeneath("raced", "way/file", 10).then(
        (bytes) => Buffer.from(bytes).toString(),
        (error: unknown) => (error as { code: string }).code,
      ),
    );
  isOver = true;
  await swapping;
  expect(seen).not.toContain("outside");
});
