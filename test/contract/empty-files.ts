import { expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";

interface EmptyFilesFixture {
  readonly files: Files;
  /** The path is relative to the root of `files`. */
  makeEmptyFile(path: string, mode: number): Promise<void>;
}

/** The contract of `makeEmptyFile`: a part of those of `Files` and `NetworkFiles`. */
export function testMakeEmptyFile(fixture: () => EmptyFilesFixture): void {
  test("makeEmptyFile creates a file with its mode regardless of the umask, and no folder", async () => {
    const { files, makeEmptyFile } = fixture();
    await files.makeFolder("empty", 0o755);
    await makeEmptyFile("empty/new", 0o666);
    expect(await files.stat("empty/new")).toMatchObject({ kind: "file", mode: 0o666, sizeBytes: 0 });
    await expect(makeEmptyFile("empty/none/new", 0o666)).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
    await expect(makeEmptyFile("empty", 0o666)).rejects.toMatchObject({ name: "FilesError", code: "EISDIR" });
  });

  test("makeEmptyFile leaves an existing file as it is, also behind a symlink", async () => {
    const { files, makeEmptyFile } = fixture();
    await files.makeFolder("present", 0o755);
    await files.makeFile("present/file", 0o600, "written");
    await files.link("present/link", "file");
    const before = await files.stat("present/file");
    for (const each of ["file", "link"]) await makeEmptyFile(`present/${each}`, 0o644);
    expect(await files.stat("present/file")).toEqual(before);
    expect(await files.read("present/file", 100)).toBe("written");
    expect(await files.readLink("present/link")).toBe("file");
  });

  test("makeEmptyFile creates the target of a dangling symlink, and the symlink stays", async () => {
    const { files, makeEmptyFile } = fixture();
    await files.makeFolder("unborn", 0o755);
    await files.link("unborn/link", "target");
    await makeEmptyFile("unborn/link", 0o600);
    expect(await files.readLink("unborn/link")).toBe("target");
    expect(await files.stat("unborn/target")).toMatchObject({ kind: "file", mode: 0o600, sizeBytes: 0 });
  });
}
