// The built-in network as the fallback of a standalone node, whose runtime calls the delegate: without --network, pods have it while the folder
// has no configuration.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { DoctorReport } from "../../cli/doctor/report.ts";
import { builtBinary } from "../bed/agent.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { webImage, webPage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { inNetworkAndMountNamespace } from "../contract/own-namespace.ts";
import { podOf } from "./manifest.ts";
import { type NetworkNode, prepareNetworks } from "./network-node.ts";
import { containerId, startNodeWithoutAgent, type TestNode } from "./node.ts";
import { downloadVersions, versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const records = "/run/berth/network";

let node: TestNode;
let networks: NetworkNode;

const startAgent = () => node.startAgent({}, ["--network-delegate-dir", networks.delegateDir]);
const removeList = () => rm(join(node.paths.cniConfDir, "10-berth.conflist"));

/** Starts a web server. Resolves with its address and its container. */
async function startPod(name: string) {
  const { command: _, ...container } = podOf(name, { image: webImage }).spec.containers[0]!;
  await node.putManifest(podOf(name, {}, { containers: [container] }));
  return await runningPod(name);
}

async function runningPod(name: string) {
  const [pod] = await node.waitUntilRunning(name);
  return { ip: pod!.ip, container: containerId(pod!), restarts: pod!.restarts };
}

/** What a command prints about this node, whatever its exit code. */
async function berth(...command: readonly string[]): Promise<string> {
  const argv = [...command, "--root-dir", node.paths.agentRoot];
  return (await execa(builtBinary, argv, { reject: false, timeout: 60_000 })).stdout;
}

async function removePods(...names: readonly string[]) {
  for (const name of names) await node.removeFile(`${name}.yaml`);
  await Promise.all(names.map((name) => node.waitUntilGone(name)));
}

async function expectPage(address: string) {
  const answer = await pollUntil(`an answer of ${address}`, 5_000, () =>
    fetch(`http://${address}:8080/`).then(
      (response) => response.text(),
      () => undefined,
    ),
  );
  expect(answer).toBe(webPage);
}

/** What both networks have of pods. */
async function remains() {
  const { links, leases, cached, rules } = await networks.remains();
  const { stdout } = await execa("ip", ["-json", "link", "show", "type", "veth"]);
  const addresses = (await readdir(join(records, "berth/addresses")).catch(ifAbsent([]))).filter((name) =>
    /^[\d.]+$/.test(name),
  );
  const attachments = await readdir(join(records, "berth/attachments")).catch(ifAbsent([]));
  const results = await readdir(join(node.paths.cniCache, "results")).catch(ifAbsent([]));
  return { links, veths: JSON.parse(stdout).length, leases, cached, rules, addresses, attachments, results };
}

const nothing = {
  ...{ links: [], veths: 0, leases: [], cached: [], rules: [] },
  ...{ addresses: [], attachments: [], results: [] },
};

/** The agent deletes links up to two seconds after their pods. */
async function expectNothing() {
  const isEmpty = async () => Bun.deepEquals(await remains(), nothing);
  await pollUntil("a node without remains", 10_000, isEmpty).catch(async () => {
    expect(await remains()).toEqual(nothing);
  });
}

const registerTests = () => {
  describe.each(versionsUnderTest)("containerd %s", (version) => {
    beforeAll(async () => {
      // Other suites have a network of the same name.
      await mkdir(records, { recursive: true });
      await execa("mount", ["-t", "tmpfs", "tmpfs", records]);
      await execa("ip", ["link", "set", "lo", "up"]);
      node = await startNodeWithoutAgent({ version });
      networks = await prepareNetworks(node, node.paths.cniCache);
      expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
      await removeList();
      await networks.useConfDir(networks.delegateDir);
      await startAgent();
    });
    afterAll(async () => {
      await node.tearDown();
      await execa("umount", [records]);
    });

    const ofBuiltin = /^10\.241\.0\.\d+$/;

    test("pods have the built-in network; a list that appears serves new pods, and the others keep theirs", async () => {
      const old = await startPod("old");
      expect(old.ip).toMatch(ofBuiltin);
      await networks.useChain();
      const late = await startPod("late");
      expect(late.ip).toStartWith(node.containerd.subnet.replace("0/24", ""));
      expect(await runningPod("old")).toEqual(old);
      for (const { ip } of [old, late]) await expectPage(ip);
      await removePods("old", "late");
      await expectNothing();
      await removeList();
    });

    test("the log, doctor and berth cni list name the network that the agent executes, before and after a list appears", async () => {
      const { agentRoot, cniConfDir } = node.paths;
      const folder = join(agentRoot, "network-fallback.d");
      await node.waitForLogLine("the agent executes the network of pods", folder);
      const list = async () => await berth("cni", "list", "--conf-dir", cniConfDir);
      const finding = async () => {
        const { findings } = JSON.parse(await berth("doctor", "-o", "json")) as DoctorReport;
        return findings.filter(({ check }) => check === "network").map(({ state, what }) => `${state}: ${what}`);
      };
      expect(await finding()).toEqual(["ok: the agent executes the built-in network (10.241.0.0/24)"]);
      expect(await list()).toContain(`executes the first network of ${folder} for pods: `);
      await networks.useChain();
      const executed = `${cniConfDir}/10-berth.conflist with held-bridge, host-local and portmap`;
      expect(await finding()).toEqual([`ok: the agent executes ${executed}`]);
      expect(await list()).toContain(`executes the first network of ${cniConfDir} for pods: `);
      await removeList();
    });

    test("an agent that starts after the list has appeared keeps the pods of the built-in network, and ends them cleanly", async () => {
      const old = await startPod("old");
      expect(old.ip).toMatch(ofBuiltin);
      await node.agent.kill9();
      await networks.useChain();
      await startAgent();
      const late = await startPod("late");
      expect(late.ip).toStartWith(node.containerd.subnet.replace("0/24", ""));
      expect(await runningPod("old")).toEqual(old);
      await expectPage(old.ip);
      await removePods("old", "late");
      await expectNothing();
      await removeList();
    });

    test("a pod of the built-in network that is deleted while the agent is away leaves nothing, after a list has appeared, too", async () => {
      for (const name of ["first", "second"]) expect((await startPod(name)).ip).toMatch(ofBuiltin);
      await node.agent.kill9();
      await networks.removeSandboxOf("first-berth");
      await networks.useChain();
      await networks.removeSandboxOf("second-berth");
      for (const name of ["first", "second"]) await node.removeFile(`${name}.yaml`);
      await expectNothing();
      await startAgent();
      await node.waitUntilEmpty();
      await removeList();
    });
  });
};

inNetworkAndMountNamespace(
  import.meta.path,
  "the built-in network as the fallback of a standalone node",
  registerTests,
  downloadVersions,
);
