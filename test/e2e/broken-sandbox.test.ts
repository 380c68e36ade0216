// A sandbox whose network namespace cannot be removed: containerd then fails to stop it, and to tell its status.
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { execa } from "execa";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let namespaceFile = "";

const mountsOfNamespaceFile = async () =>
  (await readFile("/proc/self/mounts", "utf8")).split("\n").filter((line) => line.split(" ")[1] === namespaceFile);
const unmountAll = async () => {
  while ((await mountsOfNamespaceFile()).length > 0) await execa("umount", ["--lazy", namespaceFile]);
};

beforeAll(async () => {
  node = await startNode();
});
afterAll(async () => {
  await unmountAll();
  await node.tearDown();
});

test("a sandbox that containerd cannot read is removed as soon as that succeeds", async () => {
  await node.putManifest(podOf("web"));
  await node.waitUntilRunning("web");
  const mounts = await readFile("/proc/self/mounts", "utf8");
  const ofNode = mounts.split("\n").map((line) => line.split(" ")[1] ?? "");
  namespaceFile = ofNode.find((path) => path.startsWith(node.folder) && path.includes("/netns/")) ?? "";
  expect(namespaceFile).not.toBe("");
  // The first stop unmounts one of them. The file is no network namespace then, and busy.
  for (let count = 0; count < 3; count++) await execa("mount", ["--bind", "/dev/null", namespaceFile]);
  await node.removeFile("web.yaml");
  const failed = async (verb: string) =>
    linesContaining(await readFile(node.containerd.logFile, "utf8"), `${verb} for`, "device or resource busy").length;
  await pollUntil("a failed stop and two failed removals", 30_000, async () => (await failed("RemovePodSandbox")) >= 2);
  expect(await failed("StopPodSandbox")).toBeGreaterThan(0);
  expect(await failed("PodSandboxStatus")).toBeGreaterThan(0);
  await unmountAll();
  await node.waitUntilEmpty();
});
