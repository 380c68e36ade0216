import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toCgroupError } from "./error.ts";
import { createCgroupFiles } from "./files.ts";

const files = createCgroupFiles();
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cgroup-files-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("a value replaces the whole content, and is read without white space", async () => {
  const file = join(folder, "cpu.max");
  await writeFile(file, "max 100000\n");
  expect(files.read(file)).toBe("max 100000");
  await files.write(file, "1 1000");
  expect(await readFile(file, "utf8")).toBe("1 1000");
});

test("a file that is missing is not made, and has no content", async () => {
  const file = join(folder, "memory.max");
  await expect(files.write(file, "max")).rejects.toMatchObject({
    name: "CgroupError",
    code: "ENOENT",
    file,
    value: "max",
  });
  for (const each of [file, join(file, "below"), join(folder, "none/file")]) expect(files.read(each)).toBeUndefined();
  expect(() => files.watch(file, () => {}, new AbortController().signal)).toThrow(expect.objectContaining({ file }));
});

test("a value that the kernel rejects is an error with its code, file and value", async () => {
  // A file of the kernel that any process may write to.
  const file = "/proc/self/oom_score_adj";
  const rejected = files.write(file, "many");
  await expect(rejected).rejects.toMatchObject({ name: "CgroupError", code: "EINVAL", file, value: "many" });
  await expect(rejected).rejects.toMatchObject({ cause: { code: "EINVAL" } });
  await expect(rejected).rejects.toThrow(`cannot write "many" to ${file}: EINVAL, the kernel rejects the value`);
});

test("an empty value reaches the kernel, which rejects it here", async () => {
  const file = "/proc/self/oom_score_adj";
  await expect(files.write(file, "")).rejects.toMatchObject({ code: "EINVAL", file, value: "" });
});

test("the code of what the kernel does not support has the kernel's name", () => {
  const ofRuntime = Object.assign(new Error("not supported"), { code: "ENOTSUP" });
  expect(toCgroupError("read", "/cpu.pressure", undefined, ofRuntime)).toMatchObject({
    code: "EOPNOTSUPP",
    message: "cannot read /cpu.pressure: EOPNOTSUPP, the kernel does not support it here",
  });
});

test("a folder is made once and removed once, and lists its folders sorted", async () => {
  const made = join(folder, "b");
  expect([await files.makeFolder(made), await files.makeFolder(made)]).toEqual([true, false]);
  await mkdir(join(folder, "a"));
  await writeFile(join(folder, "file"), "");
  expect(files.folders(folder)).toEqual(["a", "b"]);
  for (let time = 0; time < 2; time++) await files.removeFolder(made);
  expect(files.folders(folder)).toEqual(["a"]);
  expect(files.folders(made)).toBeUndefined();
  await expect(files.makeFolder(join(made, "c"))).rejects.toMatchObject({ code: "ENOENT", file: join(made, "c") });
});

test("a process is killed, and one that has ended is no error", async () => {
  const process = Bun.spawn(["sleep", "1000"]);
  files.kill(process.pid);
  await process.exited;
  expect(process.signalCode).toBe("SIGKILL");
  files.kill(process.pid);
});
