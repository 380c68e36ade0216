import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../../host/fs/files.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { createVolumeDeps } from "../../../test/fakes/volume-deps.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { makePodDirs, type NodeDirs, removePodDirs } from "./pod-dirs.ts";
import type { VolumeDeps } from "./volume-deps.ts";
import { removeVolume, setUpVolume } from "./volume-plugins.ts";

let folder: string;
let disk: NodeDirs;
let server: Server;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-volume-"));
  for (const each of ["root", "logs", "host/dir"]) await mkdir(join(folder, each), { recursive: true });
  await writeFile(join(folder, "host/file"), "content");
  await symlink("dir", join(folder, "host/link-to-dir"));
  await symlink("nowhere", join(folder, "host/link-to-nowhere"));
  server = createServer();
  await new Promise<void>((resolve) => server.listen(join(folder, "host/socket"), resolve));
  disk = {
    root: createFiles(join(folder, "root")),
    logs: createFiles(join(folder, "logs")),
    machine: createFiles("/"),
  };
});
afterAll(async () => {
  server.close();
  await rm(folder, { recursive: true });
});

const noMounts = {
  list: async () => [],
  mountsAt: async () => [],
  mountPointsBelow: async (): Promise<readonly string[]> => [],
  unmount: async () => {},
};
const noSignal = new AbortController().signal;
/** The volumes of these tests mount nothing. */
const { networkMounts, networkFiles, readyMounts } = createVolumeDeps().deps;
const depsOf = (dirs: NodeDirs): VolumeDeps => createVolumeDeps({ disk: dirs }).deps;

const podOf = (uid: string, ...volumes: readonly Volume[]): Pod => ({
  metadata: { name: "web", namespace: "shop", uid },
  spec: { containers: [], volumes },
});
const hostPath = (path: string, type?: string): Volume => ({
  name: "v",
  hostPath: { path: join(folder, "host", path), ...(type === undefined ? {} : { type: type as "File" }) },
});
/** Makes the pod's directories and its volumes, in their order. */
async function prepareVolumes(dirs: NodeDirs, pod: Pod): Promise<void> {
  await makePodDirs(dirs, pod);
  for (const { name } of pod.spec.volumes ?? []) await setUpVolume(depsOf(dirs), pod, name, noSignal);
}
const modeOf = async (path: string) => (await stat(join(folder, path))).mode & 0o7777;

test("an emptyDir and the files created in it belong to the pod's fsGroup", async () => {
  const pod = podOf("u-group", { name: "cache", emptyDir: {} });
  await prepareVolumes(disk, { ...pod, spec: { ...pod.spec, securityContext: { fsGroup: 2000 } } });
  const path = "root/pods/u-group/volumes/kubernetes.io~empty-dir/cache";
  expect(await modeOf(path)).toBe(0o2777);
  await writeFile(join(folder, path, "made"), "");
  expect((await stat(join(folder, path, "made"))).gid).toBe(2000);
});

test("a pod gets its directories and a world-writable emptyDir, idempotently", async () => {
  const pod = podOf("u-1", { name: "cache", emptyDir: {} });
  await prepareVolumes(disk, pod);
  await writeFile(join(folder, "root/pods/u-1/volumes/kubernetes.io~empty-dir/cache/kept"), "");
  await prepareVolumes(disk, pod);
  const below = await readdir(join(folder, "root/pods/u-1"), { recursive: true });
  expect(below.toSorted()).toEqual([
    "containers",
    "plugins",
    "plugins/kubernetes.io~empty-dir",
    "plugins/kubernetes.io~empty-dir/cache",
    "plugins/kubernetes.io~empty-dir/cache/ready",
    "volumes",
    "volumes/kubernetes.io~empty-dir",
    "volumes/kubernetes.io~empty-dir/cache",
    "volumes/kubernetes.io~empty-dir/cache/kept",
  ]);
  expect(await modeOf("root/pods/u-1/volumes/kubernetes.io~empty-dir/cache")).toBe(0o777);
  expect(await modeOf("root/pods/u-1")).toBe(0o750);
  expect(await modeOf("root/pods/u-1/containers")).toBe(0o750);
  for (const each of ["", "/cache"])
    expect(await modeOf(`root/pods/u-1/plugins/kubernetes.io~empty-dir${each}`)).toBe(0o750);
  expect(await modeOf("root/pods/u-1/plugins/kubernetes.io~empty-dir/cache/ready")).toBe(0o644);
});

const fits: readonly [type: string | undefined, path: string][] = [
  [undefined, "whatever"],
  ["", "whatever"],
  ["Directory", "dir"],
  ["Directory", "link-to-dir"],
  ["DirectoryOrCreate", "dir"],
  ["File", "file"],
  ["FileOrCreate", "file"],
  ["Socket", "socket"],
  ["CharDevice", "../../../../dev/null"],
];
for (const [type, path] of fits)
  test(`a hostPath of type ${JSON.stringify(type)} accepts ${path}`, async () => {
    await prepareVolumes(disk, podOf("u-2", hostPath(path, type)));
    expect((await readdir(join(folder, "host"))).includes("whatever")).toBe(false);
  });

const refused: readonly [type: string, path: string, why: string][] = [
  ["Directory", "none", "is not a directory: it does not exist"],
  ["Directory", "file", "is not a directory: it is a file"],
  ["DirectoryOrCreate", "file", "is not a directory: it is a file"],
  ["File", "none", "is not a file: it does not exist"],
  ["File", "dir", "is not a file: it is a directory"],
  ["File", "link-to-nowhere", "is not a file: it does not exist"],
  ["FileOrCreate", "dir", "is not a file: it is a directory"],
  ["Socket", "file", "is not a socket file: it is a file"],
  ["CharDevice", "file", "is not a character device: it is a file"],
  ["Hologram", "file", 'has the type "Hologram", which this release does not know'],
  ["BlockDevice", "dir", "is not a block device: it is a directory"],
];
for (const [type, path, why] of refused)
  test(`a hostPath of type ${type} refuses ${path}, which ${why}`, async () => {
    const prepared = prepareVolumes(disk, podOf("u-3", hostPath(path, type)));
    await expect(prepared).rejects.toBeInstanceOf(TranslateError);
    await expect(prepared).rejects.toMatchObject({
      reason: "FailedMount",
      message: `MountVolume.SetUp failed for volume "v" : hostPath type check failed: ${join(folder, "host", path)} ${why}`,
    });
  });

for (const type of [undefined, "", "Directory", "DirectoryOrCreate"] as const)
  test(`a hostPath of type ${JSON.stringify(type)} refuses a path with .., and makes nothing`, async () => {
    for (const path of ["/var/../etc", "/var/new/..", "..", "/var/log/../../made-by-a-test"]) {
      const volume: Volume = { name: "v", hostPath: { path, ...(type !== undefined && { type }) } };
      await expect(prepareVolumes(disk, podOf("u-3", volume))).rejects.toMatchObject({
        name: "TranslateError",
        reason: "FailedMount",
        message: `MountVolume.SetUp failed for volume "v" : invalid HostPath \`${path}\`: must not contain '..'`,
      });
    }
    expect(await disk.machine.stat("/made-by-a-test")).toBeUndefined();
  });

const unmade: readonly [type: string, path: string, why: string][] = [
  ["FileOrCreate", "none/file", "does not exist"],
  ["DirectoryOrCreate", "file/folder", "is below something that is not a directory"],
];
for (const [type, path, why] of unmade)
  test(`the error of a hostPath of type ${type} that cannot be made names the volume`, async () => {
    await expect(prepareVolumes(disk, podOf("u-3", hostPath(path, type)))).rejects.toMatchObject({
      name: "TranslateError",
      message: `MountVolume.SetUp failed for volume "v" : ${join(folder, "host", path)} ${why}`,
    });
  });

test("a volume that has no driver makes no directory", async () => {
  const volume: Volume = { name: "data", csi: { driver: "example.com" } };
  const prepared = setUpVolume(
    depsOf(disk),
    podOf("u-7", { name: "cache", emptyDir: {} }, volume),
    volume.name,
    noSignal,
  );
  await expect(prepared).rejects.toBeInstanceOf(TranslateError);
  await expect(prepared).rejects.toMatchObject({
    reason: "FailedMount",
    message: expect.stringContaining("driver name example.com not found"),
  });
  expect(await disk.root.stat("pods/u-7")).toBeUndefined();
});

test("DirectoryOrCreate and FileOrCreate create what is missing and accept it the next time", async () => {
  for (let time = 0; time < 2; time++) {
    await prepareVolumes(
      disk,
      podOf("u-4", hostPath("made/here", "DirectoryOrCreate"), { ...hostPath("made/file", "FileOrCreate"), name: "w" }),
    );
    expect(await modeOf("host/made/here")).toBe(0o755);
    expect(await modeOf("host/made/file")).toBe(0o644);
    expect((await stat(join(folder, "host/made/file"))).size).toBe(0);
  }
});

test("a uid that leads out of the pods directory is refused before anything is created", async () => {
  const all = async () => (await readdir(folder, { recursive: true })).toSorted();
  const before = await all();
  await expect(prepareVolumes(disk, podOf("../u", { name: "v", emptyDir: {} }))).rejects.toBeInstanceOf(TranslateError);
  await expect(removePodDirs(disk, noMounts, "..")).rejects.toBeInstanceOf(TranslateError);
  expect(await all()).toEqual(before);
});

test("removePodDirs removes all files of the pod and nothing below a hostPath", async () => {
  await prepareVolumes(disk, podOf("u-5", { name: "cache", emptyDir: {} }, hostPath("dir", "Directory")));
  await symlink(join(folder, "host"), join(folder, "root/pods/u-5/volumes/kubernetes.io~empty-dir/cache/link"));
  await removePodDirs(disk, noMounts, "u-5");
  await removePodDirs(disk, noMounts, "u-5");
  expect(await disk.root.stat("pods/u-5")).toBeUndefined();
  expect(await disk.machine.stat(join(folder, "host/file"))).toBeDefined();
});

test("removeVolume removes an emptyDir and keeps the other volumes", async () => {
  await prepareVolumes(
    disk,
    podOf("u-8", ...["cache", "other"].map((name) => ({ name, emptyDir: {} })), hostPath("dir", "Directory")),
  );
  await writeFile(join(folder, "root/pods/u-8/volumes/kubernetes.io~empty-dir/cache/file"), "x");
  await symlink(join(folder, "host"), join(folder, "root/pods/u-8/volumes/kubernetes.io~empty-dir/cache/link"));
  const emptyDir = { uid: "u-8", name: "cache" };
  const mounted = removeVolume(
    {
      disk,
      networkMounts,
      networkFiles,
      readyMounts,
      mounts: { ...noMounts, mountPointsBelow: async (path) => [`${path}/nfs`] },
    },
    emptyDir,
    noSignal,
  );
  await expect(mounted).rejects.toMatchObject({
    code: "EBUSY",
    message: expect.stringContaining("cache/nfs is still mounted"),
  });
  expect(await disk.root.stat("pods/u-8/volumes/kubernetes.io~empty-dir/cache/file")).toBeDefined();
  for (let time = 0; time < 2; time++)
    await removeVolume({ disk, networkMounts, networkFiles, readyMounts, mounts: noMounts }, emptyDir, noSignal);
  const left = await disk.root.list("pods/u-8/volumes/kubernetes.io~empty-dir");
  expect(left?.map(({ name }) => name)).toEqual(["other"]);
  const ready = await disk.root.list("pods/u-8/plugins/kubernetes.io~empty-dir");
  expect(ready?.map(({ name }) => name)).toEqual(["other"]);
  expect(await disk.machine.stat(join(folder, "host/file"))).toBeDefined();
});

test("nothing is removed while something is mounted below the pod's directory", async () => {
  await prepareVolumes(disk, podOf("u-6"));
  const asked: string[] = [];
  const mountPointsBelow = async (path: string) => {
    asked.push(path);
    return [`${path}/volumes/nfs`];
  };
  await expect(removePodDirs(disk, { mountPointsBelow }, "u-6")).rejects.toMatchObject({
    code: "EBUSY",
    message: expect.stringContaining("volumes/nfs is still mounted"),
  });
  expect(asked).toEqual([join(folder, "root/pods/u-6")]);
  expect(await disk.root.stat("pods/u-6/volumes")).toBeDefined();
});

test("a symlink in the place of a volume's directory is removed, and what it leads to stays", async () => {
  await prepareVolumes(disk, podOf("u-9"));
  const plugin = join(folder, "root/pods/u-9/volumes/kubernetes.io~empty-dir");
  await mkdir(plugin);
  await mkdir(join(folder, "host/precious"));
  await writeFile(join(folder, "host/precious/data"), "kept");
  await symlink(join(folder, "host/precious"), join(plugin, "cache"));
  await removeVolume(
    { disk, networkMounts, networkFiles, readyMounts, mounts: noMounts },
    { uid: "u-9", name: "cache" },
    noSignal,
  );
  expect(await readdir(plugin)).toEqual([]);
  expect(await readdir(join(folder, "host/precious"))).toEqual(["data"]);
});

test("a symlink that leads nowhere in the place of a volume's directory is an error that names the volume", async () => {
  await prepareVolumes(disk, podOf("u-10"));
  const plugin = join(folder, "root/pods/u-10/volumes/kubernetes.io~empty-dir");
  await mkdir(plugin);
  await symlink("nowhere", join(plugin, "cache"));
  const prepared = prepareVolumes(disk, podOf("u-10", { name: "cache", emptyDir: {} }));
  await expect(prepared).rejects.toMatchObject({
    name: "TranslateError",
    message: expect.stringMatching(/^MountVolume\.SetUp failed for volume "cache" : .*empty-dir\/cache/),
  });
});
