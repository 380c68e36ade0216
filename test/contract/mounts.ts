import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";
import { type Mounts, otherMountPointsOf } from "../../host/fs/mounts.ts";
import { testBindBeneath } from "./bind-beneath.ts";

interface MountsFixture {
  /** Files below a folder of their own, which is no mount point. */
  readonly files: Files;
  readonly mounts: Mounts;
  /** Opens a file, and returns a function that closes it. */
  holdOpen(path: string): Promise<() => Promise<void> | void>;
  /** Removes the folder. */
  end(): Promise<void> | void;
}

const MIB = 1024 * 1024;

/** The contract of `Mounts`, for the kernel and the fake. */
export function mountsContract(name: string, make: () => Promise<MountsFixture>): void {
  describe(`mounts: ${name}`, () => {
    let fixture: MountsFixture;
    let files: Files;
    let mounts: Mounts;
    beforeEach(async () => {
      fixture = await make();
      ({ files, mounts } = fixture);
      await files.makeFolder("at", 0o755);
    });
    afterEach(async () => {
      const left = await mounts.mountPointsBelow(files.root);
      for (const each of left.toReversed()) await mounts.unmount(each);
      await fixture.end();
    });
    const path = (...parts: readonly string[]) => files.path(...parts);
    const points = () => mounts.mountPointsBelow(files.root);
    const tmpfs = { mode: 0o1777, sizeBytes: MIB };

    test("a tmpfs hides the folder's content and loses its own when it is unmounted", async () => {
      await files.write("at/below", "below", 0o600);
      await mounts.mountTmpfs(path("at"), tmpfs);
      expect(await points()).toEqual([path("at")]);
      expect(await files.stat("at/below")).toBeUndefined();
      expect(await files.stat("at")).toMatchObject({ kind: "directory", mode: 0o1777 });
      await files.write("at/inside", "inside", 0o600);
      await mounts.unmount(path("at"));
      expect(await points()).toEqual([]);
      expect((await files.list("at"))?.map((entry) => entry.name)).toEqual(["below"]);
      expect(await files.read("at/below", 10)).toBe("below");
      await mounts.mountTmpfs(path("at"), tmpfs);
      expect(await files.list("at")).toEqual([]);
    });

    test("a tmpfs has the requested mode, whatever the umask is, and is mounted as the kubelet does", async () => {
      await mounts.mountTmpfs(path("at"), { mode: 0o750 });
      expect((await files.stat("at"))?.mode).toBe(0o750);
      const [found] = (await mounts.list()).filter(({ mountPoint }) => mountPoint === path("at"));
      expect(found).toMatchObject({ fsType: "tmpfs", source: "tmpfs" });
      expect(found?.options.filter((option) => option !== "noswap")).toEqual(["rw", "relatime"]);
    });

    test("a path has what is mounted at it, by whichever way to its folder; a symlink to it has nothing", async () => {
      const mountedAt = async (of: string) => (await mounts.mountsAt(path(of))).map(({ mountPoint }) => mountPoint);
      await files.makeFolder("at/inner", 0o755);
      await files.link("folder", ".");
      await files.link("link", "at/inner");
      for (const each of ["at", "at/inner", "none", "none/at"]) expect(await mountedAt(each)).toEqual([]);
      await mounts.mountTmpfs(path("at/inner"), tmpfs);
      for (const each of ["at/inner", "folder/at/inner"]) expect(await mountedAt(each)).toEqual([path("at/inner")]);
      for (const each of ["at", "link"]) expect(await mountedAt(each)).toEqual([]);
      await mounts.unmount(path("at/inner"));
      expect(await mountedAt("at/inner")).toEqual([]);
    });

    test("a tmpfs that is mounted already stays with its files, also from another instance of the agent", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await files.write("at/kept", "kept", 0o600);
      await mounts.mountTmpfs(path("at"), tmpfs);
      expect(await points()).toEqual([path("at")]);
      expect(await files.read("at/kept", 10)).toBe("kept");
      await mounts.unmount(path("at"));
      expect(await points()).toEqual([]);
    });

    test("a hugetlbfs has the requested mode and group, stays when it is mounted again, and takes no file on the disk", async () => {
      const pageBytes = 2 * MIB;
      for (const [mode, group] of [
        [0o755, undefined],
        [0o2775, 2000],
      ] as const) {
        const options = { pageBytes, mode, ...(group !== undefined && { group }) };
        for (let time = 0; time < 2; time++) await mounts.mountHugePages(path("at"), options);
        expect(await points()).toEqual([path("at")]);
        expect(await files.stat("at")).toMatchObject({ kind: "directory", mode, group: group ?? 0 });
        const [found] = (await mounts.list()).filter(({ mountPoint }) => mountPoint === path("at"));
        expect(found).toMatchObject({ fsType: "hugetlbfs", source: "nodev", options: ["rw", "relatime"] });
        await mounts.unmount(path("at"));
        expect(await points()).toEqual([]);
      }
    });

    test("a hugetlbfs of a page size that the kernel lacks is refused", async () => {
      const mounted = mounts.mountHugePages(path("at"), { pageBytes: 3 * MIB, mode: 0o755 });
      await expect(mounted).rejects.toMatchObject({ name: "FilesError", code: "EINVAL" });
      expect(await points()).toEqual([]);
    });

    test("a folder of a tmpfs can have a tmpfs of its own", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await files.makeFolder("at/inner", 0o755);
      await mounts.mountTmpfs(path("at/inner"), tmpfs);
      expect(await points()).toEqual([path("at"), path("at/inner")]);
    });

    test("a tmpfs refuses more bytes than its size, and keeps what it has", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await files.write("at/first", "x".repeat(MIB / 2), 0o600);
      await expect(files.write("at/second", "x".repeat(MIB), 0o600)).rejects.toMatchObject({ code: "ENOSPC" });
      expect(await files.read("at/first", MIB)).toHaveLength(MIB / 2);
    });

    test("nothing is mounted where no folder is", async () => {
      await files.write("file", "", 0o600);
      for (const [at, code] of [
        ["none", "ENOENT"],
        ["file", "ENOTDIR"],
      ] as const) {
        await expect(mounts.mountTmpfs(path(at), tmpfs)).rejects.toMatchObject({ name: "FilesError", code });
        await files.makeFolder("source", 0o755);
        await expect(
          mounts.bind(path("source"), path(at), { isReadOnly: false, isRecursive: false }),
        ).rejects.toMatchObject({ name: "FilesError", code });
      }
      await expect(
        mounts.bind(path("gone"), path("at"), { isReadOnly: false, isRecursive: false }),
      ).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
      await expect(mounts.mountTmpfs(path("file"), tmpfs)).rejects.toThrow(
        `${path("file")} cannot be mounted: it is not a folder`,
      );
      expect(await points()).toEqual([]);
    });

    test("a bind mount shows its source, takes writes, and leaves the source when it is unmounted", async () => {
      await files.makeFolder("source", 0o755);
      await files.write("source/file", "one", 0o600);
      const writable = { isReadOnly: false, isRecursive: false };
      for (let time = 0; time < 2; time++) await mounts.bind(path("source"), path("at"), writable);
      expect(await points()).toEqual([path("at")]);
      expect(await files.read("at/file", 10)).toBe("one");
      await files.write("at/file", "two", 0o600);
      await mounts.unmount(path("at"));
      expect(await points()).toEqual([]);
      expect(await files.list("at")).toEqual([]);
      expect(await files.read("source/file", 10)).toBe("two");
    });

    test("the other mount points of a folder are those of its bind mounts, on the disk and on a tmpfs", async () => {
      const options = { isReadOnly: false, isRecursive: false };
      await mounts.mountTmpfs(path("at"), tmpfs);
      for (const source of ["source", "at/source"]) {
        for (const each of [source, `${source}/in it`, "one", "two"]) await files.makeFolder(each, 0o755);
        const others = async (of: string) => otherMountPointsOf(path(of), await mounts.list());
        expect(await others(source)).toEqual([]);
        await mounts.bind(path(source), path("one"), options);
        await mounts.bind(path(source, "in it"), path("two"), options);
        expect(await others(source)).toEqual([path("one")]);
        expect(await others(`${source}/in it`)).toEqual([path("two")]);
        expect(await others("one")).toEqual([]);
        expect(await others("one/in it")).toEqual([path("two")]);
        for (const each of ["one", "two"]) await mounts.unmount(path(each));
      }
    });

    test("a file can be bound to a file", async () => {
      await files.write("source", "content", 0o600);
      await files.write("target", "", 0o600);
      await mounts.bind(path("source"), path("target"), { isReadOnly: true, isRecursive: false });
      expect(await files.read("target", 10)).toBe("content");
      await mounts.unmount(path("target"));
      expect(await files.read("target", 10)).toBe("");
    });

    test("a read-only bind mount refuses writes; its source takes them", async () => {
      await files.makeFolder("source", 0o755);
      await files.write("source/file", "one", 0o600);
      await mounts.bind(path("source"), path("at"), { isReadOnly: true, isRecursive: false });
      for (const write of [
        () => files.write("at/file", "two", 0o600),
        () => files.makeFile("at/other", 0o600, ""),
        () => files.makeFolder("at/folder", 0o755),
        () => files.link("at/link", "file"),
      ])
        await expect(write()).rejects.toMatchObject({ code: "EROFS" });
      await files.write("source/file", "two", 0o600);
      expect(await files.read("at/file", 10)).toBe("two");
    });

    test("a bind mount that is there already becomes read-only when that is asked for", async () => {
      await files.makeFolder("source", 0o755);
      await mounts.bind(path("source"), path("at"), { isReadOnly: false, isRecursive: false });
      await mounts.bind(path("source"), path("at"), { isReadOnly: true, isRecursive: false });
      expect(await points()).toEqual([path("at")]);
      await expect(files.write("at/file", "", 0o600)).rejects.toMatchObject({ code: "EROFS" });
    });

    test("nothing is bound over another mount", async () => {
      await files.makeFolder("source", 0o755);
      await mounts.mountTmpfs(path("at"), tmpfs);
      await expect(
        mounts.bind(path("source"), path("at"), { isReadOnly: false, isRecursive: false }),
      ).rejects.toMatchObject({
        code: "EBUSY",
        message: `${path("at")} cannot be mounted: something else is mounted there`,
      });
      expect(await points()).toEqual([path("at")]);
    });

    test("a mount point and the folders above it cannot be removed", async () => {
      await files.makeFolder("source", 0o755);
      await files.write("source/precious", "", 0o600);
      await files.makeFolder("pod/volume", 0o755);
      await mounts.bind(path("source"), path("pod/volume"), { isReadOnly: false, isRecursive: false });
      for (const each of ["pod", "pod/volume"])
        await expect(files.remove(each)).rejects.toMatchObject({ code: "EBUSY", path: path("pod/volume") });
      expect(await files.stat("source/precious")).toBeDefined();
      await mounts.unmount(path("pod/volume"));
      await files.remove("pod");
      expect(await files.stat("source/precious")).toBeDefined();
    });

    test("where nothing is mounted, and where nothing exists, an unmount is success", async () => {
      await files.write("file", "", 0o600);
      for (const each of ["at", "file", "none", "none/none"]) await mounts.unmount(path(each));
    });

    test("an unmount does not follow a symlink", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await files.link("link", "at");
      await mounts.unmount(path("link"));
      expect(await points()).toEqual([path("at")]);
    });

    test("a mount with an open file, or with a mount below it, is busy", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await files.makeFolder("at/inner", 0o755);
      await files.write("at/file", "", 0o600);
      const busy = {
        name: "FilesError",
        code: "EBUSY",
        path: path("at"),
        message: `${path("at")} cannot be unmounted: a process uses a file of it, or something is mounted below`,
      };
      const close = await fixture.holdOpen("at/file");
      await expect(mounts.unmount(path("at"))).rejects.toMatchObject(busy);
      await close();
      await mounts.mountTmpfs(path("at/inner"), tmpfs);
      await expect(mounts.unmount(path("at"))).rejects.toMatchObject(busy);
      expect(await points()).toEqual([path("at"), path("at/inner")]);
      await mounts.unmount(path("at/inner"));
      await mounts.unmount(path("at"));
      expect(await points()).toEqual([]);
    });

    test("mounts on top of each other are listed from the oldest on, and unmounted together", async () => {
      await mounts.mountTmpfs(path("at"), tmpfs);
      await mounts.mountHugePages(path("at"), { pageBytes: 2 * MIB, mode: 0o755 });
      expect((await mounts.mountsAt(path("at"))).map(({ fsType }) => fsType)).toEqual(["tmpfs", "hugetlbfs"]);
      await mounts.unmount(path("at"));
      expect(await points()).toEqual([]);
    });

    test("a folder becomes shared, once, and so are the mounts below it", async () => {
      expect(await mounts.isShared(path("at"))).toBe(false);
      for (let time = 0; time < 2; time++) await mounts.makeShared(path("at"));
      expect(await points()).toEqual([path("at")]);
      await files.makeFolder("at/volume", 0o755);
      await mounts.mountTmpfs(path("at/volume"), tmpfs);
      expect(await mounts.isShared(path("at/volume"))).toBe(true);
      expect(await mounts.isShared(files.root)).toBe(false);
      const shared = (await mounts.list()).filter(({ isShared }) => isShared).map(({ mountPoint }) => mountPoint);
      expect(shared).toEqual([path("at"), path("at/volume")]);
    });

    testBindBeneath(() => ({ files, mounts }));

    test("a folder that does not exist cannot become shared", async () => {
      await expect(mounts.makeShared(path("none"))).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
    });
  });
}
