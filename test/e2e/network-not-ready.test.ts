// A node whose container runtime has no network yet: pods wait for it, and the agent says what is missing.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { podOf } from "./manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

describe.each(versionsUnderTest)("containerd %s", (version) => {
  let node: TestNode;
  let list = "";
  let good = "";
  beforeAll(async () => {
    node = await startNodeWithoutAgent({ version });
    list = join(node.paths.cniConfDir, "10-berth.conflist");
    good = await readFile(list, "utf8");
    await rm(list);
    await node.containerd.restart();
    await node.startAgent();
  });
  afterAll(() => node.tearDown());

  /** containerd reads the list again when it is written, and not when it is renamed into its place. */
  const putList = (text: string) => writeFile(list, text);

  const waitForMessage = (...texts: readonly string[]) =>
    node.waitForPod("web", `its message has ${texts.join(" and ")}`, ({ message }) =>
      texts.every((text) => message.includes(text)),
    );

  test("a pod waits and says which file or program is missing; a pod of the host network runs; both run in the end", async () => {
    await node.putManifest(podOf("web"));
    await node.putManifest(podOf("host", {}, { hostNetwork: true }));
    await node.waitUntilRunning("host");
    const words = "network is not ready: container runtime network not ready: NetworkReady=false";
    await waitForMessage(words, `${node.paths.cniConfDir} has no network configuration`);
    await putList("{");
    await waitForMessage(words, `${list} is not JSON`);
    expect((await node.sandboxes()).map(({ metadata }) => metadata?.name)).toEqual([`host-${node.name}`]);
    await putList(JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "no-such-plugin" }] }));
    // containerd calls this network ready, and names the plugin when it needs it.
    await waitForMessage("no-such-plugin");
    await putList(good);
    await node.waitUntilRunning("web");
  });
});
