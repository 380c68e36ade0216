import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { busyboxImage } from "../bed/images/images.ts";
import { earlierRelease, whyNoEarlierRelease } from "../upgrade/earlier-release.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { linesContaining, startNode, type TestNode } from "./node.ts";

setDefaultTimeout(180_000);

/** The release that nodes are upgraded from. */
const EARLIER = "fc9ef48";
const reason = await whyNoEarlierRelease(EARLIER);
if (reason !== undefined) console.warn(`skipped: upgrading a node from ${EARLIER}, since ${reason}`);

const steady = Array.from({ length: 16 }, (_, at) => `steady-${at}`);
const lasting = [...steady, "disk", "sidecar", "probed"];

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
    await node.putManifest(podOf("done", { command: script("exit 0") }, { restartPolicy: "Never" }));
    await node.waitUntilRunning(...lasting);
    await node.waitForPod("done", "it has succeeded", ({ phase }) => phase === "Succeeded");
    // The earlier agent stops the sandbox after it has reported the end.
    await node.waitForLogLine("stop sandbox", "pod=default/done-berth");
  });
  afterAll(() => node.tearDown());

  const containers = async () => (await node.containers()).map(({ id, state }) => `${id} ${state}`).toSorted();

  test("keeps every container and sandbox, and every record, when this release takes over", async () => {
    const [before, sandboxes] = [await containers(), await node.sandboxes()];
    const records = await readdir(join(node.paths.agentRoot, "berth/pods"));
    expect(records).toHaveLength(20);
    await node.agent.stop();
    const logged = (await node.log()).length;
    await node.startAgent();
    const pods = await node.waitUntilRunning(...lasting);
    await node.waitForPod("done", "it is shown as succeeded", ({ phase }) => phase === "Succeeded");
    expect(pods.map(({ restarts }) => restarts)).toEqual(lasting.map(() => 0));
    expect(await containers()).toEqual(before);
    expect((await node.sandboxes()).map(({ id }) => id).toSorted()).toEqual(sandboxes.map(({ id }) => id).toSorted());
    expect(await readdir(join(node.paths.agentRoot, "berth/pods"))).toEqual(records);
    const log = (await node.log()).slice(logged);
    expect(linesContaining(log, "set aside")).toEqual([]);
    expect(log.match(/(create|start|stop|remove|kill) container .*/g)).toBeNull();
  });

  test("stops each pod by its manifest afterwards, and nothing is left", async () => {
    for (const name of [...lasting, "done"]) await node.removeFile(`${name}.yaml`);
    await node.waitUntilEmpty(60_000);
  });
});
