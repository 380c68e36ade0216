// The container runtime executes the network of pods, and the agent cleans up what the runtime has forgotten.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "../bed/agent.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { podOf } from "./manifest.ts";
import { runtimeCache } from "./network-node.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const results = join(runtimeCache, "results");

describe.each(versionsUnderTest)("containerd %s", (version) => {
  let node: TestNode;
  const namespaces: string[] = [];
  beforeAll(async () => {
    node = await startNodeWithoutAgent({ version });
  });
  afterAll(async () => {
    for (const name of namespaces) {
      await execa("ip", ["netns", "del", name], { reject: false });
      await berthCni("del", name);
    }
    await node.tearDown();
  });

  const berthCni = async (verb: "add" | "del", name: string, args = "") => {
    const config = await readFile(node.paths.config, "utf8");
    const binDir = /bin_dirs? = \[?"([^"]+)"/.exec(config)?.[1] ?? "";
    const folders = ["--conf-dir", node.paths.cniConfDir, "--bin-dir", binDir];
    const attachment = [
      "--netns",
      `/run/netns/${name}`,
      "--container-id",
      name,
      ...(args === "" ? [] : ["--args", args]),
    ];
    await execa(builtBinary, ["cni", verb, ...folders, ...attachment]);
  };

  /** An attachment as the container runtime makes it for a pod. */
  const attach = async (name: string, args: string) => {
    await execa("ip", ["netns", "add", name]);
    namespaces.push(name);
    await berthCni("add", name, args);
  };

  /** The containers that have an address, of host-local. */
  const owners = async () => {
    const folder = join(node.paths.cniLeases, node.containerd.record.network);
    const addresses = (await readdir(folder)).filter((file) => /^\d+(\.\d+){3}$/.test(file));
    // The runtime may free an address between the two calls.
    const read = (file: string) => readFile(join(folder, file), "utf8").catch(ifAbsent(undefined));
    const texts = await Promise.all(addresses.map(read));
    return texts.flatMap((text) => (text === undefined ? [] : [text.split(/\s/)[0] ?? ""])).toSorted();
  };

  test("what the runtime has forgotten is deleted when its namespace is gone, and nothing else", async () => {
    await node.startAgent();
    // Shows the agent that it sees the namespaces of this runtime.
    await node.putManifest(podOf("web"));
    await node.waitUntilRunning("web");
    const [sandbox] = await node.sandboxes();
    const nameOf = (what: string) => `${node.containerd.record.network}-${what}`;
    const podArgs = (what: string) =>
      `IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=${what};K8S_POD_INFRA_CONTAINER_ID=${nameOf(what)}`;
    for (const what of ["lost", "kept"]) await attach(nameOf(what), podArgs(what));
    await attach(nameOf("by-hand"), "");
    for (const what of ["lost", "by-hand"]) await execa("ip", ["netns", "del", nameOf(what)]);
    const kept = [nameOf("by-hand"), nameOf("kept"), sandbox?.id ?? ""].toSorted();
    // Another agent of this machine may be faster than this one.
    expect(await owners()).toEqual(expect.arrayContaining(kept));
    // The agent looks through the cache whenever the runtime is back.
    await node.containerd.restart();
    await pollUntil("the address to be free", 30_000, async () => !(await owners()).includes(nameOf("lost")));
    expect(await owners()).toEqual(kept);
  });

  test("a pod whose cached result a killed runtime has left torn is stopped all the same", async () => {
    const [sandbox] = await node.sandboxes();
    const file = join(results, `${node.containerd.record.network}-${sandbox?.id}-eth0`);
    await node.containerd.kill9();
    await writeFile(file, (await readFile(file, "utf8")).slice(0, 100));
    await node.containerd.restart();
    await node.removeFile("web.yaml");
    await node.waitUntilGone("web");
    await pollUntil("no address of the pod", 20_000, async () => !(await owners()).includes(sandbox?.id ?? ""));
  });
});
