import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeMounts } from "../../../test/fakes/mounts.ts";
import { FakeNetworkFiles } from "../../../test/fakes/network-files.ts";
import type { SubPath } from "../../translate/volumes/sub-paths.ts";
import { makeSubPathsDir, mountSubPaths, removeSubPaths } from "./sub-paths.ts";

const noSignal = new AbortController().signal;
const target = (index: number) => `pods/u/volume-subpaths/v/a/${index}`;
const subPath = (path: string, index = 0): SubPath => ({
  volume: "v",
  volumePath: "/srv/volume",
  path,
  target: target(index),
});

async function prepare() {
  const fakeDisk = new FakeDisk(() => 0);
  const mounts = new FakeMounts(fakeDisk);
  const disk = { root: fakeDisk.at("/root"), logs: fakeDisk.at("/logs"), machine: fakeDisk.at("/") };
  await disk.machine.makeFolder("/srv/volume/one", 0o755);
  await disk.machine.write("/srv/volume/one/file", "kept", 0o644);
  await makeSubPathsDir(disk, "u");
  const clock = new FakeClock();
  return { fakeDisk, disk, mounts, clock, networkFiles: new FakeNetworkFiles(fakeDisk, mounts, clock) };
}

test("subPaths are mounted once, however often, and are gone with their directory after their removal", async () => {
  const deps = await prepare();
  for (let time = 0; time < 2; time++)
    await mountSubPaths(deps, "a", [subPath("one"), subPath("one/file", 1), subPath("new", 2)], noSignal);
  expect(deps.mounts.mountPoints).toEqual([0, 1, 2].map((index) => `/root/${target(index)}`));
  for (let time = 0; time < 2; time++) await removeSubPaths(deps, "u", noSignal);
  expect(deps.mounts.mountPoints).toEqual([]);
  expect(await deps.disk.root.list("pods/u")).toEqual([]);
  expect((await deps.disk.machine.list("/srv/volume"))?.map(({ name }) => name)).toEqual(["new", "one"]);
  expect(await deps.disk.machine.read("/srv/volume/one/file", 10)).toBe("kept");
});

test("a mount of what has been replaced in the volume since is replaced, too", async () => {
  const deps = await prepare();
  await mountSubPaths(deps, "a", [subPath("one")], noSignal);
  await deps.disk.machine.makeFolder("/srv/volume/two", 0o755);
  await deps.disk.machine.rename("/srv/volume/one", "/srv/volume/old");
  await deps.disk.machine.link("/srv/volume/one", "two");
  await mountSubPaths(deps, "a", [subPath("one")], noSignal);
  expect(deps.mounts.mountPoints).toEqual([`/root/${target(0)}`]);
  expect(await deps.disk.root.list(target(0))).toEqual([]);
});

test("what cannot be mounted is refused in the kubelet's words, which do not show what is on the node", async () => {
  const deps = await prepare();
  await deps.disk.machine.link("/srv/volume/out", "../../etc/shadow");
  await expect(mountSubPaths(deps, "a", [subPath("one"), subPath("out", 1)], noSignal)).rejects.toMatchObject({
    name: "TranslateError",
    reason: "CreateContainerConfigError",
    message: 'failed to prepare subPath for volumeMount "v" of container "a"',
    cause: { code: "EXDEV" },
  });
  expect(deps.mounts.mountPoints).toEqual([`/root/${target(0)}`]);
});

test("a missing folder that cannot be made is refused in other words, as by the kubelet", async () => {
  const deps = await prepare();
  await deps.disk.machine.makeFolder("/srv/source", 0o755);
  await deps.mounts.bind("/srv/source", "/srv/volume", { isReadOnly: true, isRecursive: false });
  await expect(mountSubPaths(deps, "a", [subPath("missing")], noSignal)).rejects.toMatchObject({
    reason: "CreateContainerConfigError",
    message: 'failed to create subPath directory for volumeMount "v" of container "a"',
    cause: { code: "EROFS" },
  });
});

test("a full disk of the node is no fault of the subPath, and a busy mount is not removed", async () => {
  const deps = await prepare();
  deps.fakeDisk.before = (verb, path) => {
    if (verb === "makeFolder") throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
  };
  await expect(mountSubPaths(deps, "a", [subPath("one")], noSignal)).rejects.toMatchObject({
    name: "FilesError",
    code: "ENOSPC",
  });
  deps.fakeDisk.before = () => {};
  await mountSubPaths(deps, "a", [subPath("one")], noSignal);
  deps.mounts.openFiles.add(`/root/${target(0)}/file`);
  await expect(removeSubPaths(deps, "u", noSignal)).rejects.toMatchObject({ code: "EBUSY" });
  expect(deps.mounts.mountPoints).toEqual([`/root/${target(0)}`]);
});

test("the subPath of a volume on a server that does not answer fails in the kubelet's words, when the time is over", async () => {
  const deps = await prepare();
  const { mounts, clock } = deps;
  mounts.mountNetwork("/srv/volume", { fsType: "nfs4", source: "nfs.example.com:/data", options: [] });
  mounts.deadServers.add("nfs.example.com");
  const remote = [{ ...subPath("one"), isRemote: true as const }];
  const outcome = mountSubPaths(deps, "a", remote, noSignal).catch((error) => error);
  await clock.advance(60_000);
  expect(await outcome).toMatchObject({
    name: "TranslateError",
    message: 'failed to prepare subPath for volumeMount "v" of container "a"',
  });
  mounts.deadServers.clear();
  await mountSubPaths(deps, "a", remote, noSignal);
  expect(mounts.mountPoints).toEqual(["/srv/volume", `/root/${target(0)}`]);
});

test("the subPath of a path of the node where a server is mounted that does not answer fails, and nothing else stops", async () => {
  const deps = await prepare();
  const { mounts, clock } = deps;
  const onNode = [{ ...subPath("one"), isNodePath: true as const }];
  await mountSubPaths(deps, "a", onNode, noSignal);
  await removeSubPaths(deps, "u", noSignal);
  mounts.mountNetwork("/srv/volume", { fsType: "nfs4", source: "nas:/volume", options: [] });
  mounts.deadServers.add("nas");
  const outcome = mountSubPaths(deps, "a", onNode, noSignal).catch((error) => error);
  await clock.advance(60_000);
  expect(await outcome).toMatchObject({ name: "TranslateError", cause: { code: "ETIMEDOUT" } });
});
