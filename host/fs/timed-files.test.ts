import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "./files.ts";
import { withFileCalls } from "./timed-files.ts";

test("reports each operation that takes time until it has ended, also one that fails", async () => {
  const folder = await mkdtemp(join(tmpdir(), "timed-files-"));
  const calls: string[] = [];
  const files = withFileCalls(createFiles(folder), (method, path) => {
    calls.push(`${method} ${path}`);
    return () => void calls.push(`${method} has ended`);
  });
  try {
    expect([files.root, files.path("a")]).toEqual([folder, join(folder, "a")]);
    await files.makeFile("a", 0o600, "text");
    expect(await files.read("a", 100)).toBe("text");
    await expect(files.read("none", 100)).rejects.toMatchObject({ code: "ENOENT" });
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(calls).toEqual([
    ...["makeFile a", "makeFile has ended", "read a", "read has ended", "read none", "read has ended"],
  ]);
});
