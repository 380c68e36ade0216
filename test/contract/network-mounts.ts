import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { NetworkMounts } from "../../host/fs/network-mounts.ts";
import { pollUntil } from "../bed/poll-until.ts";

interface NetworkMountsFixture {
  /** Files below a folder of their own, which is no mount point. */
  readonly files: Files;
  readonly mounts: Mounts;
  /**
   * The server `answers` mounts, `refuses` fails with the status 32 and a text, `hangs` never ends, and the mounts of `late`
   * are made after they were aborted.
   */
  readonly networkMounts: NetworkMounts;
  /** Waits until a mount of `late` has started; from then on the server answers. */
  waitUntilStarted(target: string): Promise<void>;
  /** Removes the folder. */
  end(): Promise<void> | void;
}

/** The contract of `NetworkMounts`, for mount(8) and the fake. */
export function networkMountsContract(name: string, make: () => Promise<NetworkMountsFixture>): void {
  describe(`network mounts: ${name}`, () => {
    let fixture: NetworkMountsFixture;
    beforeEach(async () => {
      fixture = await make();
      for (const folder of ["at", "other"]) await fixture.files.makeFolder(folder, 0o755);
    });
    afterEach(async () => {
      const { mounts, files } = fixture;
      for (const each of (await mounts.mountPointsBelow(files.root)).toReversed()) await mounts.unmount(each);
      await fixture.end();
    });
    const path = (folder: string) => fixture.files.path(folder);
    const points = () => fixture.mounts.mountPointsBelow(fixture.files.root);
    const noSignal = new AbortController().signal;
    const mount = (server: string, folder = "at", signal = noSignal, options: readonly string[] = []) =>
      fixture.networkMounts.mount({ source: `${server}:/data`, target: path(folder), fsType: "nfs", options }, signal);

    test("a file system is mounted with its options, and unmounted", async () => {
      await fixture.files.makeFile("at/below", 0o600);
      await mount("answers", "at", noSignal, ["nosuid", "ro"]);
      expect(await points()).toEqual([path("at")]);
      const [found] = (await fixture.mounts.list()).filter(({ mountPoint }) => mountPoint === path("at"));
      expect(found?.source).toBe("answers:/data");
      expect(found?.options).toContain("ro");
      expect(await fixture.files.stat("at/below")).toBeUndefined();
      await fixture.networkMounts.unmount(path("at"), noSignal);
      expect(await points()).toEqual([]);
      expect(await fixture.files.stat("at/below")).toBeDefined();
    });

    test("a refusal is reported with the status and the output of the program, and nothing is mounted", async () => {
      await expect(mount("refuses")).rejects.toMatchObject({
        name: "KillableProgramError",
        isTimeout: false,
        status: "exit status 32",
        output: expect.stringContaining("access denied"),
      });
      expect(await points()).toEqual([]);
    });

    test("a folder that does not exist is not mounted, and what is not mounted is not unmounted", async () => {
      await expect(mount("answers", "none")).rejects.toMatchObject({ name: "KillableProgramError", isTimeout: false });
      await expect(fixture.networkMounts.unmount(path("at"), noSignal)).rejects.toMatchObject({
        name: "KillableProgramError",
        isTimeout: false,
      });
    });

    test("a server that does not answer delays no other mount, and its own mount ends when the signal aborts", async () => {
      const abort = new AbortController();
      const hanging = mount("hangs", "at", abort.signal);
      await mount("answers", "other");
      expect(await points()).toEqual([path("other")]);
      abort.abort(new Error("the pod is deleted"));
      await expect(hanging).rejects.toThrow("the pod is deleted");
      await mount("answers", "at");
      expect((await points()).toSorted()).toEqual([path("at"), path("other")]);
    });

    test("a mount that is made after its abort is found, and unmounted as any other", async () => {
      const abort = new AbortController();
      const aborted = mount("late", "at", abort.signal).catch((error: unknown) => error);
      await fixture.waitUntilStarted(path("at"));
      expect(await points()).toEqual([]);
      const reason = new Error("the pod is deleted");
      abort.abort(reason);
      expect(await aborted).toBe(reason);
      await pollUntil("the mount", 10_000, async () => (await fixture.mounts.mountsAt(path("at"))).length > 0, 10);
      await fixture.networkMounts.unmount(path("at"), noSignal);
      expect(await points()).toEqual([]);
    });

    test("a source is never taken for an option", async () => {
      await expect(mount("-obind")).rejects.toMatchObject({
        status: "exit status 32",
        output: expect.stringContaining("-obind"),
      });
      expect(await points()).toEqual([]);
    });
  });
}
