import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { lockRuntime, realPathWithMissingTail } from "./instance-locks.ts";

let folder: string;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-locks-")));
});
afterEach(() => rm(folder, { recursive: true }));

/** Locks like an agent on a machine whose root is the folder of this test. */
async function lock(rootDir: string, socket: string) {
  const log = new FakeLog();
  const target = { rootDir, nodeName: "node", containerRuntimeEndpoint: `unix://${folder}/${socket}` };
  const release = await lockRuntime(target, createFiles(folder), log);
  return { log, release };
}

const locks = () => readdir(join(folder, "run/berth"));

test("a second agent on the same runtime is refused with the first one's identity, however it names the socket", async () => {
  await mkdir(join(folder, "run/containerd"), { recursive: true });
  await symlink("run", join(folder, "var"));
  const first = await lock("/a", "run/containerd/containerd.sock");
  // The runtime may start after its agent.
  await writeFile(join(folder, "run/containerd/containerd.sock"), "");
  const refused = lock("/b", "var/containerd/containerd.sock");
  await expect(refused).rejects.toMatchObject({
    name: "StartError",
    message: `another agent (pid ${process.pid}, node node, root directory /a) uses the container runtime at ${folder}/run/containerd/containerd.sock: stop it, or start this one with its own runtime (two agents on one runtime would remove each other's pods)`,
  });
  first.release();
  (await lock("/b", "var/containerd/containerd.sock")).release();
  expect(await locks()).toEqual([]);
});

test("agents on different runtimes do not conflict", async () => {
  const agents = [await lock("/a", "a.sock"), await lock("/b", "b.sock")];
  expect(await locks()).toHaveLength(2);
  for (const { release } of agents) release();
});

test("only root can read the locks", async () => {
  const { release } = await lock("/a", "a.sock");
  const [name = ""] = await locks();
  const modes = await Promise.all(["run/berth", `run/berth/${name}`].map((path) => stat(join(folder, path))));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o600]);
  release();
});

test("an agent that cannot lock its runtime warns and continues", async () => {
  await writeFile(join(folder, "run"), "");
  const { log, release } = await lock("/a", "a.sock");
  expect(log.takeLines()).toEqual(["warn: cannot lock the container runtime; a second agent would not be detected"]);
  release();
});

test("the real path is the same through symlinks, whether it exists or not", async () => {
  await mkdir(join(folder, "run"));
  await symlink("run", join(folder, "var"));
  const real = join(await realpath(folder), "run/containerd/containerd.sock");
  const ways = [
    "run/containerd/containerd.sock",
    "var/containerd/containerd.sock",
    "var/../var/containerd/containerd.sock",
  ];
  for (const way of ways) expect(realPathWithMissingTail(join(folder, way))).toBe(real);
  await mkdir(join(folder, "run/containerd"));
  await writeFile(real, "");
  for (const way of ways) expect(realPathWithMissingTail(join(folder, way))).toBe(real);
});
