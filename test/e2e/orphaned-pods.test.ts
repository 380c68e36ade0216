import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { lstat, mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { runWebPod, type WebPod } from "../bed/containerd/web-pod.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { freePort } from "./free-port.ts";
import { podOf, script, upIgnoringSigterm } from "./manifest.ts";
import { containerId, linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const [unknown, mounted] = ["11111111-2222-3333-4444-555555555555", "66666666-7777-8888-9999-000000000000"];

let node: TestNode;
let stays = "";
let foreignPod: WebPod;
let startedAt = 0;
let mountPoint = "";

const inRoot = (...path: readonly string[]) => join(node.paths.agentRoot, ...path);
const inLogs = (...path: readonly string[]) => join(node.paths.podLogs, ...path);
const links = () => join(dirname(node.paths.podLogs), "containers");
const exists = (path: string) =>
  lstat(path).then(
    () => true,
    () => false,
  );
async function make(path: string, content = ""): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}

/** A node whose agent was killed and has lost its checkpoints of two of its pods. */
beforeAll(async () => {
  node = await startNode();
  const deaf = podOf("deaf", { command: upIgnoringSigterm }, { terminationGracePeriodSeconds: 600 });
  const done = podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" });
  for (const pod of [podOf("stays"), deaf, done]) await node.putManifest(pod);
  const [kept] = await node.waitUntilRunning("stays");
  await node.waitUntilUp("deaf");
  stays = containerId(kept!);
  await node.waitForPod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
  const forgotten = (await node.pods()).filter(({ name }) => name !== kept!.name).map(({ uid }) => uid);
  await node.agent.kill9();
  for (const name of ["deaf", "done"]) await node.removeFile(`${name}.yaml`);
  const records = await readdir(inRoot("berth", "pods"));
  const lost = records.filter((name) => forgotten.some((uid) => name.includes(uid)));
  expect(lost).toHaveLength(2);
  for (const name of lost) await rm(inRoot("berth", "pods", name));

  foreignPod = await runWebPod(node.containerd.endpoint, "stranger", await freePort());
  await make(inRoot("pods", unknown, "volumes", "kubernetes.io~empty-dir", "cache", "file"));
  mountPoint = inRoot("pods", mounted, "volumes", "kubernetes.io~csi", "data");
  await mkdir(mountPoint, { recursive: true });
  await execa("mount", ["-t", "tmpfs", "none", mountPoint]);
  await make(join(mountPoint, "file"), "on a mounted disk");
  await make(inRoot("pods", "old", "file"));
  await make(inLogs(`shop_web_${unknown}`, "main", "0.log"));
  await make(inLogs("journal", "file"));
  await symlink(inLogs(`shop_web_${unknown}`, "main", "0.log"), join(links(), "web_shop_main-1.log"));
  await symlink(inLogs("shop_api_gone", "main", "0.log"), join(links(), "api_shop_main-2.log"));
  await symlink("/nowhere/at/all", join(links(), "foreign.log"));

  await node.startAgent();
  startedAt = performance.now();
}, 600_000);
afterAll(async () => {
  // If a test failed before it unmounted this, the folder could not be removed.
  if (mountPoint !== "") await execa("umount", [mountPoint], { reject: false });
  await node.tearDown();
});

test("a new agent ends orphaned pods with two seconds of grace, and leaves other containers alone", async () => {
  const expectedIds = [stays, foreignPod.containerId].toSorted();
  // With the pod's own grace period this would take ten minutes.
  await pollUntil("only the desired and the foreign containers", 20_000, async () => {
    const [containers, sandboxes] = await Promise.all([node.containers(), node.sandboxes()]);
    return containers.length === 2 && sandboxes.length === 2;
  });
  expect(linesContaining(await node.log(), "stop container main within 2s: ")).toHaveLength(1);
  expect((await node.containers()).map(({ id }) => id).toSorted()).toEqual(expectedIds);
  expect((await node.sandboxes()).map(({ id }) => id)).toContain(foreignPod.sandboxId);
  const [pod] = await node.waitUntilRunning("stays");
  expect([containerId(pod!), pod?.restarts]).toEqual([stays, 0]);
  expect((await fetch(`http://${foreignPod.ip}:8080/`)).status).toBe(200);
  expect(linesContaining(await node.log(), foreignPod.sandboxId, "belongs to no pod")).toHaveLength(1);
});

test("folders, logs and symlinks of orphaned pods are removed, and other files stay", async () => {
  const { uid } = (await node.waitUntilRunning("stays"))[0]!;
  await pollUntil("the folders of unknown pods to be gone", 30_000, async () => {
    const folders = [inRoot("pods"), node.paths.podLogs, links()];
    const [pods, logs, linked] = await Promise.all(folders.map(async (folder) => (await readdir(folder)).length));
    return pods === 3 && logs === 2 && linked === 2;
  });
  expect((await readdir(inRoot("pods"))).toSorted()).toEqual([mounted, "old", uid].toSorted());
  expect(await readdir(node.paths.podLogs)).toEqual(expect.arrayContaining(["journal", `default_stays-berth_${uid}`]));
  expect((await readdir(links())).toSorted()).toEqual(["foreign.log", `stays-berth_default_main-${stays}.log`]);
});

test("a pod folder with a mount in it is kept and logged once, and is removed after the unmount", async () => {
  const mountWarnings = async () => linesContaining(await node.log(), `${mountPoint} is still mounted`);
  await pollUntil("the agent to say what is mounted", 10_000, async () => (await mountWarnings()).length > 0);
  // Enough time for more than one attempt.
  await pollUntil("some seconds", 10_000, () => performance.now() - startedAt > 5_000);
  expect(await mountWarnings()).toHaveLength(1);
  expect(await Bun.file(join(mountPoint, "file")).text()).toBe("on a mounted disk");
  await execa("umount", [mountPoint]);
  await pollUntil("the folder to be gone", 30_000, async () => !(await exists(inRoot("pods", mounted))));
});
