import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMounts } from "../../host/fs/mounts.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { hasDeadFileSystems, mountDeadFileSystem } from "../contract/dead-file-system.ts";
import { podOf } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

describe.skipIf(!hasDeadFileSystems)("a server that does not answer", () => {
  let node: TestNode;
  let folder: string;
  let answer: () => void;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-dead-"));
    await mkdir(join(folder, "nas"));
    answer = mountDeadFileSystem(join(folder, "nas"));
    node = await startNode({ version: "2.1" });
  }, 600_000);
  afterAll(async () => {
    answer?.();
    await createMounts().unmount(join(folder, "nas"));
    await node?.tearDown();
    await rm(folder, { recursive: true });
  });

  /** The processes of the agent that look at the file system. */
  const lookers = async () => (await listProcesses()).filter(({ argv }) => argv.some((each) => each.includes(folder)));
  const podAt = (name: string) => {
    const hostPath = { path: join(folder, "nas", "data"), type: "Directory" } as const;
    const volumeMounts = [{ name: "v", mountPath: "/v" }];
    return podOf(name, { volumeMounts }, { volumes: [{ name: "v", hostPath }] });
  };

  test("paths of the node on a server that does not answer hold up their own pods alone, which can be removed", async () => {
    // More than the agent has I/O threads.
    const waiting = Array.from({ length: 10 }, (_, index) => `waits-${index}`);
    for (const name of waiting) await node.putManifest(podAt(name));
    await pollUntil("the calls that hang", 30_000, async () => (await lookers()).length === waiting.length);
    await node.putManifest(podOf("other"));
    await node.waitUntilRunning("other");
    expect(await lookers()).toHaveLength(waiting.length);
    for (const name of [...waiting, "other"]) await node.removeFile(`${name}.yaml`);
    await node.waitUntilEmpty();
    await pollUntil("the end of the calls", 10_000, async () => (await lookers()).length === 0);
  });
});
