// The agent executes the network of pods on containerd: installed beside running pods, away, stopped, with a chain and with the
// built-in network, and removed again.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { NetworkOwner } from "../../agent/config/config.ts";
import { compilerOf } from "../../cli/compile-delegate.ts";
import type { Check } from "../../cli/doctor/finding.ts";
import type { DoctorReport } from "../../cli/doctor/report.ts";
import { podAnnotationsCapability } from "../../proto/kubernetes/well-known-names.ts";
import { builtBinary } from "../bed/agent.ts";
import { webImage, webPage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { inNetworkNamespace } from "../contract/own-namespace.ts";
import { freePort } from "./free-port.ts";
import { podOf } from "./manifest.ts";
import { type NetworkNode, type PodNetworkRemains, prepareNetworks } from "./network-node.ts";
import { containerId, linesContaining, startNodeWithoutAgent, type TestNode } from "./node.ts";
import { secondsToReceive, secondsToSend } from "./stream-seconds.ts";
import { downloadVersions, versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

/** The burst that the runtime asks for with a bandwidth: 2^32 - 1 bits. */
const NO_BURST = 2 ** 32 - 1;
const nothing: PodNetworkRemains = { links: [], leases: [], reserved: [], cached: [], rules: [] };
/** Names of pods: `old-1`, `old-2`, …. */
const namesOf = (prefix: string, count: number) =>
  Array.from({ length: count }, (_, index) => `${prefix}-${index + 1}`);

let node: TestNode;
let networks: NetworkNode;

const startOwner = (owner: NetworkOwner) =>
  node.startAgent({}, [`--network-owner=${owner}`, "--network-delegate-dir", networks.delegateDir, "-v=4"]);

async function startPods(...names: readonly string[]) {
  for (const name of names) await node.putManifest(podOf(name));
  return await node.waitUntilRunning(...names);
}

async function removePods(...names: readonly string[]) {
  for (const name of names) await node.removeFile(`${name}.yaml`);
  await Promise.all(names.map((name) => node.waitUntilGone(name)));
}

/** The containers of pods, with how often they were restarted. */
async function containersOf(...names: readonly string[]) {
  const pods = await node.waitUntilRunning(...names);
  return pods.map((pod) => [containerId(pod), pod.restarts] as const);
}

/** Starts a pod that sends without end on port 9000, and receives on port 9001. Resolves with its address. */
async function startStreams(name: string, annotations: Readonly<Record<string, string>>): Promise<string> {
  const stream = "nc -ll -p 9000 -e cat /dev/zero & nc -ll -p 9001 -e sh -c 'cat >/dev/null'";
  const pod = podOf(name, { command: ["catatonit", "--", "sh", "-c", stream] }, { terminationGracePeriodSeconds: 0 });
  await node.putManifest({ ...pod, metadata: { ...pod.metadata, annotations } });
  const [running] = await node.waitUntilRunning(name);
  return running?.ip ?? "";
}

/** How many links of pods have a limit of their bandwidth. */
async function limitedLinks(): Promise<number> {
  const { stdout } = await execa("ip", ["-json", "link", "show", "type", "veth"]);
  return (JSON.parse(stdout) as readonly { readonly qdisc: string }[]).filter(({ qdisc }) => qdisc === "tbf").length;
}

async function expectPage(url: string) {
  const answer = await pollUntil(`an answer of ${url}`, 5_000, () =>
    fetch(url).then(
      (response) => response.text(),
      () => undefined,
    ),
  );
  expect(answer).toBe(webPage);
}

async function waitForRemains(expected: PodNetworkRemains) {
  const isSame = async () => Bun.deepEquals(await networks.remains(), expected);
  await pollUntil("the remains of pods", 20_000, isSame).catch(async () => {
    expect(await networks.remains()).toEqual(expected);
  });
}

/** What doctor says of the agent that runs. */
async function findingsOf(check: Check) {
  const argv = ["doctor", "-o", "json", "--root-dir", node.paths.agentRoot];
  const { stdout } = await execa(builtBinary, argv, { reject: false, timeout: 60_000 });
  return (JSON.parse(stdout) as DoctorReport).findings.filter((finding) => finding.check === check);
}

async function startWeb(name: string) {
  const hostPort = await freePort();
  const { command: _, ...container } = podOf(name, { image: webImage, ports: [{ containerPort: 8080, hostPort }] }).spec
    .containers[0]!;
  const pod = podOf(name, {}, { containers: [container] });
  const annotations = { "kubernetes.io/ingress-bandwidth": "1G" };
  await node.putManifest({ ...pod, metadata: { ...pod.metadata, annotations } });
  const [web] = await node.waitUntilRunning(name);
  const gateway = node.containerd.subnet.replace("0/24", "1");
  for (const address of [`${web?.ip}:8080`, `${gateway}:${hostPort}`]) await expectPage(`http://${address}/`);
}

/**
 * Expects that a pod with limits takes more than four times as long as one without, in both directions. The runtime asks for a
 * burst of 2^32 - 1 bits: only what follows it is limited.
 */
async function expectBandwidth() {
  const limits = { "kubernetes.io/ingress-bandwidth": "80M", "kubernetes.io/egress-bandwidth": "80M" };
  const [unlimited, limited] = [await startStreams("fast", {}), await startStreams("slow", limits)];
  for (const secondsOf of [secondsToReceive, secondsToSend])
    expect((await secondsOf(limited)) / (await secondsOf(unlimited))).toBeGreaterThan(4);
  await removePods("fast", "slow");
}

const registerTests = () => {
  describe.each(versionsUnderTest)("containerd %s", (version) => {
    // More pods, and the bandwidth, with one release alone: the agent and the kernel do the work, not the runtime.
    const isNewest = version === versionsUnderTest.at(-1);
    const count = isNewest ? 20 : 5;
    beforeAll(async () => {
      await execa("ip", ["link", "set", "lo", "up"]);
      node = await startNodeWithoutAgent({ version });
      networks = await prepareNetworks(node);
      await networks.useChain();
      await networks.useConfDir(node.paths.cniConfDir);
      await node.startAgent();
    });
    afterAll(async () => {
      await node.tearDown();
      await networks.removeRecords();
    });

    test("is installed beside running pods: none restarts, and those from before and after it end cleanly", async () => {
      const old = namesOf("old", count);
      await startPods(...old);
      const before = await containersOf(...old);
      await node.agent.stop();
      expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
      expect(await networks.hasStaticDelegate()).toBe(Bun.which(compilerOf()) !== null);
      await networks.useConfDir(networks.delegateDir);
      await startOwner("auto");
      await node.waitForLogLine("the agent executes the network of pods");
      const late = namesOf("new", 5);
      await startPods(...late);
      await startWeb("web");
      expect(await containersOf(...old)).toEqual(before);
      const executed = linesContaining(await node.log(), "network ADD", "held-bridge", "portmap");
      expect(executed).toHaveLength(late.length + 1);
      await removePods(...old, ...late, "web");
      expect(await networks.remains()).toEqual(nothing);
    });

    test("a runtime that reads another folder than the delegate's starts no pod, until it reads that one again", async () => {
      await startPods("before");
      const before = await networks.remains();
      const { cniConfDir } = node.paths;
      await networks.useConfDir(cniConfDir);
      await node.putManifest(podOf("waits"));
      const words = `the container runtime reads its networks from ${cniConfDir}, but the list of berth-cni is in ${networks.delegateDir}: set conf_dir = "${networks.delegateDir}" in its configuration and restart it`;
      await node.waitForPod("waits", "it says which folder", ({ message }) => message.includes(words));
      const found = (await findingsOf("network")).map(({ state, what, cure }) => [state, `${what}: ${cure}`]);
      expect(found).toEqual([["problem", words]]);
      expect(await networks.remains()).toEqual(before);
      const other = { cniVersion: "1.0.0", name: "other", plugins: [{ type: "bridge" }] };
      await writeFile(join(networks.delegateDir, "05-other.conflist"), JSON.stringify(other));
      await networks.useConfDir(networks.delegateDir);
      const earlier = `the container runtime uses ${networks.delegateDir}/05-other.conflist, which comes before the list of berth-cni: remove that file`;
      await node.waitForPod("waits", "it names the file", ({ message }) => message.includes(earlier));
      await rm(join(networks.delegateDir, "05-other.conflist"));
      await node.waitUntilRunning("waits");
      await removePods("before", "waits");
      expect(await networks.remains()).toEqual(nothing);
    });

    test("doctor looks at the network that the agent executes: a firewall that drops its packets, and a plugin that is missing", async () => {
      await networks.useBuiltin();
      await execa("iptables", ["-P", "FORWARD", "DROP"]);
      const [firewall, ...others] = await findingsOf("firewall");
      await execa("iptables", ["-P", "FORWARD", "ACCEPT"]);
      expect([firewall?.state, others]).toEqual(["warning", []]);
      expect(firewall?.what).toContain(`no rule accepts every packet from and to ${node.containerd.bridge}: `);
      const list = join(node.paths.cniConfDir, "10-berth.conflist");
      const what = `the agent executes ${list} with berth`;
      expect(await findingsOf("network")).toEqual([{ check: "network", state: "ok", what }]);
      await writeFile(list, JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "no-such" }] }));
      const [missing] = await findingsOf("network");
      expect([missing?.state, missing?.what]).toEqual(["problem", expect.stringContaining(`${list} needs no-such, `)]);
      await networks.useChain();
    });

    test("a pod that is deleted while the agent is away leaves nothing", async () => {
      await startPods("away");
      const { links, leases, cached } = await networks.remains();
      expect([links.length, leases.length, cached.length]).toEqual([1, 1, 2]);
      await node.agent.kill9();
      await networks.removeSandboxOf("away-berth");
      expect(await networks.remains()).toEqual(nothing);
      await node.removeFile("away.yaml");
      await startOwner("agent");
      await node.waitUntilEmpty();
    });

    test("what has outlived its sandbox is removed when the agent starts, and the pods that run are untouched", async () => {
      await startPods("kept");
      const kept = await networks.remains();
      await startWeb("leaked");
      const before = await containersOf("kept");
      await node.agent.kill9();
      await networks.withoutDelegate(() => networks.removeSandboxOf("leaked-berth"));
      await node.removeFile("leaked.yaml");
      const leaked = await networks.remains();
      expect([leaked.leases.length, leaked.cached.length, leaked.rules.length > 0]).toEqual([2, 3, true]);
      await startOwner("agent");
      await waitForRemains(kept);
      expect(await containersOf("kept")).toEqual(before);
      await removePods("kept");
      expect(await networks.remains()).toEqual(nothing);
    });

    test("what a chain has made of an ADD in whose midst runtime and agent were killed is removed when both are back", async () => {
      await networks.useBuiltin("held-last");
      await startPods("kept");
      const [kept] = await containersOf("kept");
      await networks.hold();
      await node.putManifest(podOf("killed"));
      await networks.waitUntilHeld();
      await node.containerd.kill9();
      await node.agent.kill9();
      await node.removeFile("killed.yaml");
      await networks.letGo();
      const { links, reserved, cached } = await networks.remains();
      expect([links.length, reserved.length, cached.length]).toEqual([2, 2, 2]);
      await node.containerd.restart();
      // The runtime still has the sandbox: without its DEL only GC finds the address, since no cache has it.
      await networks.withoutDelegate(() => networks.removeSandboxOf("killed-berth"));
      expect((await networks.remains()).reserved.length).toBe(2);
      await startOwner("agent");
      await pollUntil("one link and one address", 20_000, async () => {
        const remains = await networks.remains();
        return remains.links.length === 1 && remains.reserved.length === 1;
      });
      expect(await containersOf("kept")).toEqual([kept!]);
      await removePods("kept");
      expect(await networks.remains()).toEqual(nothing);
      await networks.useChain();
    });

    test("after a kill of agent and runtime during ADD, the agent deletes what a chain before 1.1.0 has made", async () => {
      await startPods("kept");
      const [[container], kept] = [await containersOf("kept"), await networks.remains()];
      await networks.hold();
      await node.putManifest(podOf("killed"));
      await networks.waitUntilHeld();
      await node.containerd.kill9();
      await node.agent.kill9();
      await node.removeFile("killed.yaml");
      await networks.letGo();
      // The plugin outlives both.
      await pollUntil("a second address", 20_000, async () => (await networks.remains()).leases.length === 2);
      await node.containerd.restart();
      await networks.withoutDelegate(() => networks.removeSandboxOf("killed-berth"));
      const { leases, cached } = await networks.remains();
      // No cache has it.
      expect([leases.length, cached]).toEqual([2, kept.cached]);
      await startOwner("agent");
      await waitForRemains(kept);
      expect(await containersOf("kept")).toEqual([container!]);
      await removePods("kept");
      expect(await networks.remains()).toEqual(nothing);
    });

    test("each plugin of the chain gets the capabilities that it declares", async () => {
      await networks.useChain("recorded-last");
      const port = { containerPort: 8080, hostPort: await freePort(), protocol: "UDP", hostIP: "127.0.0.1" } as const;
      const dnsConfig = {
        nameservers: ["192.0.2.53"],
        searches: ["shop.example"],
        options: [{ name: "ndots", value: "2" }],
      };
      const pod = podOf("known", { ports: [port] }, { dnsPolicy: "None", dnsConfig });
      const annotations = { "kubernetes.io/ingress-bandwidth": "1M", "kubernetes.io/egress-bandwidth": "2M" };
      await node.putManifest({ ...pod, metadata: { ...pod.metadata, annotations } });
      await node.waitUntilRunning("known");
      // The runtime names the fields as go-cni does; plugins read them in any case.
      expect((await networks.recordedInput()).runtimeConfig).toEqual({
        portMappings: [{ HostPort: port.hostPort, ContainerPort: 8080, Protocol: "udp", HostIP: "127.0.0.1" }],
        bandwidth: { IngressRate: 1e6, IngressBurst: NO_BURST, EgressRate: 2e6, EgressBurst: NO_BURST },
        dns: { Servers: ["192.0.2.53"], Searches: ["shop.example"], Options: ["ndots:2"] },
        [podAnnotationsCapability]: expect.objectContaining(annotations),
      });
      await removePods("known");
      // The pods of the bed have no cgroups.
      await networks.runSandbox("grouped", "/");
      expect((await networks.recordedInput()).runtimeConfig?.["cgroupPath"]).toBe(version === "1.6" ? undefined : "/");
      await networks.removeSandboxOf("grouped");
      await networks.useChain();
      expect(await networks.remains()).toEqual(nothing);
    });

    test("an agent that is stopped during ADD goes on with it", async () => {
      await networks.hold();
      await node.putManifest(podOf("stopped"));
      await networks.waitUntilHeld();
      process.kill(node.agent.pid, "SIGSTOP");
      await networks.letGo();
      await pollUntil("the link of the pod", 10_000, async () => (await networks.remains()).links.length === 1);
      expect((await node.containers()).length).toBe(0);
      process.kill(node.agent.pid, "SIGCONT");
      const [pod] = await node.waitUntilRunning("stopped");
      expect(pod?.restarts).toBe(0);
      await removePods("stopped");
      expect(await networks.remains()).toEqual(nothing);
    });

    test("an ADD whose time is over is undone by the agent when it goes on, and the pod starts", async () => {
      const list = join(networks.delegateDir, "10-berth.conflist");
      const installed = await readFile(list, "utf8");
      await writeFile(list, installed.replace(/"timeoutMs": \d+/, '"timeoutMs": 10000'));
      await node.containerd.restart();
      await networks.hold();
      await node.putManifest(podOf("late"));
      await networks.waitUntilHeld();
      process.kill(node.agent.pid, "SIGSTOP");
      await pollUntil("the end of ADD's time", 30_000, async () =>
        (await readFile(node.containerd.logFile, "utf8")).includes("has not answered ADD within 10000 ms"),
      );
      await networks.letGo();
      process.kill(node.agent.pid, "SIGCONT");
      await node.waitUntilRunning("late");
      const { links, leases } = await networks.remains();
      expect([links.length, leases.length]).toEqual([1, 1]);
      await removePods("late");
      expect(await networks.remains()).toEqual(nothing);
      await writeFile(list, installed);
      await node.containerd.restart();
    });

    test("a list that changes serves new pods; those of the built-in network outlive another install, and uninstall is refused with their names", async () => {
      const [chained, builtin] = [namesOf("chained", count), namesOf("builtin", count)];
      await startPods(...chained);
      const before = await containersOf(...chained);
      await networks.useBuiltin();
      await startPods(...builtin);
      await startWeb("web");
      const { reserved } = await networks.remains();
      expect(reserved.length).toBe(builtin.length + 1);
      expect(await limitedLinks()).toBe(1);
      if (isNewest) await expectBandwidth();

      const ofBuiltin = await containersOf(...builtin, "web");
      await node.agent.stop();
      expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
      await node.containerd.restart();
      await startOwner("auto");
      expect(await containersOf(...builtin, "web")).toEqual(ofBuiltin);
      expect((await networks.remains()).reserved).toEqual(reserved);

      const refused = await networks.berthCni("uninstall");
      expect(refused.exitCode).toBe(1);
      for (const name of [...builtin, "web"]) expect(refused.output).toContain(`default/${name}-berth`);
      expect(refused.output).not.toContain("chained");
      await removePods(...builtin, "web");

      expect(await networks.berthCni("uninstall")).toMatchObject({ exitCode: 0 });
      await node.agent.stop();
      await networks.useChain();
      await networks.useConfDir(node.paths.cniConfDir);
      await node.startAgent();
      expect(await containersOf(...chained)).toEqual(before);
      await startPods("after");
      await removePods(...chained, "after");
      expect(await networks.remains()).toEqual({ ...nothing, cached: [] });
    });
  });
};

inNetworkNamespace(import.meta.path, "the agent as owner of the network", registerTests, downloadVersions);
