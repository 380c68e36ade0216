// A container runtime that makes its network configuration of the node's pod CIDR, which the agent hands over.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { podOf } from "./manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

describe.each(versionsUnderTest)("containerd %s", (version) => {
  let node: TestNode;
  let podCIDR = "";
  beforeAll(async () => {
    node = await startNodeWithoutAgent({ version });
    const { paths, containerd, folder } = node;
    const { cniConfDir, config } = paths;
    podCIDR = containerd.subnet.replace(/\.0\/24$/, ".128/25");
    const list = join(cniConfDir, "10-berth.conflist");
    const template = join(folder, "network.template");
    await writeFile(template, (await readFile(list, "utf8")).replaceAll(containerd.subnet, "{{.PodCIDR}}"));
    await rm(list);
    const text = await readFile(config, "utf8");
    await writeFile(config, text.replace(/^( *)conf_dir = .*$/m, `$&\n$1conf_template = ${JSON.stringify(template)}`));
    await containerd.restart();
  });
  afterAll(() => node.tearDown());

  test("the runtime writes its network of podCIDR, from which a pod gets its address", async () => {
    expect(podCIDR).toEndWith(".128/25");
    await node.startAgent({ podCIDR });
    await node.putManifest(podOf("web"));
    const [pod] = await node.waitUntilRunning("web");
    const ip = pod?.ip ?? "";
    expect(ip.split(".").slice(0, 3)).toEqual(podCIDR.split(".").slice(0, 3));
    expect(Number(ip.split(".").at(-1))).toBeGreaterThan(128);
    expect(await readdir(node.paths.cniConfDir)).toEqual(["10-containerd-net.conflist"]);
  });
});
