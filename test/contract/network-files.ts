import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import { networkMountOf } from "../../host/fs/network-file-systems.ts";
import type { NetworkFiles } from "../../host/fs/network-files.ts";
import { testMakeEmptyFile } from "./empty-files.ts";

interface NetworkFilesFixture {
  /** Files below a folder of their own, which is no mount point. */
  readonly files: Files;
  readonly mounts: Mounts;
  readonly networkFiles: NetworkFiles;
  /** Mounts a file system that does not answer at an absolute path. */
  mountDead(path: string): void;
  end(): Promise<void> | void;
}

/** The contract of `NetworkFiles`, for processes of Berth's own program and the fake. `hasDead`: the machine has such file systems. */
export function networkFilesContract(name: string, make: () => Promise<NetworkFilesFixture>, hasDead = true): void {
  describe(`network files: ${name}`, () => {
    let fixture: NetworkFilesFixture;
    beforeEach(async () => {
      fixture = await make();
      await fixture.files.makeFolder("at", 0o755);
      await fixture.files.makeFile("at/file", 0o600, "content");
    });
    afterEach(() => fixture.end());
    const path = (each: string) => fixture.files.path(each);
    const noSignal = new AbortController().signal;
    const writable = { isReadOnly: false, isRecursive: false };

    test("stat and realPath report what the plain calls report", async () => {
      const { files, networkFiles } = fixture;
      await files.link("link", "at");
      for (const each of ["at", "link/file", "none"]) {
        expect(await networkFiles.stat(path(each), noSignal)).toEqual(await files.stat(each));
        expect(await networkFiles.realPath(path(each), noSignal)).toBe(await files.realPath(each));
      }
    });

    testMakeEmptyFile(() => ({
      files: fixture.files,
      makeEmptyFile: (each, mode) => fixture.networkFiles.makeEmptyFile(path(each), mode, noSignal),
    }));

    test("folders are made with their modes", async () => {
      const { files, networkFiles } = fixture;
      await networkFiles.makeFolder(path("at/new/deep"), 0o750, noSignal);
      expect(await files.stat("at/new/deep")).toMatchObject({ kind: "directory", mode: 0o750 });
    });

    test("a tree is given to a group", async () => {
      const { files, networkFiles } = fixture;
      const change = { group: 2000, addedFileMode: 0o660, addedFolderMode: 0o2770, signal: noSignal };
      expect(await networkFiles.changeGroup(path("at"), change)).toEqual({ count: 2, failure: undefined });
      expect(await files.stat("at/file")).toMatchObject({ group: 2000, mode: 0o660 });
    });

    test("a path is bound, and a path beneath a folder, and both are unmounted", async () => {
      const { files, mounts, networkFiles } = fixture;
      await files.makeFolder("target", 0o755);
      await networkFiles.bind(path("at"), path("target"), writable, noSignal);
      await networkFiles.bindBeneath(path("at"), "new", path("beneath"), noSignal);
      await files.makeFile("beneath/file", 0o600, "new");
      expect([await files.read("target/file", 100), await files.read("at/new/file", 100)]).toEqual(["content", "new"]);
      for (const each of ["target", "beneath", "beneath"]) await networkFiles.unmount(path(each), noSignal);
      expect(await mounts.mountPointsBelow(files.root)).toEqual([]);
    });

    test("a call that fails has the kernel's code", async () => {
      const { files, networkFiles } = fixture;
      await files.link("at/out", "..");
      const failures: readonly [code: string, call: () => Promise<void>][] = [
        ["ENOENT", () => networkFiles.bind(path("none"), path("at"), writable, noSignal)],
        ["EXDEV", () => networkFiles.bindBeneath(path("at"), "out", path("beneath"), noSignal)],
        ["EEXIST", () => networkFiles.makeFolder(path("at/file"), 0o755, noSignal)],
      ];
      for (const [code, call] of failures) await expect(call()).rejects.toMatchObject({ name: "FilesError", code });
    });

    test.skipIf(!hasDead)(
      "a file system that does not answer delays nothing else, and a call on it ends when the signal aborts",
      async () => {
        const { files, mounts, networkFiles } = fixture;
        await files.makeFolder("dead", 0o755);
        await files.makeFolder("target", 0o755);
        fixture.mountDead(path("dead"));
        const dead = await networkMountOf(path("dead/data"), await mounts.list(), files.readLink);
        expect(dead?.mountPoint).toBe(path("dead"));
        const abort = new AbortController();
        const calls = [
          // More than a process has I/O threads.
          ...Array.from({ length: 9 }, () => networkFiles.stat(path("dead/data"), abort.signal)),
          networkFiles.makeFolder(path("dead/new"), 0o755, abort.signal),
          networkFiles.bind(path("dead/data"), path("target"), writable, abort.signal),
        ].map((call) => call.catch((error: unknown) => error));
        expect(await networkFiles.stat(path("at"), noSignal)).toEqual(await files.stat("at"));
        expect(await files.read("at/file", 100)).toBe("content");
        const reason = new Error("the pod is deleted");
        abort.abort(reason);
        for (const call of calls) expect(await call).toBe(reason);
        await networkFiles.unmount(path("dead"), noSignal);
        expect(await mounts.mountPointsBelow(files.root)).toEqual([]);
      },
      240_000,
    );
  });
}
