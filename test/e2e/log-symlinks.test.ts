import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readdir, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { podOf, script, withUid } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.tearDown());

const logsOf = (name: string, uid: string) => join(node.paths.podLogs, `default_${name}-${node.name}_${uid}`);

test("the termination message is not read through a log file that a container has replaced by a symlink", async () => {
  const secret = join(node.folder, "secret.log");
  await writeFile(secret, "2026-01-01T00:00:00Z stdout F hunter2\n");
  // A pod that mounts the node's logs can do this.
  const volumeMounts = [{ name: "logs", mountPath: "/logs" }];
  const planting = script(`until [ -e /logs/*_0000-reading-0000/main/0.log ]; do sleep 0.1; done
    ln -sf ${secret} /logs/*_0000-reading-0000/main/0.log; exit 3`);
  const volumes = [{ name: "logs", hostPath: { path: node.paths.podLogs } }];
  const container = { command: planting, volumeMounts, terminationMessagePolicy: "FallbackToLogsOnError" as const };
  await node.putManifest(
    withUid(podOf("reading", container, { volumes, restartPolicy: "Never" }), "0000-reading-0000"),
  );
  const pod = await node.waitForPod("reading", "it has failed", ({ phase }) => phase === "Failed");
  expect(pod.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({
    exitCode: 3,
    message: `Error on reading termination message from logs: ${logsOf("reading", "0000-reading-0000")}/main/0.log contains a symlink, which is not followed`,
  });
});

test("a container's log is not written through a symlinked folder: the container waits until the symlink is gone", async () => {
  // The agent has already removed the folders of orphaned pods, so it keeps this one.
  const elsewhere = join(node.folder, "elsewhere");
  await mkdir(elsewhere);
  const folder = logsOf("written", "0000-written-0000");
  await mkdir(folder, { recursive: true });
  await symlink(elsewhere, join(folder, "main"));
  await node.putManifest(
    withUid(podOf("written", { command: script("echo out; exec sleep 1000000") }), "0000-written-0000"),
  );
  const pod = await node.waitForPod("written", "it says why", ({ reason }) => reason === "CreateContainerError");
  expect(pod.message).toContain(`the log of container main cannot be written: ${folder}/main is a symlink; remove it`);
  await unlink(join(folder, "main"));
  await node.waitUntilRunning("written");
  expect(await readdir(elsewhere)).toEqual([]);
});
