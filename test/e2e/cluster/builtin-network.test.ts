// --network=builtin on a node of a real cluster: without a pod CIDR the network is not ready; with one, pods reach each other, the
// host reaches them, kube-proxy leads Services to them in both of its modes, and they have host ports.
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { execa } from "execa";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { inNetworkNamespace } from "../../contract/own-namespace.ts";
import { sendRequest } from "../../upstream/daemon.ts";
import { kubeProxyProgram } from "../../upstream/go-program.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { freePort } from "../free-port.ts";
import { script } from "../manifest.ts";
import { type NetworkNode, prepareNetworks } from "../network-node.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { type KubeProxy, type ProxyMode, prepareKubeProxy, proxyModes, startKubeProxy } from "./kube-proxy.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(90_000);

const what = "the built-in network on a node of a cluster";
const skip = skipWithoutPrograms(what) ?? kubeProxyProgram.skipWithout(what);

const nodeAddress = "192.0.2.1";
const podCIDR = "10.99.7.0/24";
const gateway = "10.99.7.1";
const reservations = "/run/berth/network/berth/addresses";
/** Each Service has two pods, of which kube-proxy picks one at random: one of both is missing once in half a billion times. */
const REQUESTS = 30;

let cluster: ClusterNode;
let networks: NetworkNode;
let hostPort = 0;

/** The kubelet's words, and the cause. */
const notReady = [
  "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady",
  "message:Network plugin returns error: --network=builtin: the Node object has no pod CIDR yet,",
  "which gives pods their addresses",
].join(" ");

/** Answers at `/cgi-bin/client` with the name of the pod and the address of the client. */
const serveClient = script(`mkdir -p /srv/cgi-bin
cat > /srv/cgi-bin/client <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\\n\\n%s %s\\n' "$(hostname)" "$REMOTE_ADDR"
END
chmod +x /srv/cgi-bin/client
exec httpd -f -p 0.0.0.0:8080 -h /srv`);

/** A pod behind the Service `web`, of a node that need not be Ready: the scheduler has no part in it. */
function webPod(name: string, port: { readonly hostPort?: number } = {}): Manifest {
  const httpGet = { port: 8080, path: "/cgi-bin/client" };
  const container = {
    command: serveClient,
    ports: [{ containerPort: 8080, ...port }],
    readinessProbe: { httpGet, periodSeconds: 1 },
  };
  const pod = barePod(name, container, { nodeName: cluster.node.name });
  return { ...pod, metadata: { ...pod.metadata, labels: { app: name, service: "web" } } } as Manifest;
}

const service: Manifest = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web" },
  spec: { selector: { service: "web" }, ports: [{ port: 80, targetPort: 8080 }] },
};

const addressOf = async (name: string) => {
  const [pod] = await cluster.waitForPods("it is up", name, ([found]) => areContainersReady(found));
  return pod?.status?.podIP ?? "";
};

/** What `/cgi-bin/client` answers to requests of the host, each on a connection of its own. */
async function answersToHost(address: string): Promise<readonly string[]> {
  const answers = new Set<string>();
  for (let count = 0; count < REQUESTS; count++) {
    const { text } = await sendRequest(`http://${address}/cgi-bin/client`);
    answers.add(text.trim());
  }
  return [...answers].toSorted();
}

/** The same for requests of a pod. */
async function answersToPod(name: string, address: string): Promise<readonly string[]> {
  const request = `wget -q -T 2 -O - http://${address}/cgi-bin/client`;
  const loop = `for i in $(seq ${REQUESTS}); do ${request}; done`;
  const output = await cluster.kubectl("exec", name, "--", "sh", "-c", loop);
  return [...new Set(output.trim().split("\n"))].toSorted();
}

/** Gives the network namespace an address of the node, and a default route that ends in the namespace itself. */
async function connectNode(): Promise<void> {
  const ip = (command: string) => execa("ip", command.split(" "));
  await ip("link set lo up");
  await ip("link add uplink type veth peer name uplink-end");
  await ip(`address add ${nodeAddress}/24 dev uplink`);
  for (const link of ["uplink", "uplink-end"]) await ip(`link set ${link} up`);
  await ip("route add default via 192.0.2.2 dev uplink");
}

async function startNode(): Promise<void> {
  await connectNode();
  cluster = await startClusterNode();
  await cluster.node.agent.stop();
  networks = await prepareNetworks(cluster.node, cluster.node.paths.cniCache);
  expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
  await networks.useConfDir(networks.delegateDir);
  await cluster.node.startAgent({}, ["--network=builtin", "--network-delegate-dir", networks.delegateDir]);
  hostPort = await freePort();
}

async function tearDown(): Promise<void> {
  try {
    await cluster.kubectl("delete", "pods", "--all", "--timeout=60s");
    await cluster.waitUntilEmpty();
    expect(await readdir(reservations).catch(ifAbsent([]))).toEqual([]);
    expect(await networks.berthCni("uninstall")).toMatchObject({ exitCode: 0 });
  } finally {
    await cluster.tearDown();
  }
}

/** Why kube-proxy cannot lead a pod to another one in this mode here. */
function findProxyProblem(mode: ProxyMode): string | undefined {
  if (!existsSync("/proc/sys/net/bridge/bridge-nf-call-iptables")) return "br_netfilter is not loaded";
  return mode === "iptables" && Bun.which("iptables") === null ? "iptables is not installed" : undefined;
}

function registerMode(mode: ProxyMode): void {
  const problem = findProxyProblem(mode);
  if (problem !== undefined) {
    console.warn(`skipped: Services of kube-proxy in the mode ${mode}, since ${problem}`);
    test.skip(problem, () => {});
    return;
  }
  let proxy: KubeProxy;
  let clusterIP = "";
  beforeAll(async () => {
    clusterIP = await cluster.kubectl("get", "service", "web", "--output=jsonpath={.spec.clusterIP}");
    const isServed = () =>
      sendRequest(`http://${clusterIP}/cgi-bin/client`).then(
        ({ status }) => status === 200,
        () => false,
      );
    // No rule of an earlier kube-proxy answers instead.
    expect(await isServed()).toBe(false);
    proxy = await startKubeProxy(cluster, mode);
    expect(await proxy.mode()).toBe(mode);
    await pollUntil("an answer of the Service", 20_000, isServed);
  });
  afterAll(() => proxy.stop());

  test("a pod reaches both pods of a Service with its own address", async () => {
    const client = await addressOf("client");
    expect(await answersToPod("client", clusterIP)).toEqual([`web-1 ${client}`, `web-2 ${client}`]);
  });

  test("a pod reaches itself through its Service", async () => {
    expect(await answersToPod("web-1", clusterIP)).toEqual([`web-1 ${gateway}`, `web-2 ${await addressOf("web-1")}`]);
  });

  test("the host reaches both pods of a Service", async () => {
    expect(await answersToHost(clusterIP)).toEqual([`web-1 ${gateway}`, `web-2 ${gateway}`]);
  });

  test("a host port answers at 127.0.0.1 and at the node's address", async () => {
    expect(await answersToHost(`127.0.0.1:${hostPort}`)).toEqual([`web-1 ${gateway}`]);
    expect(await answersToHost(`${nodeAddress}:${hostPort}`)).toEqual([`web-1 ${nodeAddress}`]);
  });
}

function registerAll(): void {
  if (skip !== undefined) {
    test.skip(skip, () => {});
    return;
  }
  beforeAll(startNode, 180_000);
  afterAll(tearDown);

  test("without a pod CIDR the network is not ready, and a pod waits for it", async () => {
    const ready = await pollUntil("a node whose network is not ready", 30_000, async () => {
      const { status } = JSON.parse(await cluster.kubectl("get", "node", cluster.node.name, "--output=json")) as Node;
      return status?.conditions?.find(({ message }) => message?.includes("NetworkReady=false"));
    });
    expect(ready).toMatchObject({ status: "False", reason: "KubeletNotReady", message: notReady });
    await cluster.apply([webPod("web-1", { hostPort })]);
    const selector = "--field-selector=reason=NetworkNotReady,involvedObject.name=web-1";
    const event = await pollUntil("the event", 30_000, async () => {
      const text = await cluster.kubectl("get", "events", selector, "--output=jsonpath={.items[*].message}");
      return text !== "" && text;
    });
    expect(event).toBe(`network is not ready: ${notReady}`);
    expect(await cluster.node.sandboxes()).toEqual([]);
  });

  test("with a pod CIDR each pod gets an address of it, and reaches the others, as the host does", async () => {
    const patch = JSON.stringify({ spec: { podCIDR, podCIDRs: [podCIDR] } });
    await cluster.kubectl("patch", "node", cluster.node.name, "--type=merge", `--patch=${patch}`);
    await cluster.kubectl("wait", "--for=condition=Ready", `node/${cluster.node.name}`, "--timeout=30s");
    await cluster.apply([webPod("web-2"), barePod("client"), service]);
    const [first, second, client] = await Promise.all(["web-1", "web-2", "client"].map(addressOf));
    for (const address of [first, second, client]) expect(address).toMatch(/^10\.99\.7\.\d+$/);
    expect(new Set([first, second, client, gateway]).size).toBe(4);
    expect(await answersToPod("client", `${first}:8080`)).toEqual([`web-1 ${client}`]);
    expect(await answersToPod("web-1", `${second}:8080`)).toEqual([`web-2 ${first}`]);
    expect(await answersToHost(`${second}:8080`)).toEqual([`web-2 ${gateway}`]);
  });

  describe.each(proxyModes)("with kube-proxy in the mode %s", registerMode);
}

inNetworkNamespace(import.meta.path, what, registerAll, skip === undefined ? prepareKubeProxy : undefined);
