// --network=builtin on a node of a real cluster: without a pod CIDR the network is not ready; with one of each family, pods reach
// each other, kube-proxy leads Services to them in both of its modes, and they have host ports beside its rules. The Services answer as
// with the chain of loopback, bridge, host-local and portmap.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Node, Service } from "../../../proto/kubernetes/gen/types.ts";
import { cniConflist } from "../../bed/containerd/containerd-config.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { inNetworkNamespace } from "../../contract/own-namespace.ts";
import { kubeProxyProgram } from "../../upstream/go-program.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { freePort } from "../free-port.ts";
import { type NetworkNode, prepareNetworks } from "../network-node.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import {
  berthRules,
  type KubeProxy,
  type ProxyMode,
  prepareKubeProxy,
  proxyModes,
  startKubeProxy,
} from "./kube-proxy.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";
import {
  askCommand,
  clientPath,
  connectOtherMachine,
  hostOf,
  machine,
  NO_ANSWER,
  node,
  type OtherMachine,
  serveClient,
  serverPort,
} from "./other-machine.ts";
import {
  type Addresses,
  type AddressesWithNodePort,
  clusterIPs,
  gateway,
  nodePorts,
  podCIDRs,
  type ServedPods,
  serviceRows,
  withNames,
} from "./service-rows.ts";

setDefaultTimeout(600_000);

const what = "the built-in network on a node of a cluster";
const skip = skipWithoutPrograms(what) ?? kubeProxyProgram.skipWithout(what);

const serviceRanges = "--service-cluster-ip-range=10.191.0.0/24,fd00:191::/112";
const reservations = "/run/berth/network/berth/addresses";
/** The Service `web` has two pods, of which kube-proxy picks one at random: one of both is missing once in eight million times. */
const OFTEN = 24;

let cluster: ClusterNode;
let networks: NetworkNode;
let other: OtherMachine;
let [hostPort, lateHostPort] = [0, 0];

/** The kubelet's words, and the cause. */
const notReady = [
  "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
  "message:Network plugin returns error: --network=builtin: the Node object has no pod CIDR yet,",
  "which gives pods their addresses",
].join(" ");

/** A pod with a web server, on a node that need not be Ready: the scheduler has no part in it. */
function serverPod(name: string, service: string, port: { readonly hostPort?: number } = {}): Manifest {
  const httpGet = { port: serverPort, path: clientPath };
  const container = {
    command: serveClient,
    ports: [{ containerPort: serverPort, ...port }],
    // A busy machine answers late, and a pod that is no longer ready leaves its Services.
    readinessProbe: { httpGet, periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 60 },
  };
  const pod = barePod(name, container, { nodeName: cluster.node.name });
  return { ...pod, metadata: { ...pod.metadata, labels: { app: name, service } } } as Manifest;
}

/** A Service of both families for the pods `web-1` and `web-2`. */
function service(name: string, externalTrafficPolicy: "Cluster" | "Local"): Manifest {
  const ports = [{ port: 80, targetPort: serverPort }];
  const spec = { type: "NodePort", externalTrafficPolicy, ipFamilyPolicy: "RequireDualStack" };
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: { ...spec, selector: { service: "web" }, ports },
  };
}

async function addressesOf(name: string): Promise<Addresses> {
  const [pod] = await cluster.waitForPods("it is up", name, ([found]) => areContainersReady(found));
  const [ipv4 = "", ipv6 = ""] = pod?.status?.podIPs?.map(({ ip }) => ip) ?? [];
  return { ipv4, ipv6 };
}

async function serviceAddresses(name: string): Promise<AddressesWithNodePort> {
  const { spec } = JSON.parse(await cluster.kubectl("get", "service", name, "--output=json")) as Service;
  const [ipv4 = "", ipv6 = ""] = spec?.clusterIPs ?? [];
  return { ipv4, ipv6, nodePort: spec?.ports?.[0]?.nodePort ?? 0 };
}

/** What a pod, the node or the other machine gets from these hosts, each answer once. */
async function answers(from: string, hosts: readonly string[], count = 1): Promise<readonly string[]> {
  const all =
    from === "node" || from === "machine"
      ? await other.ask(from, hosts, count)
      : (await cluster.kubectl("exec", from, "--", ...askCommand(hosts, count))).trim().split("\n");
  return [...new Set(all)].toSorted();
}

/** The addresses of a client that the pods see behind hosts of IPv4 and IPv6, whichever pods answer. */
async function clientsSeen(from: string, hosts: readonly string[]): Promise<readonly string[]> {
  const all = await answers(from, hosts, 5);
  return [...new Set(all.map((answer) => answer.replace(/^web-[12] /, "")))].toSorted();
}

async function startNode(): Promise<void> {
  other = await connectOtherMachine();
  cluster = await startClusterNode(undefined, {}, { "kube-apiserver": [serviceRanges] });
  await cluster.node.agent.stop();
  networks = await prepareNetworks(cluster.node, cluster.node.paths.cniCache);
  expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
  await networks.useConfDir(networks.delegateDir);
  const flags = ["--network=builtin", "--network-delegate-dir", networks.delegateDir];
  await cluster.node.startAgent({}, [...flags, `--node-ip=${node.ipv4},${node.ipv6}`]);
  [hostPort, lateHostPort] = [await freePort(), await freePort()];
}

async function tearDown(): Promise<void> {
  try {
    await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
    await cluster.waitUntilEmpty();
    expect(await readdir(reservations).catch(ifAbsent([]))).toEqual([]);
    expect(await networks.berthCni("uninstall")).toMatchObject({ exitCode: 0 });
  } finally {
    await other.close();
    await cluster.tearDown();
  }
}

/** Why kube-proxy cannot lead a pod to another one in this mode here. */
function findProxyProblem(mode: ProxyMode): string | undefined {
  if (!existsSync("/proc/sys/net/bridge/bridge-nf-call-iptables")) return "br_netfilter is not loaded";
  return mode === "iptables" && Bun.which("iptables") === null ? "iptables is not installed" : undefined;
}

/** kube-proxy in one mode, with what it leads to; known once `beforeAll` has run. */
interface ServedNode extends ServedPods {
  readonly proxy: KubeProxy;
}

async function serve(mode: ProxyMode): Promise<ServedNode> {
  const [web, local] = await Promise.all([serviceAddresses("web"), serviceAddresses("local")]);
  const [client, first] = await Promise.all([addressesOf("client"), addressesOf("web-1")]);
  // No rule of an earlier kube-proxy answers instead.
  expect(await answers("node", clusterIPs(web))).toEqual([NO_ANSWER]);
  const proxy = await startKubeProxy(cluster, mode);
  try {
    expect(await proxy.mode()).toBe(mode);
    const hosts = [...clusterIPs(web), ...nodePorts(local)];
    const isServed = async () => !(await answers("node", hosts)).includes(NO_ANSWER);
    await pollUntil("answers of the Services", 20_000, isServed);
  } catch (error) {
    await proxy.stop();
    throw error;
  }
  return { proxy, web, local, client, first };
}

/** What pods see by the name of the row, with the built-in network and with the chain. */
const seen = { builtin: new Map<string, readonly string[]>(), chain: new Map<string, readonly string[]>() };
/** The mode of kube-proxy in which both networks are compared. */
const comparedMode = "iptables";

function registerMode(mode: ProxyMode): void {
  if (skipsMode(mode)) return;
  let served: ServedNode | undefined;
  let ownRules = "";
  beforeAll(async () => {
    ownRules = await berthRules(cluster.node.folder);
    served = await serve(mode);
  });
  afterAll(() => served?.proxy.stop());
  registerServices(() => served!, mode === comparedMode ? seen.builtin : new Map());
  registerHostPorts(() => ({ ...served!, ownRules }));
}

function skipsMode(mode: ProxyMode): boolean {
  const problem = findProxyProblem(mode);
  if (problem === undefined) return false;
  console.warn(`skipped: Services of kube-proxy in the mode ${mode}, since ${problem}`);
  test.skip(problem, () => {});
  return true;
}

function registerServices(served: () => ServedPods, shown: Map<string, readonly string[]>): void {
  test.each(serviceRows)("$name", async ({ name, from, hosts, shows, expected }) => {
    const asked = hosts(served());
    const got = shows === "clients" ? await clientsSeen(from, asked) : await answers(from, asked, OFTEN);
    shown.set(name, withNames(got, served()));
    expect(got).toEqual(expected(served()));
  });

  test("a pod has the name server of the cluster", async () => {
    const text = await cluster.kubectl("exec", "client", "--", "cat", "/etc/resolv.conf");
    shown.set("resolv.conf", text.trim().split("\n"));
    expect(text).toContain("nameserver 10.191.0.10\n");
  });
}

/** Replaces the built-in network by the chain of loopback, bridge, host-local and portmap, which the runtime executes, with the same ranges. */
async function useChain(): Promise<void> {
  const { agent, containerd, name, paths } = cluster.node;
  await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
  await cluster.waitUntilEmpty();
  await agent.stop();
  expect(await networks.berthCni("uninstall")).toMatchObject({ exitCode: 0 });
  const { bridge, record } = containerd;
  const list = JSON.parse(
    cniConflist({ name: record.network, bridge, subnet: podCIDRs[0], leases: paths.cniLeases }),
  ) as { plugins: [Record<string, unknown> & { ipam: object }] };
  const [plugin] = list.plugins;
  plugin["ipMasq"] = true;
  Object.assign(plugin.ipam, {
    ranges: podCIDRs.map((subnet) => [{ subnet }]),
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  });
  await writeFile(join(paths.cniConfDir, "10-berth.conflist"), JSON.stringify(list));
  await networks.useConfDir(paths.cniConfDir);
  await cluster.node.startAgent({}, [`--node-ip=${node.ipv4},${node.ipv6}`]);
  await cluster.kubectl("wait", "--for=condition=Ready", `node/${name}`, "--timeout=180s");
  await cluster.apply([serverPod("web-1", "web"), serverPod("web-2", "web"), barePod("client")]);
  await Promise.all(["web-1", "web-2", "client"].map(addressesOf));
}

function registerChain(): void {
  if (skipsMode(comparedMode)) return;
  let served: ServedNode | undefined;
  beforeAll(async () => {
    await useChain();
    served = await serve(comparedMode);
  });
  afterAll(() => served?.proxy.stop());
  registerServices(() => served!, seen.chain);

  test("with the chain, Services and resolv.conf are as with the built-in network", () => {
    expect(seen.chain.size).toBe(serviceRows.length + 1);
    expect(Object.fromEntries(seen.chain)).toEqual(Object.fromEntries(seen.builtin));
  });
}

/** Host ports beside the rules of kube-proxy, which the last test stops. */
function registerHostPorts(served: () => ServedNode & { readonly ownRules: string }): void {
  test("a host port answers at 127.0.0.1 and at the node's addresses", async () => {
    const hosts = [hostOf(node.ipv4, hostPort), hostOf(node.ipv6, hostPort)];
    expect(await answers("node", [hostOf("127.0.0.1", hostPort)])).toEqual([`web-1 ${gateway.ipv4}`]);
    expect(await answers("node", hosts)).toEqual([`web-1 ${node.ipv4}`, `web-1 ${node.ipv6}`]);
    expect(await answers("machine", hosts)).toEqual([`web-1 ${machine.ipv4}`, `web-1 ${machine.ipv6}`]);
    expect(await answers("client", hosts)).toEqual([`web-1 ${gateway.ipv4}`, `web-1 ${gateway.ipv6}`]);
  });

  test("a pod with a host port comes and goes, and neither program changes the rules of the other", async () => {
    const { proxy, ownRules } = served();
    const rules = await proxy.rules();
    expect(rules.length).toBeGreaterThan(20);
    expect(await berthRules(cluster.node.folder)).toBe(ownRules);
    await cluster.apply([serverPod("late", "none", { hostPort: lateHostPort })]);
    await addressesOf("late");
    expect(await answers("machine", [hostOf(node.ipv4, lateHostPort)])).toEqual([`late ${machine.ipv4}`]);
    expect(await proxy.rules()).toEqual(rules);
    await cluster.kubectl("delete", "pod", "late", "--timeout=180s");
    const isClosed = async () => (await berthRules(cluster.node.folder)) === ownRules;
    await pollUntil("the rules without the pod's host port", 10_000, isClosed);
    expect(await answers("machine", [hostOf(node.ipv4, lateHostPort)])).toEqual([NO_ANSWER]);
    expect(await proxy.rules()).toEqual(rules);
  });

  test("host ports answer after kube-proxy has removed its rules", async () => {
    const { proxy, web, ownRules } = served();
    await proxy.stop();
    expect(await proxy.rules()).toEqual([]);
    expect(await answers("node", clusterIPs(web))).toEqual([NO_ANSWER]);
    expect(await answers("machine", [hostOf(node.ipv4, hostPort)])).toEqual([`web-1 ${machine.ipv4}`]);
    expect(await berthRules(cluster.node.folder)).toBe(ownRules);
  });
}

function registerAll(): void {
  if (skip !== undefined) {
    test.skip(skip, () => {});
    return;
  }
  beforeAll(startNode);
  afterAll(tearDown);

  test("without a pod CIDR the network is not ready, and a pod waits for it", async () => {
    const ready = await pollUntil("a node whose network is not ready", 30_000, async () => {
      const { status } = JSON.parse(await cluster.kubectl("get", "node", cluster.node.name, "--output=json")) as Node;
      return status?.conditions?.find(({ message }) => message?.includes("NetworkReady=false"));
    });
    expect(ready).toMatchObject({ status: "False", reason: "KubeletNotReady", message: notReady });
    await cluster.apply([serverPod("web-1", "web", { hostPort })]);
    const selector = "--field-selector=reason=NetworkNotReady,involvedObject.name=web-1";
    const event = await pollUntil("the event", 30_000, async () => {
      const text = await cluster.kubectl("get", "events", selector, "--output=jsonpath={.items[*].message}");
      return text !== "" && text;
    });
    expect(event).toBe(`network is not ready: ${notReady}`);
    expect(await cluster.node.sandboxes()).toEqual([]);
  });

  test("with pod CIDRs each pod gets an address of each, and reaches the others, as the node does", async () => {
    const patch = JSON.stringify({ spec: { podCIDR: podCIDRs[0], podCIDRs } });
    await cluster.kubectl("patch", "node", cluster.node.name, "--type=merge", `--patch=${patch}`);
    await cluster.kubectl("wait", "--for=condition=Ready", `node/${cluster.node.name}`, "--timeout=180s");
    const line = `the container runtime has taken the pod CIDR of the node  podCIDR="${podCIDRs.join()}"`;
    await pollUntil("the runtime to get the pod CIDRs", 30_000, async () => (await cluster.node.log()).includes(line));
    await cluster.apply([
      serverPod("web-2", "web"),
      barePod("client"),
      service("web", "Cluster"),
      service("local", "Local"),
    ]);
    const [first, second, asking] = await Promise.all(["web-1", "web-2", "client"].map(addressesOf));
    const all = [first!, second!, asking!];
    for (const { ipv4, ipv6 } of all) expect([ipv4, ipv6].join()).toMatch(/^10\.99\.7\.\d+,fd00:99:7::[\da-f]+$/);
    expect(new Set([...all, gateway].flatMap((one) => Object.values(one))).size).toBe(8);
    const hostsOf = (one: Addresses) => Object.values(one).map((address) => hostOf(address, serverPort));
    const namedBy = (name: string, one: Addresses) => Object.values(one).map((address) => `${name} ${address}`);
    expect(await answers("client", hostsOf(first!))).toEqual(namedBy("web-1", asking!));
    expect(await answers("web-1", hostsOf(second!))).toEqual(namedBy("web-2", first!));
    expect(await answers("node", hostsOf(second!))).toEqual(namedBy("web-2", gateway));
  });

  describe.each(proxyModes)("with kube-proxy in the mode %s", registerMode);
  describe(`the chain with kube-proxy in the mode ${comparedMode}`, registerChain);
}

inNetworkNamespace(import.meta.path, what, registerAll, skip === undefined ? prepareKubeProxy : undefined);
