import { expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";

interface BindBeneathFixture {
  readonly files: Files;
  readonly mounts: Mounts;
}

/** The contract of `Mounts.bindBeneath`: a part of the contract of `Mounts`. */
export function testBindBeneath(fixture: () => BindBeneathFixture): void {
  const path = (...parts: readonly string[]) => fixture().files.path(...parts);
  const points = () => fixture().mounts.mountPointsBelow(fixture().files.root);
  const bind = (subPath: string, target = "target") =>
    fixture().mounts.bindBeneath(path("volume"), subPath, path(target));
  /** A volume with the folder `inside`, and a folder beside it. */
  const prepare = async (mode = 0o755) => {
    const { files } = fixture();
    await files.makeFolder("volume", mode);
    for (const each of ["volume/inside", "outside"]) {
      await files.makeFolder(each, 0o755);
      await files.write(`${each}/file`, each, 0o644);
    }
    return files;
  };

  test("a folder beneath another is mounted at a folder that is made for it, and takes writes", async () => {
    const files = await prepare();
    await bind("inside");
    expect(await points()).toEqual([path("target")]);
    expect(await files.read("target/file", 100)).toBe("volume/inside");
    await files.write("target/new", "new", 0o600);
    await fixture().mounts.unmount(path("target"));
    expect(await files.stat("target")).toMatchObject({ kind: "directory", mode: 0o750 });
    expect(await files.read("volume/inside/new", 100)).toBe("new");
  });

  test("a file beneath is mounted at an empty file", async () => {
    const files = await prepare();
    await bind("inside/file");
    expect(await files.read("target", 100)).toBe("volume/inside");
    await fixture().mounts.unmount(path("target"));
    expect(await files.stat("target")).toMatchObject({ kind: "file", mode: 0o640, sizeBytes: 0 });
  });

  test("missing folders are made with the mode of the volume, whatever the umask is", async () => {
    const files = await prepare(0o1777);
    await bind("inside/one//two/./");
    expect((await files.stat("volume/inside"))?.mode).toBe(0o755);
    for (const each of ["volume/inside/one", "volume/inside/one/two", "target"])
      expect(await files.stat(each)).toMatchObject({ kind: "directory", mode: 0o1777 });
  });

  const followed: readonly [link: string, target: string, subPath: string, found: string][] = [
    ["link", "inside", "link", "volume/inside"],
    ["link", "inside", "link/new", "volume/inside/new"],
    ["inside/link", "../inside/file", "inside/link", "volume/inside/file"],
    ["inside/link", "..", "inside/link/inside", "volume/inside"],
  ];
  for (const [link, target, subPath, found] of followed)
    test(`${subPath} is found by the symlink ${link} to ${target}, which stays in the volume`, async () => {
      const files = await prepare();
      await files.link(`volume/${link}`, target);
      await bind(subPath);
      expect((await files.stat("target"))?.inode).toBe((await files.stat(found))!.inode);
    });

  const leaving: readonly [target: string, subPath: string][] = [
    ["/proc", "link"],
    ["/proc", "link/new"],
    ["../outside", "link"],
    ["../outside", "link/file"],
    ["../outside", "link/new"],
    ["inside/../../outside", "link"],
    ["..", "link/outside"],
    ["../volume/inside", "link"],
    ["inside", "../outside"],
    ["inside", "inside/../../outside/new"],
  ];
  for (const [target, subPath] of leaving)
    test(`${subPath} leaves the volume by the symlink link to ${target}, or by itself, and is refused`, async () => {
      const files = await prepare();
      await files.link("volume/link", target);
      await expect(bind(subPath)).rejects.toMatchObject({
        name: "FilesError",
        code: "EXDEV",
        message: `${subPath} leads out of ${path("volume")}, or goes by an absolute symlink, which is refused wherever it leads`,
      });
      expect(await points()).toEqual([]);
      expect(await files.stat("target")).toBeUndefined();
      expect((await files.list("outside"))?.map(({ name }) => name)).toEqual(["file"]);
    });

  test("a symlink to the volume itself by its absolute path is refused, too", async () => {
    const files = await prepare();
    await files.link("volume/link", path("volume/inside"));
    await expect(bind("link")).rejects.toMatchObject({
      code: "EXDEV",
      message: expect.stringContaining("an absolute symlink, which is refused wherever it leads"),
    });
  });

  const unusable: readonly [sentence: string, subPath: string, code: string][] = [
    ["a symlink to nothing, since no folder can be made there", "dangling", "ELOOP"],
    ["what is below a symlink to nothing", "dangling/new", "ELOOP"],
    ["a loop of symlinks", "loop", "ELOOP"],
    ["what is below a file", "inside/file/new", "ENOTDIR"],
    ["a name that is too long", "x".repeat(300), "ENAMETOOLONG"],
  ];
  for (const [sentence, subPath, code] of unusable)
    test(`${sentence} is refused`, async () => {
      const files = await prepare();
      await files.link("volume/dangling", "nothing");
      await files.link("volume/loop", "loop");
      await expect(bind(subPath)).rejects.toMatchObject({ name: "FilesError", code });
      expect(await points()).toEqual([]);
      expect((await files.list("volume"))?.map(({ name }) => name)).toEqual(["dangling", "inside", "loop"]);
    });

  test("a volume that does not exist, or is a file, is refused", async () => {
    const files = await prepare();
    await files.remove("volume");
    await expect(bind("inside")).rejects.toMatchObject({ name: "FilesError", code: "ENOENT" });
    await files.write("volume", "", 0o600);
    await expect(bind("inside")).rejects.toMatchObject({ name: "FilesError", code: "ENOTDIR" });
  });

  test("in a read-only volume nothing is made, and what is there is mounted", async () => {
    const files = await prepare();
    await files.makeFolder("source", 0o755);
    await files.makeFolder("source/there", 0o755);
    await fixture().mounts.bind(path("source"), path("volume"), { isReadOnly: true, isRecursive: false });
    await expect(bind("missing")).rejects.toMatchObject({ name: "FilesError", code: "EROFS" });
    await bind("there");
    expect(await points()).toEqual([path("volume"), path("target")]);
    await expect(files.write("target/file", "", 0o600)).rejects.toMatchObject({ code: "EROFS" });
    expect((await files.list("source"))?.map(({ name }) => name)).toEqual(["there"]);
  });

  test("the same path again is success; another one replaces the mount, and its target by one of its kind", async () => {
    const files = await prepare();
    await files.makeFolder("volume/other", 0o755);
    for (const subPath of ["inside", "inside", "other", "inside/file", "inside"]) {
      await bind(subPath);
      expect(await points()).toEqual([path("target")]);
      expect((await files.stat("target"))?.inode).toBe((await files.stat(`volume/${subPath}`))!.inode);
    }
    expect(await files.read("volume/inside/file", 100)).toBe("volume/inside");
  });

  test("what was removed from the volume while it is mounted is replaced by what is there now", async () => {
    const files = await prepare();
    for (const [subPath, file] of [
      ["inside/file", "target"],
      ["inside", "target/file"],
    ] as const) {
      await bind(subPath);
      await files.remove("volume/inside");
      await files.makeFolder("volume/inside", 0o755);
      await files.write("volume/inside/file", subPath, 0o644);
      await bind(subPath);
      expect(await points()).toEqual([path("target")]);
      expect(await files.read(file, 100)).toBe(subPath);
    }
  });

  test("a target that is no empty folder is not replaced by a file", async () => {
    const files = await prepare();
    await files.makeFolder("target", 0o750);
    await files.write("target/precious", "", 0o600);
    await expect(bind("inside/file")).rejects.toMatchObject({ name: "FilesError", code: "ENOTEMPTY" });
    expect(await files.stat("target/precious")).toBeDefined();
  });
}
