import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseMountinfo } from "../../host/fs/mounts.ts";
import type { NFSVolumeSource } from "../../proto/kubernetes/gen/types.ts";
import { builtBinary } from "../bed/agent.ts";
import { listProcesses } from "../bed/cleanup/processes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { makeNfsStandIn } from "../contract/nfs-stand-in.ts";
import { podOf, script } from "./manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

/* The kernels of test machines lack NFS: a stand-in for mount(8) mounts a tmpfs for the server `answers`, and hangs for `hangs`. */

let node: TestNode;
let folder: string;
let binary: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-nfs-"));
  const path = await makeNfsStandIn(join(folder, "bin"));
  binary = join(folder, "berth");
  await writeFile(binary, `#!/bin/sh\nPATH=${path}\nexport PATH\nexec ${builtBinary} "$@"\n`);
  await chmod(binary, 0o755);
  node = await startNodeWithoutAgent({ version: "2.1" });
  await startAgent();
}, 600_000);
afterAll(async () => {
  await node?.tearDown();
  for (const { pid } of await hangingMounts()) process.kill(pid, "SIGKILL");
  await rm(folder, { recursive: true });
});

const startAgent = () => node.startAgent(undefined, [], binary);
const podWith = (name: string, source: Partial<NFSVolumeSource>, text: string, subPath?: string) => {
  const nfs = { server: "answers", path: "/data", ...source };
  const volumeMounts = [
    { name: "v", mountPath: "/v" },
    ...(subPath === undefined ? [] : [{ name: "v", mountPath: "/part", subPath }]),
  ];
  return podOf(name, { command: script(text), volumeMounts }, { volumes: [{ name: "v", nfs }] });
};
/** The volumes of pods that are mounted: `answers:/data rw`. */
const mounted = async () =>
  parseMountinfo(await readFile("/proc/self/mountinfo", "utf8"))
    .filter(({ mountPoint }) => mountPoint.startsWith(join(node.paths.agentRoot, "pods")))
    .filter(({ mountPoint }) => mountPoint.includes("kubernetes.io~nfs"))
    .map(({ source, options }) => `${source} ${options[0]}`);
/** The processes that mount volumes of the server that does not answer. */
const hangingMounts = async () =>
  (await listProcesses()).filter(({ argv }) => argv.includes("hangs:/data") && argv.at(-1)?.startsWith(node.folder));

test("a volume of a server is mounted for its pod, also read-only and by a subPath, and unmounted with it", async () => {
  const text = "echo content > /part/file && cat /v/new/deep/file > /dev/termination-log && exec sleep 1000000";
  await node.putManifest(podWith("writes", {}, text, "new/deep"));
  await node.putManifest(podWith("reads", { readOnly: true }, "touch /v/file || exec sleep 1000000"));
  await node.waitUntilRunning("writes", "reads");
  expect((await mounted()).toSorted()).toEqual(["answers:/data ro", "answers:/data rw"]);
  for (const name of ["writes", "reads"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
  expect(await mounted()).toEqual([]);
});

test("a server that does not answer holds up its own pod alone, which can be removed", async () => {
  const waiting = ["waits-1", "waits-2", "waits-3", "waits-4", "waits-5"];
  for (const name of waiting) await node.putManifest(podWith(name, { server: "hangs" }, "true"));
  await pollUntil("the mounts that hang", 20_000, async () => (await hangingMounts()).length === waiting.length);
  await node.putManifest(podOf("other"));
  await node.waitUntilRunning("other");
  expect(await hangingMounts()).toHaveLength(waiting.length);
  for (const name of [...waiting, "other"]) await node.removeFile(`${name}.yaml`);
  await node.waitUntilEmpty();
  await pollUntil("the end of the mounts", 10_000, async () => (await hangingMounts()).length === 0);
});

test("an agent that is killed while it mounts and while volumes are mounted leaves no mount and no directory", async () => {
  await node.putManifest(podWith("stays", {}, "exec sleep 1000000"));
  await node.putManifest(podWith("hangs", { server: "hangs" }, "true"));
  await node.waitUntilRunning("stays");
  await pollUntil("the mount that hangs", 20_000, async () => (await hangingMounts()).length === 1);
  const [left] = await hangingMounts();
  await node.agent.kill9();
  await node.removeFile("hangs.yaml");
  await startAgent();
  await node.waitUntilRunning("stays");
  expect(await mounted()).toEqual(["answers:/data rw"]);
  await node.agent.kill9();
  await node.removeFile("stays.yaml");
  await startAgent();
  await node.waitUntilEmpty();
  expect(await mounted()).toEqual([]);
  // The mount of the first agent outlives it, as one of the kubelet does.
  process.kill(-left!.group, "SIGKILL");
});
