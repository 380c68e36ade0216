import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, type Files } from "./files.ts";
import { withOnOperation } from "./traced-files.ts";

const createOperations = () => {
  const operations: string[] = [];
  const onOperation = (name: string, path: string) => {
    operations.push(`${name} ${path}`);
    return () => void operations.push(`${name} has ended`);
  };
  return { operations, onOperation };
};

test("reports the begin and the end of each operation, and of one that fails", async () => {
  const folder = await mkdtemp(join(tmpdir(), "traced-files-"));
  const { operations, onOperation } = createOperations();
  const files = withOnOperation(createFiles(folder), onOperation);
  try {
    expect([files.root, files.path("a")]).toEqual([folder, join(folder, "a")]);
    await files.makeFile("a", 0o600, "text");
    expect(await files.read("a", 100)).toBe("text");
    await expect(files.read("none", 100)).rejects.toMatchObject({ code: "ENOENT" });
    await expect(files.read("../b", 100)).rejects.toMatchObject({ code: "EOUTSIDE" });
  } finally {
    await rm(folder, { recursive: true });
  }
  expect(operations).toEqual([
    ...[`makeFile ${folder}/a`, "makeFile has ended", `read ${folder}/a`, "read has ended"],
    ...[`read ${folder}/none`, "read has ended"],
  ]);
});

test("reports the end of an operation that throws before it returns a promise", async () => {
  const { operations, onOperation } = createOperations();
  const remove: Files["remove"] = () => {
    throw new Error("read-only");
  };
  const files = withOnOperation({ ...createFiles("/folder"), remove }, onOperation);
  await expect(files.remove("a")).rejects.toThrow("read-only");
  expect(operations).toEqual(["remove /folder/a", "remove has ended"]);
});
