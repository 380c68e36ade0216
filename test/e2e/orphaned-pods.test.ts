import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { lstat, mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { runWebPod, type WebPod } from "../bed/containerd/web-pod.ts";
import { until } from "../bed/poll-until.ts";
import { freePort } from "./free-port.ts";
import { ignoringSigterm, podOf, script } from "./manifest.ts";
import { containerId, linesWith, type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

const [unknown, mounted] = ["11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"];

let node: Node;
let stays = "";
let stranger: WebPod;
let startedAt = 0;
let mountPoint = "";

const inRoot = (...path: readonly string[]) => join(node.paths.agentRoot, ...path);
const inLogs = (...path: readonly string[]) => join(node.paths.podLogs, ...path);
const links = () => join(dirname(node.paths.podLogs), "containers");
const isThere = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  );
async function make(path: string, content = ""): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}

/** A node on which an agent has lived, has died, and has lost what it knew of two of its pods. */
beforeAll(async () => {
  node = await startNode();
  const deaf = podOf("deaf", { command: ignoringSigterm }, { terminationGracePeriodSeconds: 600 });
  const done = podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" });
  for (const pod of [podOf("stays"), deaf, done]) await node.put(pod);
  const [kept] = await node.running("stays", "deaf");
  stays = containerId(kept!);
  await node.pod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  const forgotten = (await node.pods()).filter(({ name }) => name !== kept!.name).map(({ uid }) => uid);
  await node.agent.kill9();
  for (const name of ["deaf", "done"]) await node.removeFile(`${name}.yaml`);
  const records = await readdir(inRoot("berth", "pods"));
  const lost = records.filter((name) => forgotten.some((uid) => name.includes(uid)));
  expect(lost).toHaveLength(2);
  for (const name of lost) await rm(inRoot("berth", "pods", name));

  stranger = await runWebPod(node.containerd.endpoint, "stranger", await freePort());
  await make(inRoot("pods", unknown, "volumes", "kubernetes.io~empty-dir", "cache", "file"));
  mountPoint = inRoot("pods", mounted, "volumes", "kubernetes.io~csi", "data");
  await mkdir(mountPoint, { recursive: true });
  await execa("mount", ["-t", "tmpfs", "none", mountPoint]);
  await make(join(mountPoint, "file"), "of somebody's disk");
  await make(inRoot("pods", "old", "file"));
  await make(inLogs(`shop_web_${unknown}`, "main", "0.log"));
  await make(inLogs("journal", "file"));
  await symlink(inLogs(`shop_web_${unknown}`, "main", "0.log"), join(links(), "web_shop_main-1.log"));
  await symlink(inLogs("shop_api_gone", "main", "0.log"), join(links(), "api_shop_main-2.log"));
  await symlink("/nowhere/at/all", join(links(), "somebody-else.log"));

  await node.startAgent();
  startedAt = performance.now();
}, 120_000);
afterAll(async () => {
  // Where a test has failed before that: the folder could not be removed.
  if (mountPoint !== "") await execa("umount", [mountPoint], { reject: false });
  await node.end();
});

test("a new agent ends and removes what no source asks for, with a second's grace, and leaves the rest", async () => {
  const wanted = [stays, stranger.containerId].toSorted();
  await until("only what is wanted, or somebody else's, to be there", 30_000, async () => {
    const [containers, sandboxes] = await Promise.all([node.containers(), node.sandboxes()]);
    return containers.length === 2 && sandboxes.length === 2;
  });
  expect(performance.now() - startedAt).toBeLessThan(20_000);
  expect((await node.containers()).map(({ id }) => id).toSorted()).toEqual(wanted);
  expect((await node.sandboxes()).map(({ id }) => id)).toContain(stranger.sandboxId);
  const [pod] = await node.running("stays");
  expect([containerId(pod!), pod?.restarts]).toEqual([stays, 0]);
  expect((await fetch(`http://${stranger.ip}:8080/`)).status).toBe(200);
  expect(linesWith(await node.log(), stranger.sandboxId, "left alone")).toHaveLength(1);
});

test("their folders, logs and links go, and what is no pod's stays", async () => {
  const { uid } = (await node.running("stays"))[0]!;
  await until("the folders of unknown pods to be gone", 30_000, async () => {
    const folders = [inRoot("pods"), node.paths.podLogs, links()];
    const [pods, logs, linked] = await Promise.all(folders.map(async (folder) => (await readdir(folder)).length));
    return pods === 3 && logs === 2 && linked === 2;
  });
  expect((await readdir(inRoot("pods"))).toSorted()).toEqual([mounted, "old", uid].toSorted());
  expect(await readdir(node.paths.podLogs)).toEqual(expect.arrayContaining(["journal", `default_stays-berth_${uid}`]));
  expect((await readdir(links())).toSorted()).toEqual(["somebody-else.log", `stays-berth_default_main-${stays}.log`]);
});

test("a folder with something mounted in it stays as it is, said once, and goes when that is unmounted", async () => {
  const said = async () => linesWith(await node.log(), `${mountPoint} is still mounted`);
  await until("the agent to say what is mounted", 10_000, async () => (await said()).length > 0);
  // The others have ended, so that it was tried more than once.
  await until("some seconds", 10_000, () => performance.now() - startedAt > 5_000);
  expect(await said()).toHaveLength(1);
  expect(await Bun.file(join(mountPoint, "file")).text()).toBe("of somebody's disk");
  await execa("umount", [mountPoint]);
  await until("the folder to be gone", 30_000, async () => !(await isThere(inRoot("pods", mounted))));
});
