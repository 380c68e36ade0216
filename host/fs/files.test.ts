import { afterAll, beforeAll, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec } from "../exec.ts";
import { createFiles, type Files, FilesError } from "./files.ts";

/* The contract of `Files` is in test/contract/files.ts; this file tests what only a real disk can show. */

let root: string;
let files: Files;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-files-"));
  files = createFiles(root);
});
afterAll(() => rm(root, { recursive: true }));

const mkfifo = (path: string) => createExec().run(["mkfifo", path], { timeoutMs: 10_000 });

test("a failed write leaves no temporary file, and the old content", async () => {
  await mkdir(join(root, "write/target"), { recursive: true });
  await writeFile(join(root, "write/target/old"), "old");
  await expect(files.write("write/target", "new", 0o600)).rejects.toBeInstanceOf(FilesError);
  expect(await files.list("write")).toEqual([{ name: "target", kind: "directory" }]);
  expect(await files.read("write/target/old", 10)).toBe("old");
});

test("a write replaces a symlink, not its target", async () => {
  await writeFile(join(root, "precious"), "precious");
  await symlink("precious", join(root, "link"));
  await files.write("link", "mine", 0o600);
  expect(await readFile(join(root, "precious"), "utf8")).toBe("precious");
  expect(await readFile(join(root, "link"), "utf8")).toBe("mine");
});

test("the mode is the requested one, regardless of the umask", async () => {
  const umask = process.umask(0o077);
  try {
    await files.write("open", "", 0o666);
    await files.makeFolder("wide/open", 0o777);
  } finally {
    process.umask(umask);
  }
  expect((await files.stat("open"))?.mode).toBe(0o666);
  expect((await files.stat("wide/open"))?.mode).toBe(0o777);
});

test("a folder has its final mode or mode 0, at whatever moment its creator dies", async () => {
  const seen = new Set<number>();
  for (let n = 0; n < 20; n++) {
    const path = join(root, `moment-${n}`);
    let isMade = false;
    const making = files.makeFolder(`moment-${n}`, 0o777).then(() => {
      isMade = true;
    });
    while (!isMade) {
      // While this waits, the pending disk operations complete, and no new ones start.
      const until = performance.now() + 1;
      while (performance.now() < until) seen.add((statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & 0o777);
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    await making;
    seen.add(statSync(path).mode & 0o777);
  }
  // On a busy machine both steps may happen between two checks: no other mode may ever be seen.
  expect([...new Set([0, ...seen])].toSorted()).toEqual([0, 0o777]);
});

test("a FIFO without a writer is refused without blocking", async () => {
  await mkfifo(join(root, "fifo"));
  await expect(files.read("fifo", 10)).rejects.toMatchObject({
    code: "ENOTFILE",
    message: `${root}/fifo is a fifo, not a regular file`,
  });
});

test("an endless device is refused", async () => {
  await expect(createFiles("/").read("dev/zero", 10)).rejects.toMatchObject({ code: "ENOTFILE" });
});

const bytes: readonly [sentence: string, content: readonly number[]][] = [
  ["a byte that is invalid in UTF-8", [0x61, 0xff]],
  ["a truncated character", [0x61, 0xe2, 0x82]],
  ["an overlong slash", [0xc0, 0xaf]],
];
for (const [sentence, content] of bytes)
  test(`${sentence} is not UTF-8 text`, async () => {
    await writeFile(join(root, "text"), Uint8Array.from(content));
    await expect(files.read("text", 10)).rejects.toMatchObject({
      name: "FilesError",
      message: `${root}/text is not UTF-8 text`,
    });
  });

test("a character on the border of two chunks is read correctly", async () => {
  const text = `x${"€".repeat(60_000)}`;
  await writeFile(join(root, "long"), text);
  expect(await files.read("long", 200_000)).toBe(text);
});

test("a file whose size is reported as 0, as in /proc, is read, with the limit", async () => {
  const machine = createFiles("/");
  expect(await machine.read("proc/self/comm", 100)).toBe(await readFile("/proc/self/comm", "utf8"));
  await expect(machine.read("proc/self/status", 100)).rejects.toMatchObject({ code: "ETOOBIG" });
});

test("list reports the kind of every entry", async () => {
  await mkdir(join(root, "kinds/folder"), { recursive: true });
  await writeFile(join(root, "kinds/file"), "");
  await symlink("nowhere", join(root, "kinds/link"));
  await mkfifo(join(root, "kinds/pipe"));
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(join(root, "kinds/socket"), resolve));
  const kinds = Object.fromEntries((await files.list("kinds"))!.map(({ name, kind }) => [name, kind]));
  server.close();
  expect(kinds as object).toEqual({
    folder: "directory",
    file: "file",
    link: "symlink",
    pipe: "fifo",
    socket: "socket",
  });
  expect((await createFiles("/").stat("dev/null"))?.kind).toBe("character device");
});

test("stat follows a symlink; a dangling one is absent, and a loop is an error", async () => {
  await writeFile(join(root, "there"), "content");
  await symlink("there", join(root, "to-there"));
  await symlink("nowhere", join(root, "to-nowhere"));
  await symlink("loop", join(root, "loop"));
  expect(await files.stat("to-there")).toMatchObject({ kind: "file", sizeBytes: 7 });
  expect(await files.stat("to-nowhere")).toBeUndefined();
  await expect(files.stat("loop")).rejects.toMatchObject({
    code: "ELOOP",
    message: `${root}/loop is a loop of symlinks`,
  });
  await expect(files.read("loop", 10)).rejects.toMatchObject({ code: "ELOOP" });
});

test("remove removes a symlink and keeps its target", async () => {
  await mkdir(join(root, "kept"));
  await writeFile(join(root, "kept/file"), "");
  await mkdir(join(root, "removed"));
  await symlink(join(root, "kept"), join(root, "removed/link"));
  await files.remove("removed");
  expect(await files.stat("removed")).toBeUndefined();
  expect(await files.stat("kept/file")).toBeDefined();
});

test("space reports the disk's capacity and free space in bytes", async () => {
  const { totalBytes, freeBytes, totalInodes, freeInodes } = await files.space(".");
  expect(totalBytes).toBeGreaterThan(2 ** 20);
  expect(freeBytes).toBeWithin(0, totalBytes + 1);
  expect(freeInodes).toBeWithin(0, totalInodes + 1);
});

test("a watch distinguishes a write in place from a new file", async () => {
  await mkdir(join(root, "news"));
  await writeFile(join(root, "unseen"), "whole");
  const update: string[] = [];
  const ending = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  files.watch(
    "news",
    (name, isInPlace) => {
      update.push(`${name} ${isInPlace ? "written" : "arrived"}`);
      if (name === "last") resolve();
    },
    () => {},
    ending.signal,
  );
  await rename(join(root, "unseen"), join(root, "news/whole"));
  await writeFile(join(root, "news/new"), "new");
  await writeFile(join(root, "news/whole"), "other");
  await mkdir(join(root, "news/last"));
  await promise;
  ending.abort();
  expect([...new Set(update)]).toEqual([
    "whole arrived",
    "new arrived",
    "new written",
    "whole written",
    "last arrived",
  ]);
});
