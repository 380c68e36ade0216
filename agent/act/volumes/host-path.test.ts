import { expect, test } from "bun:test";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeMounts } from "../../../test/fakes/mounts.ts";
import { FakeNetworkFiles } from "../../../test/fakes/network-files.ts";
import { checkHostPath } from "./host-path.ts";

const noSignal = new AbortController().signal;
const volume = { name: "v", hostPath: { path: "/srv/file", type: "FileOrCreate" } } as const;

async function createBed(isOnServer: boolean) {
  const fakeDisk = new FakeDisk(() => 0);
  const machine = fakeDisk.at("/");
  await machine.makeFolder("srv", 0o755);
  const mounts = new FakeMounts(fakeDisk);
  if (isOnServer) mounts.mountNetwork("/srv", { fsType: "nfs4", source: "nas:/srv", options: [] });
  const networkFiles = new FakeNetworkFiles(fakeDisk, mounts, new FakeClock());
  const check = () => checkHostPath({ disk: { machine }, mounts, networkFiles }, volume, noSignal);
  return { fakeDisk, machine, check };
}

for (const [where, isOnServer] of [
  ["on the disk", false],
  ["on a server", true],
] as const) {
  test(`a FileOrCreate file ${where} that another pod has made and written since the check keeps its content`, async () => {
    const { fakeDisk, machine, check } = await createBed(isOnServer);
    fakeDisk.after = async (verb, path) => {
      if (verb !== "stat" || path !== "/srv/file") return;
      fakeDisk.after = () => {};
      await machine.makeFile("srv/file", 0o600, "written");
    };
    await check();
    expect(await machine.read("srv/file", 100)).toBe("written");
    expect((await machine.stat("srv/file"))?.mode).toBe(0o600);
  });

  test(`FileOrCreate at a dangling symlink ${where} makes the file that the symlink leads to`, async () => {
    const { machine, check } = await createBed(isOnServer);
    await machine.link("srv/file", "target");
    await check();
    expect(await machine.readLink("srv/file")).toBe("target");
    expect(await machine.stat("srv/target")).toMatchObject({ kind: "file", mode: 0o644, sizeBytes: 0 });
  });
}
