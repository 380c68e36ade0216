import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";

interface Bed {
  readonly files: Files;
  readonly end: () => Promise<void> | void;
}

/** What every maker of `Files` has to keep. */
export function filesContract(name: string, make: () => Promise<Bed>): void {
  describe(`files: ${name}`, () => {
    let bed: Bed;
    beforeAll(async () => {
      bed = await make();
    });
    afterAll(() => bed.end());

    test("what was written is read, and replaced whole", async () => {
      await bed.files.write("a", "one", 0o600);
      await bed.files.write("a", "two", 0o640);
      expect(await bed.files.read("a", 100)).toBe("two");
      const stat = await bed.files.stat("a");
      expect(stat?.kind).toBe("file");
      expect(stat?.mode).toBe(0o640);
      expect(stat?.sizeBytes).toBe(3);
    });

    test("another version of a file is another inode or another time", async () => {
      await bed.files.write("v", "same", 0o600);
      const before = await bed.files.stat("v");
      await bed.files.write("v", "same", 0o600);
      expect(await bed.files.stat("v")).not.toEqual(before);
    });

    test("absent is undefined to stat and list, and an error to read", async () => {
      expect(await bed.files.stat("none")).toBeUndefined();
      expect(await bed.files.list("none")).toBeUndefined();
      await expect(bed.files.read("none", 10)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("a write into a folder that is not there fails and leaves nothing", async () => {
      await expect(bed.files.write("no/such/file", "", 0o600)).rejects.toMatchObject({ code: "ENOENT" });
      expect(await bed.files.stat("no")).toBeUndefined();
    });

    test("a file larger than allowed is refused", async () => {
      await bed.files.write("big", "x".repeat(11), 0o600);
      await expect(bed.files.read("big", 10)).rejects.toMatchObject({ code: "ETOOBIG" });
      expect(await bed.files.read("big", 11)).toHaveLength(11);
    });

    test("the end of a file is read, of a short one all, whatever its bytes", async () => {
      await bed.files.write("long", `${"x".repeat(5000)}the end: ä`, 0o600);
      expect(await bed.files.readEnd("long", 11)).toBe("the end: ä");
      expect(await bed.files.readEnd("long", 1)).toBe("\ufffd");
      await bed.files.write("short", "all", 0o600);
      expect(await bed.files.readEnd("short", 11)).toBe("all");
      await bed.files.makeFile("none-of-it", 0o600);
      expect(await bed.files.readEnd("none-of-it", 11)).toBe("");
      await expect(bed.files.readEnd("not-there", 10)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("the end of a file is read over a link, or not, as one asks", async () => {
      await bed.files.makeFolder("real/folder", 0o755);
      await bed.files.write("real/folder/log", "the end", 0o600);
      await bed.files.link("real/folder/link", "log");
      await bed.files.link("real/way", "folder");
      const withoutLinks = { withoutLinks: true };
      expect(await bed.files.readEnd("real/folder/log", 3, withoutLinks)).toBe("end");
      expect(await bed.files.readEnd("real/folder/link", 3)).toBe("end");
      for (const path of ["real/folder/link", "real/way/log"])
        await expect(bed.files.readEnd(path, 3, withoutLinks)).rejects.toMatchObject({ code: "ESYMLINK" });
      await expect(bed.files.readEnd("real/folder/none", 3, withoutLinks)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("a file is made with its content, over a longer one too", async () => {
      await bed.files.makeFile("hosts", 0o644, "a longer content");
      await bed.files.makeFile("hosts", 0o644, "short");
      expect(await bed.files.read("hosts", 100)).toBe("short");
    });

    test("a file is made empty, with the mode that is asked for whatever the umask, and emptied if it is there", async () => {
      await bed.files.makeFile("open-to-all", 0o666);
      expect((await bed.files.stat("open-to-all"))?.mode).toBe(0o666);
      await bed.files.write("open-to-all", "word", 0o600);
      await bed.files.makeFile("open-to-all", 0o666);
      expect(await bed.files.read("open-to-all", 10)).toBe("");
      expect((await bed.files.stat("open-to-all"))?.mode).toBe(0o666);
      await expect(bed.files.makeFile("no/such/file", 0o666)).rejects.toMatchObject({ code: "ENOENT" });
    });

    test("a folder cannot be read as a file", async () => {
      await bed.files.makeFolder("folder", 0o755);
      await expect(bed.files.read("folder", 10)).rejects.toMatchObject({ code: "ENOTFILE" });
      await expect(bed.files.readEnd("folder", 10)).rejects.toMatchObject({ code: "ENOTFILE" });
    });

    test("folders are made with their parents, twice is once, and are listed in order", async () => {
      await bed.files.makeFolder("x/y", 0o777);
      await bed.files.makeFolder("x/y", 0o777);
      await bed.files.write("x/b", "", 0o600);
      await bed.files.write("x/a", "", 0o600);
      expect((await bed.files.stat("x/y"))?.mode).toBe(0o777);
      expect(await bed.files.list("x")).toEqual([
        { name: "a", kind: "file" },
        { name: "b", kind: "file" },
        { name: "y", kind: "directory" },
      ]);
    });

    test("a folder keeps the mode that its owner gave it, unless its maker died before it had one", async () => {
      await bed.files.makeFolder("private", 0o700);
      await bed.files.makeFolder("private", 0o777);
      expect((await bed.files.stat("private"))?.mode).toBe(0o700);
      await bed.files.makeFolder("begun", 0);
      await bed.files.makeFolder("begun", 0o777);
      expect((await bed.files.stat("begun"))?.mode).toBe(0o777);
    });

    test("a folder is given to a group, to which what is made in it belongs too", async () => {
      await bed.files.makeFolder("shared", 0o2777, 2000);
      await bed.files.makeFolder("shared", 0o2777, 3000);
      expect(await bed.files.stat("shared")).toMatchObject({ mode: 0o2777, group: 2000 });
    });

    test("where a file is, no folder is made", async () => {
      await bed.files.write("taken", "", 0o600);
      await expect(bed.files.makeFolder("taken", 0o700)).rejects.toMatchObject({ code: "EEXIST" });
    });

    test("removing takes all below, and the absent is gone already", async () => {
      await bed.files.makeFolder("r/s", 0o755);
      await bed.files.write("r/s/t", "", 0o600);
      await bed.files.remove("r");
      await bed.files.remove("r");
      expect(await bed.files.stat("r")).toBeUndefined();
    });

    test("a rename moves", async () => {
      await bed.files.write("old", "1", 0o600);
      await bed.files.rename("old", "new");
      expect(await bed.files.stat("old")).toBeUndefined();
      expect(await bed.files.read("new", 10)).toBe("1");
    });

    test("a link leads where it was last told to, and goes without what it leads to", async () => {
      await bed.files.makeFolder("links", 0o755);
      await bed.files.write("aim", "content", 0o600);
      await bed.files.link("links/to", "../nowhere");
      expect(await bed.files.stat("links/to")).toBeUndefined();
      for (let time = 0; time < 2; time++) await bed.files.link("links/to", "../aim");
      expect(await bed.files.readLink("links/to")).toBe("../aim");
      expect(await bed.files.stat("links/to")).toMatchObject({ kind: "file", sizeBytes: 7 });
      expect(await bed.files.list("links")).toEqual([{ name: "to", kind: "symlink" }]);
      await bed.files.remove("links/to");
      expect(await bed.files.list("links")).toEqual([]);
      expect(await bed.files.read("aim", 10)).toBe("content");
    });

    test("what is no link leads nowhere, and is not replaced by one", async () => {
      await bed.files.write("plain", "mine", 0o600);
      for (const path of ["plain", "none", "none/none"]) expect(await bed.files.readLink(path)).toBeUndefined();
      await expect(bed.files.link("plain", "aim")).rejects.toMatchObject({ code: "EEXIST" });
      await expect(bed.files.link("none/link", "aim")).rejects.toMatchObject({ code: "ENOENT" });
      expect(await bed.files.read("plain", 10)).toBe("mine");
    });

    test("below a folder of others a file is found where their links lead, and nothing outside of it", async () => {
      await bed.files.makeFolder("theirs/deep", 0o755);
      await bed.files.write("theirs/deep/file", "inside", 0o600);
      await bed.files.write("ours", "outside", 0o600);
      const links = {
        near: "deep/file",
        far: "/deep/file",
        back: "deep/../deep/file",
        out: "../ours",
        whole: bed.files.path("ours"),
      };
      for (const [name, target] of Object.entries(links)) await bed.files.link(`theirs/${name}`, target);
      await bed.files.link("theirs/loop", "loop");
      await bed.files.link("theirs/top", "../..");
      const read = async (path: string, maxBytes = 100) =>
        Buffer.from(await bed.files.readBeneath("theirs", path, maxBytes)).toString();
      for (const path of ["deep/file", "/deep/./file", "near", "far", "back", "top/near", "../near"])
        expect(await read(path)).toBe("inside");
      for (const path of ["out", "whole", "../ours", "none"])
        await expect(read(path)).rejects.toMatchObject({ code: "ENOENT" });
      await expect(read("loop")).rejects.toMatchObject({ code: "ELOOP" });
      await expect(read("deep")).rejects.toMatchObject({ code: "ENOTFILE" });
      await expect(read("deep/file", 5)).rejects.toMatchObject({ code: "ETOOBIG" });
    });

    test("no path leads out of the root", () => {
      for (const path of ["..", "../x", "a/../../x", "/../x", "a\0b"])
        expect(() => bed.files.path(path)).toThrow(expect.objectContaining({ code: "EOUTSIDE" }));
      expect(bed.files.path("/a/./b")).toBe(`${bed.files.root}/a/b`);
    });

    test("a watch tells the name of what changes in the folder, until its signal aborts", async () => {
      await bed.files.makeFolder("watched", 0o755);
      const names: (string | undefined)[] = [];
      const written: (string | undefined)[] = [];
      const ending = new AbortController();
      const { promise, resolve } = Promise.withResolvers<void>();
      bed.files.watch(
        "watched",
        (changed, isInPlace) => {
          names.push(changed);
          if (isInPlace) written.push(changed);
          if (changed === "seen") resolve();
        },
        () => {},
        ending.signal,
      );
      await bed.files.write("watched/seen", "", 0o600);
      await promise;
      ending.abort();
      expect(names).toContain("seen");
      expect(written).not.toContain("seen");
    });

    test("a watch says when its folder is gone", async () => {
      await bed.files.makeFolder("leaving", 0o755);
      const { promise, resolve } = Promise.withResolvers<string>();
      bed.files.watch(
        "leaving",
        () => {},
        () => resolve("gone"),
        new AbortController().signal,
      );
      await bed.files.remove("leaving");
      expect(await promise).toBe("gone");
    });

    test("a folder that is not there cannot be watched", () => {
      expect(() =>
        bed.files.watch(
          "absent",
          () => {},
          () => {},
          new AbortController().signal,
        ),
      ).toThrow(expect.objectContaining({ code: "ENOENT" }));
    });
  });
}
