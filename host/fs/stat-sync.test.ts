import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "./files.ts";
import { statSync } from "./stat-sync.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-stat-"));
  await writeFile(join(folder, "file"), "text", { mode: 0o640 });
  await mkdir(join(folder, "folder"));
  await symlink("file", join(folder, "link"));
  await symlink("none", join(folder, "dangling"));
  await symlink("loop", join(folder, "loop"));
});
afterAll(() => rm(folder, { recursive: true }));

test.each(["file", "folder", "link", "dangling", "none", "file/below", "x".repeat(256)])(
  "statSync and stat say the same of %s",
  async (name) => {
    const path = join(folder, name);
    expect(statSync(path)).toEqual(await createFiles("/").stat(path));
  },
);

test("a file at which the kernel refuses to look is an error that names it", () => {
  const path = join(folder, "loop");
  expect(() => statSync(path)).toThrow(
    expect.objectContaining({ name: "FilesError", code: "ELOOP", message: expect.stringContaining(path) }),
  );
});
