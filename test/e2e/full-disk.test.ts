import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { containerId, startNodeWithoutAgent, type TestNode } from "./node.ts";

let node: TestNode;
/** The agent's own files, on a disk of 64 KiB. */
let disk = "";
const filler = () => join(disk, "filler");
const checkpoints = async () => (await readdir(join(disk, "pods"))).filter((name) => name.endsWith(".json"));

beforeAll(async () => {
  node = await startNodeWithoutAgent();
  disk = join(node.paths.agentRoot, "berth");
  await mkdir(disk, { recursive: true });
  await execa("mount", ["-t", "tmpfs", "-o", "size=64k,mode=700", "none", disk]);
  await node.startAgent();
}, 600_000);
afterAll(async () => {
  await node.agent.stop();
  await execa("umount", [disk], { reject: false });
  await node.tearDown();
}, 600_000);

/** The agent tries to write a checkpoint again every five seconds; the rest is for the write. */
const CHECKPOINT_MS = 5_500;

test("the checkpoint of a pod that started on a full disk is written when there is space, and protects the pod", async () => {
  await expect(writeFile(filler(), new Uint8Array(1 << 17))).rejects.toThrow("ENOSPC");
  await node.putManifest(podOf("web"));
  const [started] = await node.waitUntilRunning("web");
  await node.waitForLogLine("cannot save the pod's checkpoint yet", "the disk is full");
  expect(await checkpoints()).toEqual([]);

  await rm(filler());
  await pollUntil("the checkpoint", CHECKPOINT_MS, async () => (await checkpoints()).length === 1);
  await node.waitForLogLine("the pods' checkpoints are saved again");

  await node.agent.kill9();
  await node.putFile("web.yaml", "kind: Pod\n  metadata: {");
  await node.startAgent();
  await node.waitForLogLine("manifest refused", "default/web-berth stays as it was");
  const [kept] = await node.waitUntilRunning("web");
  expect([kept?.uid, containerId(kept!), kept?.restarts]).toEqual([started?.uid, containerId(started!), 0]);
  expect(await node.log()).not.toContain("no source asks for this pod");
}, 600_000);
