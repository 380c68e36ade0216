import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { busyboxImage } from "../bed/images/images.ts";
import { earlierRelease, whyNoEarlierRelease } from "../upgrade/earlier-release.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

/** The release that nodes are upgraded from. */
const EARLIER = "fc9ef48";
const reason = await whyNoEarlierRelease(EARLIER);
if (reason !== undefined) console.warn(`skipped: upgrading a node from ${EARLIER}, since ${reason}`);

const steady = Array.from({ length: 11 }, (_, at) => `steady-${at}`);
const lasting = [...steady, "disk", "sidecar", "probed", "prepared", "pair", "draining"];

describe.skipIf(reason !== undefined)(`a node with 20 pods of ${EARLIER}`, () => {
  let node: TestNode;

  beforeAll(async () => {
    node = await startNode({ binary: await earlierRelease(EARLIER) });
    for (const name of steady) await node.putManifest(podOf(name));
    const volumes = [{ name: "scratch", emptyDir: {} }];
    await node.putManifest(podOf("disk", { volumeMounts: [{ name: "scratch", mountPath: "/scratch" }] }, { volumes }));
    const sidecar = { name: "side", image: busyboxImage, command: untilStopped, restartPolicy: "Always" } as const;
    await node.putManifest(podOf("sidecar", {}, { initContainers: [sidecar] }));
    await node.putManifest(podOf("probed", { readinessProbe: { exec: { command: ["true"] }, periodSeconds: 1 } }));
    const prepare = { name: "prepare", image: busyboxImage, command: ["true"] };
    await node.putManifest(podOf("prepared", {}, { initContainers: [prepare] }));
    const second = { name: "second", image: busyboxImage, command: untilStopped };
    const pair = podOf("pair");
    await node.putManifest({ ...pair, spec: { ...pair.spec, containers: [...pair.spec.containers, second] } });
    await node.putManifest(podOf("draining", { lifecycle: { preStop: { exec: { command: ["true"] } } } }));
    await node.putManifest(podOf("crashing", { command: script("exit 3") }));
    await node.putManifest(podOf("failed", { command: script("exit 4") }, { restartPolicy: "Never" }));
    await node.putManifest(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
    await node.waitUntilRunning(...lasting);
    await node.waitForPod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
    await node.waitForPod("failed", "it has failed", ({ phase }) => phase === "Failed");
    // The earlier agent stops a sandbox after it has reported the end.
    await node.waitForLogLine("stop sandbox", "pod=default/done-berth");
    await node.waitForLogLine("stop sandbox", "pod=default/failed-berth");
    await node.waitForPod(
      "crashing",
      "it waits for its third start",
      ({ restarts, reason }) => restarts >= 2 && reason === "CrashLoopBackOff",
    );
  });
  afterAll(() => node.tearDown());

  /** All but those of the pod that crashes, which go on being restarted. */
  const containers = async () =>
    (await node.containers())
      .filter(({ labels }) => labels["io.kubernetes.pod.name"] !== "crashing-berth")
      .map(({ id, state }) => `${id} ${state}`)
      .toSorted();
  const checkpoints = async () => {
    const folder = join(node.paths.agentRoot, "berth/pods");
    const names = (await readdir(folder)).toSorted();
    return await Promise.all(
      names.map(async (name) => JSON.parse(await readFile(join(folder, name), "utf8")) as unknown),
    );
  };

  test("keeps every container and sandbox, and every record, when this release takes over", async () => {
    const [before, sandboxes, records] = [await containers(), await node.sandboxes(), await checkpoints()];
    expect(records).toHaveLength(20);
    const crashes = (await node.waitForPod("crashing", "it is shown", () => true)).restarts;
    await node.agent.stop();
    const logged = (await node.log()).length;
    await node.startAgent();
    const pods = await node.waitUntilRunning(...lasting);
    await node.waitForPod("done", "it is shown as succeeded", ({ phase }) => phase === "Succeeded");
    await node.waitForPod("failed", "it is shown as failed", ({ phase }) => phase === "Failed");
    expect(pods.map(({ restarts }) => restarts)).toEqual(lasting.map(() => 0));
    expect(await containers()).toEqual(before);
    expect((await node.sandboxes()).map(({ id }) => id).toSorted()).toEqual(sandboxes.map(({ id }) => id).toSorted());
    expect(await checkpoints()).toEqual(records);
    const log = (await node.log()).slice(logged).split("\n");
    expect(log.filter((line) => line.includes("set aside"))).toEqual([]);
    const acts = log.filter((line) => /(create|start|stop|remove|kill) container /.test(line));
    expect(acts.filter((line) => !line.includes("crashing"))).toEqual([]);
    // The count of crashes, and with it the back-off, goes on where the earlier agent left it.
    const next = await node.waitForPod("crashing", "it crashes again", ({ restarts }) => restarts > crashes);
    expect(next.restarts).toBe(crashes + 1);
  });

  test("stops each pod by its manifest afterwards, and nothing is left", async () => {
    for (const name of [...lasting, "crashing", "failed", "done"]) await node.removeFile(`${name}.yaml`);
    await node.waitUntilEmpty(60_000);
  });
});
