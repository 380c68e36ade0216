import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";
import { testMakeEmptyFile } from "./empty-files.ts";
import { testLogFiles } from "./log-files.ts";

interface FilesFixture {
  readonly files: Files;
  readonly end: () => Promise<void> | void;
}

/** The contract of `Files`, for a real directory and the fake. */
export function filesContract(name: string, make: () => Promise<FilesFixture>): void {
  describe(`files: ${name}`, () => {
    let fixture: FilesFixture;
    beforeAll(async () => {
      fixture = await make();
    });
    afterAll(() => fixture.end());

    test("read returns what write wrote; a second write replaces content and mode", async () => {
      await fixture.files.write("a", "one", 0o600);
      await fixture.files.write("a", "two", 0o640);
      expect(await fixture.files.read("a", 100)).toBe("two");
      const stat = await fixture.files.stat("a");
      expect(stat?.kind).toBe("file");
      expect(stat?.mode).toBe(0o640);
      expect(stat?.sizeBytes).toBe(3);
    });

    test("a write that does not wait for the disk replaces content and mode, too", async () => {
      await fixture.files.writeWithoutSync("u", "one", 0o600);
      await fixture.files.writeWithoutSync("u", "two", 0o640);
      expect(await fixture.files.read("u", 100)).toBe("two");
      expect((await fixture.files.stat("u"))?.mode).toBe(0o640);
    });

    test("each write changes the inode or the modification time", async () => {
      await fixture.files.write("v", "same", 0o600);
      const before = await fixture.files.stat("v");
      await fixture.files.write("v", "same", 0o600);
      expect(await fixture.files.stat("v")).not.toEqual(before);
    });

    test("of a missing path stat and list return undefined, and read fails", async () => {
      expect(await fixture.files.stat("none")).toBeUndefined();
      expect(await fixture.files.list("none")).toBeUndefined();
      await expect(fixture.files.read("none", 10)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("nothing exists under a name of more than 255 bytes, and no directory can get such a name", async () => {
      for (const path of ["ä".repeat(128), `${"x".repeat(256)}/inner`]) {
        expect(await fixture.files.stat(path)).toBeUndefined();
        expect(await fixture.files.list(path)).toBeUndefined();
        expect(await fixture.files.readLink(path)).toBeUndefined();
        await fixture.files.remove(path);
        await expect(fixture.files.makeFolder(path, 0o755)).rejects.toMatchObject({
          code: "ENAMETOOLONG",
          message: `${fixture.files.path(path)} has a name of more than 255 bytes`,
        });
      }
      await fixture.files.makeFolder("x".repeat(255), 0o755);
      expect(await fixture.files.stat("x".repeat(255))).toMatchObject({ kind: "directory" });
    });

    testLogFiles(() => fixture.files);

    test("a write into a missing directory fails and leaves nothing behind", async () => {
      await expect(fixture.files.write("no/such/file", "", 0o600)).rejects.toMatchObject({ code: "ENOENT" });
      expect(await fixture.files.stat("no")).toBeUndefined();
    });

    test("read refuses a file larger than its limit", async () => {
      await fixture.files.write("big", "x".repeat(11), 0o600);
      await expect(fixture.files.read("big", 10)).rejects.toMatchObject({ code: "ETOOBIG" });
      expect(await fixture.files.read("big", 11)).toHaveLength(11);
    });

    test("readEnd returns the last bytes of a file, or all of a shorter one, also if they are not UTF-8", async () => {
      await fixture.files.write("long", `${"x".repeat(5000)}the end: ä`, 0o600);
      expect(await fixture.files.readEnd("long", 11)).toBe("the end: ä");
      expect(await fixture.files.readEnd("long", 1)).toBe("\ufffd");
      await fixture.files.write("short", "all", 0o600);
      expect(await fixture.files.readEnd("short", 11)).toBe("all");
      await fixture.files.makeFile("none-of-it", 0o600);
      expect(await fixture.files.readEnd("none-of-it", 11)).toBe("");
      await expect(fixture.files.readEnd("not-there", 10)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("readEnd follows symlinks, unless the caller forbids it", async () => {
      await fixture.files.makeFolder("real/folder", 0o755);
      await fixture.files.write("real/folder/log", "the end", 0o600);
      await fixture.files.link("real/folder/link", "log");
      await fixture.files.link("real/way", "folder");
      const withoutLinks = { withoutLinks: true };
      expect(await fixture.files.readEnd("real/folder/log", 3, withoutLinks)).toBe("end");
      expect(await fixture.files.readEnd("real/folder/link", 3)).toBe("end");
      for (const path of ["real/folder/link", "real/way/log"])
        await expect(fixture.files.readEnd(path, 3, withoutLinks)).rejects.toMatchObject({ code: "ESYMLINK" });
      await expect(fixture.files.readEnd("real/folder/none", 3, withoutLinks)).rejects.toMatchObject({
        code: "ENOENT",
      });
    });

    test("makeFile replaces the content of an existing file, also a longer one", async () => {
      await fixture.files.makeFile("hosts", 0o644, "a longer content");
      await fixture.files.makeFile("hosts", 0o644, "short");
      expect(await fixture.files.read("hosts", 100)).toBe("short");
    });

    test("makeFile sets the mode regardless of the umask, and empties an existing file", async () => {
      await fixture.files.makeFile("open-to-all", 0o666);
      expect((await fixture.files.stat("open-to-all"))?.mode).toBe(0o666);
      await fixture.files.write("open-to-all", "text", 0o600);
      await fixture.files.makeFile("open-to-all", 0o666);
      expect(await fixture.files.read("open-to-all", 10)).toBe("");
      expect((await fixture.files.stat("open-to-all"))?.mode).toBe(0o666);
      await expect(fixture.files.makeFile("no/such/file", 0o666)).rejects.toMatchObject({ code: "ENOENT" });
    });

    testMakeEmptyFile(() => ({ files: fixture.files, makeEmptyFile: fixture.files.makeEmptyFile }));

    test("bytes that are not UTF-8 are kept as they are, and read refuses them", async () => {
      const bytes = Uint8Array.of(0, 0xff, 0xe2, 0x82, 0x0a);
      await fixture.files.makeFile("made-bytes", 0o644, bytes);
      await fixture.files.write("written-bytes", bytes, 0o644);
      for (const path of ["made-bytes", "written-bytes"]) {
        expect([...(await fixture.files.readBeneath("", path, 100))]).toEqual([...bytes]);
        expect((await fixture.files.stat(path))?.sizeBytes).toBe(5);
        await expect(fixture.files.read(path, 100)).rejects.toMatchObject({
          code: "ERR_ENCODING_INVALID_ENCODED_DATA",
          message: `${fixture.files.path(path)} is not UTF-8 text`,
        });
      }
    });

    test("a file belongs to the given user and group, each by default this process's", async () => {
      const [user = 0, group = 0] = [process.getuid?.(), process.getgid?.()];
      await fixture.files.makeFile("owned-mine", 0o640, "x");
      expect(await fixture.files.stat("owned-mine")).toMatchObject({ user, group, mode: 0o640 });
      // Others than root may not give files away.
      const [otherUser, otherGroup] = user === 0 ? [1234, 2345] : [user, group];
      await fixture.files.makeFile("owned-theirs", 0o4640, "x", { user: otherUser, group: otherGroup });
      expect(await fixture.files.stat("owned-theirs")).toMatchObject({
        user: otherUser,
        group: otherGroup,
        mode: 0o4640,
      });
      await fixture.files.makeFile("owned-shared", 0o640, "x", { group: otherGroup });
      expect(await fixture.files.stat("owned-shared")).toMatchObject({ user, group: otherGroup });
    });

    test("read and readEnd refuse a directory", async () => {
      await fixture.files.makeFolder("folder", 0o755);
      await expect(fixture.files.read("folder", 10)).rejects.toMatchObject({ code: "ENOTFILE" });
      await expect(fixture.files.readEnd("folder", 10)).rejects.toMatchObject({ code: "ENOTFILE" });
    });

    test("makeFolder creates parents and is idempotent; list is ordered by name", async () => {
      await fixture.files.makeFolder("x/y", 0o777);
      await fixture.files.makeFolder("x/y", 0o777);
      await fixture.files.write("x/b", "", 0o600);
      await fixture.files.write("x/a", "", 0o600);
      expect((await fixture.files.stat("x/y"))?.mode).toBe(0o777);
      expect(await fixture.files.list("x")).toEqual([
        { name: "a", kind: "file" },
        { name: "b", kind: "file" },
        { name: "y", kind: "directory" },
      ]);
    });

    test("makeFolder keeps the mode of an existing directory, unless an interrupted call left mode 0", async () => {
      await fixture.files.makeFolder("private", 0o700);
      await fixture.files.makeFolder("private", 0o777);
      expect((await fixture.files.stat("private"))?.mode).toBe(0o700);
      await fixture.files.makeFolder("incomplete", 0);
      await fixture.files.makeFolder("incomplete", 0o777);
      expect((await fixture.files.stat("incomplete"))?.mode).toBe(0o777);
    });

    test("makeFolder sets the group and the setgid bit of a new directory only", async () => {
      await fixture.files.makeFolder("shared", 0o2777, 2000);
      await fixture.files.makeFolder("shared", 0o2777, 3000);
      expect(await fixture.files.stat("shared")).toMatchObject({ mode: 0o2777, group: 2000 });
    });

    test("makeFolder fails if the path is a file", async () => {
      await fixture.files.write("existing", "", 0o600);
      await expect(fixture.files.makeFolder("existing", 0o700)).rejects.toMatchObject({ code: "EEXIST" });
    });

    test("remove deletes a directory with its content and succeeds for a missing path", async () => {
      await fixture.files.makeFolder("r/s", 0o755);
      await fixture.files.write("r/s/t", "", 0o600);
      await fixture.files.remove("r");
      await fixture.files.remove("r");
      expect(await fixture.files.stat("r")).toBeUndefined();
    });

    test("rename moves a file", async () => {
      await fixture.files.write("old", "1", 0o600);
      await fixture.files.rename("old", "new");
      expect(await fixture.files.stat("old")).toBeUndefined();
      expect(await fixture.files.read("new", 10)).toBe("1");
    });

    test("link replaces an existing symlink; removing the symlink leaves its target", async () => {
      await fixture.files.makeFolder("links", 0o755);
      await fixture.files.write("aim", "content", 0o600);
      await fixture.files.link("links/to", "../nowhere");
      expect(await fixture.files.stat("links/to")).toBeUndefined();
      for (let time = 0; time < 2; time++) await fixture.files.link("links/to", "../aim");
      expect(await fixture.files.readLink("links/to")).toBe("../aim");
      expect(await fixture.files.stat("links/to")).toMatchObject({ kind: "file", sizeBytes: 7 });
      expect(await fixture.files.list("links")).toEqual([{ name: "to", kind: "symlink" }]);
      await fixture.files.remove("links/to");
      expect(await fixture.files.list("links")).toEqual([]);
      expect(await fixture.files.read("aim", 10)).toBe("content");
    });

    test("changeGroup gives a tree to a group and adds permission bits, but does not follow links", async () => {
      const { files } = fixture;
      const group = process.getuid?.() === 0 ? 3456 : (process.getgid?.() ?? 0);
      await files.makeFolder("volume/inner", 0o700);
      await files.makeFile("volume/inner/file", 0o4600, "x");
      await files.makeFile("volume/read", 0o444, "x");
      await files.makeFolder("beside", 0o700);
      await files.makeFile("beside/file", 0o600, "x");
      await files.link("volume/link", "../beside/file");
      await files.link("volume/folder-link", "../beside");
      const before = [await files.stat("beside"), await files.stat("beside/file")];
      const counts: number[] = [];
      const { signal } = new AbortController();
      const change = { group, addedFileMode: 0o660, addedFolderMode: 0o2770, signal };
      const result = await files.changeGroup("volume", { ...change, onProgress: (count) => void counts.push(count) });
      expect(result).toEqual({ count: 6, failure: undefined });
      expect(counts).toEqual([1, 2, 3, 4, 5, 6]);
      expect(await files.stat("volume")).toMatchObject({ group, mode: 0o2775 });
      expect(await files.stat("volume/inner")).toMatchObject({ group, mode: 0o2770 });
      expect(await files.stat("volume/inner/file")).toMatchObject({ group, mode: 0o4660, sizeBytes: 1 });
      expect(await files.stat("volume/read")).toMatchObject({ group, mode: 0o664 });
      expect([await files.stat("beside"), await files.stat("beside/file")]).toEqual(before);
    });

    test("changeGroup needs a folder, and rejects with the signal's reason", async () => {
      const { files } = fixture;
      const change = { group: process.getgid?.() ?? 0, addedFileMode: 0, addedFolderMode: 0 };
      const { signal } = new AbortController();
      await files.makeFile("no-volume", 0o644);
      for (const [path, code] of [
        ["no-volume", "ENOTDIR"],
        ["none", "ENOENT"],
      ] as const)
        await expect(files.changeGroup(path, { ...change, signal })).rejects.toMatchObject({
          name: "FilesError",
          code,
        });
      await files.makeFolder("stopped", 0o755);
      await files.makeFile("stopped/file", 0o644);
      const reason = new Error("the pod is deleted");
      const aborted = files.changeGroup("stopped", { ...change, signal: AbortSignal.abort(reason) });
      await expect(aborted).rejects.toBe(reason);
    });

    test("realPath resolves every symlink of a path, and returns undefined where nothing is", async () => {
      const { files } = fixture;
      await files.makeFolder("real/folder", 0o755);
      await files.write("real/folder/file", "", 0o600);
      await files.link("alias", "real");
      await files.link("real/link", "folder/file");
      await files.link("dangling", "nothing");
      const real = await files.realPath("real/folder/file");
      expect(real).toEndWith("/real/folder/file");
      expect(await Promise.all([files.realPath("alias/link"), files.realPath("alias/folder/file")])).toEqual([
        real,
        real,
      ]);
      expect(await Promise.all(["none", "dangling", "real/folder/file/x"].map(files.realPath))).toEqual(
        Array.from({ length: 3 }, () => undefined),
      );
    });

    test("readLink returns undefined for other files, and link does not replace them", async () => {
      await fixture.files.write("plain", "mine", 0o600);
      for (const path of ["plain", "none", "none/none"]) expect(await fixture.files.readLink(path)).toBeUndefined();
      await fixture.files.makeFolder("folder", 0o755);
      for (const path of ["plain", "folder"])
        await expect(fixture.files.link(path, "aim")).rejects.toMatchObject({
          code: "EEXIST",
          message: `${fixture.files.path(path)} exists and is not a symlink`,
        });
      await expect(fixture.files.link("none/link", "aim")).rejects.toMatchObject({ code: "ENOENT" });
      expect(await fixture.files.read("plain", 10)).toBe("mine");
    });

    test("usage adds up a folder tree without following links, and rejects with the signal's reason", async () => {
      const { files } = fixture;
      const { signal } = new AbortController();
      await files.makeFolder("used/deep", 0o755);
      const empty = await files.usage("used", signal);
      expect(empty.inodesUsed).toBe(2);
      await files.makeFolder("outside", 0o755);
      await files.write("outside/large", new Uint8Array(1 << 20), 0o600);
      await files.write("used/deep/file", new Uint8Array(40_000), 0o600);
      await files.link("used/out", "../outside");
      const { usedBytes, inodesUsed } = await files.usage("used", signal);
      expect(usedBytes - empty.usedBytes).toBeWithin(40_000, 100_000);
      expect(inodesUsed).toBe(4);
      await expect(files.usage("none", signal)).rejects.toMatchObject({ code: "ENOENT" });
      const reason = new Error("the client is gone");
      await expect(files.usage("used", AbortSignal.abort(reason))).rejects.toBe(reason);
    });

    test("readBeneath follows symlinks within the directory and never leaves it", async () => {
      await fixture.files.makeFolder("theirs/deep", 0o755);
      await fixture.files.write("theirs/deep/file", "inside", 0o600);
      await fixture.files.write("ours", "outside", 0o600);
      const links = {
        near: "deep/file",
        far: "/deep/file",
        back: "deep/../deep/file",
        out: "../ours",
        whole: fixture.files.path("ours"),
      };
      for (const [name, target] of Object.entries(links)) await fixture.files.link(`theirs/${name}`, target);
      await fixture.files.link("theirs/loop", "loop");
      await fixture.files.link("theirs/top", "../..");
      const read = async (path: string, maxBytes = 100) =>
        Buffer.from(await fixture.files.readBeneath("theirs", path, maxBytes)).toString();
      for (const path of ["deep/file", "/deep/./file", "near", "far", "back", "top/near", "../near"])
        expect(await read(path)).toBe("inside");
      for (const path of ["out", "whole", "../ours", "none"])
        await expect(read(path)).rejects.toMatchObject({ code: "ENOENT" });
      await expect(read("loop")).rejects.toMatchObject({ code: "ELOOP" });
      await expect(read("deep")).rejects.toMatchObject({ code: "ENOTFILE" });
      await expect(read("deep/file", 5)).rejects.toMatchObject({ code: "ETOOBIG" });
    });

    test("path refuses to leave the root", () => {
      for (const path of ["..", "../x", "a/../../x", "/../x", "a\0b"])
        expect(() => fixture.files.path(path)).toThrow(expect.objectContaining({ code: "EOUTSIDE" }));
      expect(fixture.files.path("/a/./b")).toBe(`${fixture.files.root}/a/b`);
    });

    test("watch reports the name of each file that changes in the directory, until its signal aborts", async () => {
      await fixture.files.makeFolder("watched", 0o755);
      const names: (string | undefined)[] = [];
      const written: (string | undefined)[] = [];
      const ending = new AbortController();
      const { promise, resolve } = Promise.withResolvers<void>();
      fixture.files.watch(
        "watched",
        (changed, isInPlace) => {
          names.push(changed);
          if (isInPlace) written.push(changed);
          if (changed === "seen") resolve();
        },
        () => {},
        ending.signal,
      );
      await fixture.files.write("watched/seen", "", 0o600);
      await promise;
      ending.abort();
      expect(names).toContain("seen");
      expect(written).not.toContain("seen");
    });

    test("watch reports the removal of its directory", async () => {
      await fixture.files.makeFolder("leaving", 0o755);
      const { promise, resolve } = Promise.withResolvers<string>();
      fixture.files.watch(
        "leaving",
        () => {},
        () => resolve("gone"),
        new AbortController().signal,
      );
      await fixture.files.remove("leaving");
      expect(await promise).toBe("gone");
    });

    test("watch fails for a missing directory", () => {
      expect(() =>
        fixture.files.watch(
          "absent",
          () => {},
          () => {},
          new AbortController().signal,
        ),
      ).toThrow(expect.objectContaining({ code: "ENOENT" }));
    });
  });
}
