import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { lockRuntime } from "./instance-locks.ts";

let folder: string;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-ownership-")));
});
afterEach(() => rm(folder, { recursive: true }));

/** Locks like an agent on a machine whose root is the folder of this test. */
async function own(rootDir: string, socket: string) {
  const log = new FakeLog();
  const target = { rootDir, nodeName: "node", containerRuntimeEndpoint: `unix://${folder}/${socket}` };
  const giveBack = await lockRuntime(target, createFiles(folder), log);
  return { log, giveBack };
}

const locks = () => readdir(join(folder, "run/berth"));

test("a second agent on the same runtime is refused with the first one's identity, however it names the socket", async () => {
  await mkdir(join(folder, "run/containerd"), { recursive: true });
  await symlink("run", join(folder, "var"));
  const first = await own("/a", "run/containerd/containerd.sock");
  // The runtime may start after its agent.
  await writeFile(join(folder, "run/containerd/containerd.sock"), "");
  const refused = own("/b", "var/containerd/containerd.sock");
  await expect(refused).rejects.toMatchObject({
    name: "StartError",
    message: `another agent (pid ${process.pid}, node node, root directory /a) uses the container runtime at ${folder}/run/containerd/containerd.sock: stop it, or start this one with its own runtime (two agents on one runtime would remove each other's pods)`,
  });
  first.giveBack();
  (await own("/b", "var/containerd/containerd.sock")).giveBack();
  expect(await locks()).toEqual([]);
});

test("agents on different runtimes do not conflict", async () => {
  const agents = [await own("/a", "a.sock"), await own("/b", "b.sock")];
  expect(await locks()).toHaveLength(2);
  for (const { giveBack } of agents) giveBack();
});

test("only root can read the locks", async () => {
  const { giveBack } = await own("/a", "a.sock");
  const [name = ""] = await locks();
  const modes = await Promise.all(["run/berth", `run/berth/${name}`].map((path) => stat(join(folder, path))));
  expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o600]);
  giveBack();
});

test("an agent that cannot lock its runtime warns and continues", async () => {
  await writeFile(join(folder, "run"), "");
  const { log, giveBack } = await own("/a", "a.sock");
  expect(log.takeLines()).toEqual(["warn: cannot lock the container runtime; a second agent would not be detected"]);
  giveBack();
});
