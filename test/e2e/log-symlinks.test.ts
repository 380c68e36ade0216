import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readdir, symlink, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { podOf, script, withUid } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;

beforeAll(async () => {
  node = await startNode();
});

afterAll(() => node.end());

const logsOf = (name: string, uid: string) => join(node.paths.podLogs, `default_${name}-${node.name}_${uid}`);

test("a log that its container has made a link is never read through for its last words", async () => {
  const secret = join(node.folder, "secret.log");
  await writeFile(secret, "2026-01-01T00:00:00Z stdout F hunter2\n");
  // As whoever mounts the node's logs might.
  const volumeMounts = [{ name: "logs", mountPath: "/logs" }];
  const planting = script(`until [ -e /logs/*_0000-reading-0000/main/0.log ]; do sleep 0.1; done
    ln -sf ${secret} /logs/*_0000-reading-0000/main/0.log; exit 3`);
  const volumes = [{ name: "logs", hostPath: { path: node.paths.podLogs } }];
  const container = { command: planting, volumeMounts, terminationMessagePolicy: "FallbackToLogsOnError" as const };
  await node.put(withUid(podOf("reading", container, { volumes, restartPolicy: "Never" }), "0000-reading-0000"));
  const pod = await node.pod("reading", "it has failed", ({ phase }) => phase === "Failed");
  expect(pod.status.containerStatuses?.[0]?.state?.terminated).toMatchObject({
    exitCode: 3,
    message: `Error on reading termination message from logs: ${logsOf("reading", "0000-reading-0000")}/main/0.log leads over a symlink, which is not followed`,
  });
});

test("a folder of logs that is a link is never written through: the container waits until it is gone", async () => {
  // By now the agent has looked for what pods that nobody knows have left.
  const elsewhere = join(node.folder, "elsewhere");
  await mkdir(elsewhere);
  const folder = logsOf("written", "0000-written-0000");
  await mkdir(folder, { recursive: true });
  await symlink(elsewhere, join(folder, "main"));
  await node.put(withUid(podOf("written", { command: script("echo out; exec sleep 1000000") }), "0000-written-0000"));
  const pod = await node.pod("written", "it says why", ({ reason }) => reason === "CreateContainerError");
  expect(pod.message).toContain(`the log of container main cannot be written: ${folder}/main is a symlink; remove it`);
  await unlink(join(folder, "main"));
  await node.running("written");
  expect(await readdir(elsewhere)).toEqual([]);
});
