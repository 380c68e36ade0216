// Pods leave nothing of their network when the container runtime is killed during ADD or DEL, or a plugin during DEL, or when many come and go.
import { afterAll, afterEach, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { readFile, truncate } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { createNetlink, NETLINK_NETFILTER } from "../../host/netlink/netlink.ts";
import { listEntries } from "../../host/netlink/nftables.ts";
import { webImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { inNetworkNamespace } from "../contract/own-namespace.ts";
import { freePort } from "./free-port.ts";
import { podOf } from "./manifest.ts";
import { type NetworkNode, type PodNetworkRemains, prepareNetworks, runtimeCache } from "./network-node.ts";
import { startNodeWithoutAgent, type TestNode } from "./node.ts";
import { downloadVersions, versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

/** How many pods come and go: a hundred in `npm run test:extended`. */
const COUNT = Number(process.env["BERTH_MANY_PODS"] ?? 10);
const nothing: PodNetworkRemains = { links: [], leases: [], reserved: [], cached: [], rules: [] };

let node: TestNode;
let networks: NetworkNode;

async function waitForNothing() {
  const isEmpty = async () => Bun.deepEquals(await networks.remains(), nothing);
  await pollUntil("an empty network", 20_000, isEmpty).catch(async () => {
    expect(await networks.remains()).toEqual(nothing);
  });
}

/** Starts a pod with a port of the node. */
async function startWeb(name: string) {
  const ports = [{ containerPort: 8080, hostPort: await freePort() }];
  const { command: _, ...container } = podOf(name, { image: webImage, ports }).spec.containers[0]!;
  await node.putManifest(podOf(name, {}, { containers: [container], terminationGracePeriodSeconds: 0 }));
  await node.waitUntilRunning(name);
  const { links, leases, cached, rules } = await networks.remains();
  expect([links.length, leases.length, cached.length, rules.length > 0]).toEqual([1, 1, 2, true]);
}

/** Removes a pod, and waits until the plugin `held-bridge` hangs in its DEL. Resolves with the plugin's process id. */
async function removeUntilHeld(name: string): Promise<number> {
  await networks.hold("DEL");
  await node.removeFile(`${name}.yaml`);
  return await networks.waitUntilHeld();
}

const countStopRequests = async () =>
  (await readFile(node.containerd.logFile, "utf8")).match(/(Stop|Remove)PodSandbox for/g)?.length ?? 0;

/** Expects that all pods have ended, and that nothing is left of their network. */
async function expectEmpty() {
  await node.waitUntilEmpty(60_000);
  await waitForNothing();
}

/** Starts pods, of which every fifth has a port of the node, and removes them. */
async function startAndRemoveMany(whileRunning: () => void) {
  const names = Array.from({ length: COUNT }, (_, index) => `many-${index}`);
  const firstPort = await freePort();
  const portsOf = (index: number) =>
    index % 5 === 0 ? { ports: [{ containerPort: 8080, hostPort: firstPort + index }] } : {};
  const podAt = (name: string, index: number) => podOf(name, portsOf(index), { terminationGracePeriodSeconds: 0 });
  await Promise.all(names.map((name, index) => node.putManifest(podAt(name, index))));
  const pods = await node.waitUntilRunning(...names);
  expect(new Set(pods.map(({ ip }) => ip)).size).toBe(COUNT);
  const { links, leases, reserved } = await networks.remains();
  expect([links.length, leases.length + reserved.length]).toEqual([COUNT, COUNT]);
  whileRunning();
  for (const name of names) await node.removeFile(`${name}.yaml`);
  await expectEmpty();
}

/** How many host ports the rules of the built-in network have. */
function countHostPorts(): number {
  const socket = createNetlink().openSocket(NETLINK_NETFILTER);
  try {
    return listEntries(socket, "berth", "host-ports-4").length;
  } finally {
    socket.close();
  }
}

const registerTests = () => {
  describe.each(versionsUnderTest)("containerd %s", (version) => {
    beforeAll(async () => {
      await execa("ip", ["link", "set", "lo", "up"]);
      node = await startNodeWithoutAgent({ version });
      networks = await prepareNetworks(node);
      await networks.useChain();
      expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
      await networks.useConfDir(networks.delegateDir);
      await node.startAgent({}, ["--network-owner=agent", "--network-delegate-dir", networks.delegateDir]);
    });
    afterAll(async () => {
      await node.tearDown();
      await networks.removeRecords();
    });
    // Also after a failure, so that the next test does not fail with it.
    afterEach(() => networks.letGo());

    test("a pod during whose DEL the runtime is killed has ended when it is back, and nothing is left of it", async () => {
      await startWeb("killed");
      await removeUntilHeld("killed");
      await node.containerd.kill9();
      await networks.letGo();
      await node.containerd.restart();
      await expectEmpty();
    });

    test("a pod runs with one network when the runtime was killed during its ADD and is back", async () => {
      await networks.hold("ADD");
      await node.putManifest(podOf("begun", {}, { terminationGracePeriodSeconds: 0 }));
      await networks.waitUntilHeld();
      await node.containerd.kill9();
      await networks.letGo();
      await node.containerd.restart();
      const leases = (await node.waitUntilRunning("begun")).map(({ ip }) => ip);
      // The runtime has forgotten the sandbox of the first ADD, so the agent deletes its attachment.
      const hasOne = async () => {
        const remains = await networks.remains();
        return remains.links.length === 1 && remains.cached.length === 2 && Bun.deepEquals(remains.leases, leases);
      };
      await pollUntil("one network", 30_000, hasOne).catch(async () => {
        expect(await networks.remains()).toEqual({ ...nothing, leases });
      });
      await node.removeFile("begun.yaml");
      await expectEmpty();
    });

    test("an entry of its cache that the killed runtime has left torn keeps no pod from ending, and goes with it", async () => {
      await startWeb("torn");
      const { cached } = await networks.remains();
      const entry = join(runtimeCache, "results", cached.find((name) => name.startsWith("berth-delegate-")) ?? "");
      await node.containerd.kill9();
      await truncate(entry, 10);
      await node.containerd.restart();
      await node.removeFile("torn.yaml");
      await expectEmpty();
      // The agent compares the cache with the sandboxes whenever the runtime is back.
      await node.containerd.restart();
      const isGone = async () => !existsSync(entry) && !existsSync(`${entry}.unreadable`);
      await pollUntil("the removal of the torn entry", 30_000, isGone);
    });

    test("a plugin that outlives the runtime ends before the next DEL, which leaves nothing", async () => {
      await startWeb("hung");
      await networks.forgetPluginCalls();
      const pid = await removeUntilHeld("hung");
      await node.containerd.kill9();
      const before = await countStopRequests();
      await node.containerd.restart();
      await pollUntil(
        "the next stop or removal of the sandbox",
        30_000,
        async () => (await countStopRequests()) > before,
      );
      expect(await networks.waitUntilHeld()).toBe(pid);
      await networks.letGo();
      await expectEmpty();
      const calls = await networks.pluginCalls();
      expect(calls).toEqual(calls.map((_, index) => (index % 2 === 0 ? "begins" : "ends")));
    });

    test("a plugin that is killed during DEL fails the stop of its sandbox, and the next stop leaves nothing", async () => {
      await startWeb("plugin");
      process.kill(await removeUntilHeld("plugin"), "SIGKILL");
      const failure = "held-bridge was killed by SIGKILL";
      await pollUntil("the failed stop", 20_000, async () =>
        (await readFile(node.containerd.logFile, "utf8")).includes(failure),
      );
      await networks.letGo();
      await expectEmpty();
    });

    // The agent executes both networks, so one release shows it.
    if (version !== versionsUnderTest.at(-1)) return;

    test(`${COUNT} pods of a chain that come and go leave no interface, address, rule or cache entry`, async () =>
      await startAndRemoveMany(() => {}));

    test(`${COUNT} pods of the built-in network that come and go leave no host port in its rules, and no record, either`, async () => {
      await networks.useBuiltin();
      await startAndRemoveMany(() => expect(countHostPorts()).toBeGreaterThanOrEqual(COUNT / 5));
      expect(countHostPorts()).toBe(0);
      await networks.useChain();
    });
  });
};

inNetworkNamespace(
  import.meta.path,
  "what pods leave of a network that the agent owns",
  registerTests,
  downloadVersions,
);
