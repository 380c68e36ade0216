// Pods with more than one network, as the agent executes them on containerd: definitions of a real API server, a plugin of
// CNI's project and the built-in network, and their end while the agent is away.
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { ifAbsent } from "../../bed/if-absent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { inNetworkNamespace } from "../../contract/own-namespace.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";
import { podOf } from "../manifest.ts";
import { type NetworkNode, prepareNetworks } from "../network-node.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const role = join(import.meta.dirname, "../../../deploy/network-attachment-definitions.yaml");
const networksAnnotation = "k8s.v1.cni.cncf.io/networks";
const statusAnnotation = "k8s.v1.cni.cncf.io/network-status";
const builtinRecords = "/run/berth/network/store";
const skip = skipWithoutPrograms("pods with more than one network");

let cluster: ClusterNode;
let networks: NetworkNode;

const group = "k8s.cni.cncf.io";
const names = {
  plural: "network-attachment-definitions",
  singular: "network-attachment-definition",
  kind: "NetworkAttachmentDefinition",
};
const schema = {
  openAPIV3Schema: {
    type: "object",
    properties: { spec: { type: "object", properties: { config: { type: "string" } } } },
  },
};
const resource: Manifest = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: `${names.plural}.${group}` },
  spec: { group, scope: "Namespaced", names, versions: [{ name: "v1", served: true, storage: true, schema }] },
};

function definition(name: string, config: object): Manifest {
  const kind = "NetworkAttachmentDefinition";
  return { apiVersion: `${group}/v1`, kind, metadata: { name }, spec: { config: JSON.stringify(config) } };
}

/** A pod whose container prints the interfaces and the default routes that it has at its start. */
function podWith(name: string, selected: string): Manifest {
  const pod = barePod(name, {
    command: ["sh", "-c", "echo $(ls /sys/class/net) $(ip route | grep ^default); exec sleep 1000"],
  });
  return { ...pod, metadata: { ...pod.metadata, annotations: { [networksAnnotation]: selected } } } as Manifest;
}

const startOwner = () =>
  cluster.node.startAgent({}, ["--network-owner=agent", "--network-delegate-dir", networks.delegateDir, "-v=4"]);
const startPod = async (name: string) =>
  (await cluster.waitForPods("it is up", name, ([pod]) => areContainersReady(pod)))[0]!;

async function outputOf({ metadata: { namespace, name, uid } }: Pod): Promise<string> {
  const file = join(cluster.node.paths.podLogs, `${namespace}_${name}_${uid}`, "main/0.log");
  return await pollUntil(`the output of ${name}`, 10_000, async () => {
    const text = await Bun.file(file).text().catch(ifAbsent(""));
    return / F (.*)\n/.exec(text)?.[1];
  });
}

/** What is left of the two secondary networks. */
async function secondaryRemains() {
  const namesIn = async (path: string) =>
    (await readdir(path).catch(ifAbsent([]))).filter((name) => /^10\.22[34]\./.test(name));
  const cached = (await readdir(join(cluster.node.paths.cniCache, "results"))).filter((name) =>
    /^(lan|store)-/.test(name),
  );
  const { stdout } = await execa("ip", ["-json", "link", "show"]);
  const links = (JSON.parse(stdout) as readonly { readonly master?: string }[]).filter(
    ({ master }) => master === "lan0" || master === "store0",
  );
  return [
    ...(await namesIn(join(cluster.node.folder, "lan-leases/lan"))),
    ...(await namesIn(join(builtinRecords, "addresses"))),
    ...cached,
    ...links.map(() => "a port of a bridge"),
  ];
}

inNetworkNamespace(import.meta.path, "pods with more than one network", () => {
  if (skip !== undefined) {
    test.skip(skip, () => {});
    return;
  }
  beforeAll(async () => {
    await execa("ip", ["link", "set", "lo", "up"]);
    cluster = await startClusterNode();
    await cluster.node.agent.stop();
    networks = await prepareNetworks(cluster.node, cluster.node.paths.cniCache);
    await networks.useChain();
    expect(await networks.berthCni("install")).toMatchObject({ exitCode: 0 });
    await networks.useConfDir(networks.delegateDir);
    await startOwner();
    await cluster.apply([resource]);
    await cluster.kubectl("wait", "--for=condition=Established", `crd/${resource.metadata.name}`, "--timeout=180s");
    const ipam = { type: "host-local", subnet: "10.223.5.0/24", dataDir: join(cluster.node.folder, "lan-leases") };
    const capabilities = { mac: true };
    await cluster.apply([
      definition("lan", { cniVersion: "1.0.0", type: "bridge", bridge: "lan0", capabilities, ipam }),
      definition("store", {
        cniVersion: "1.1.0",
        type: "berth",
        bridge: "store0",
        isDefaultGateway: false,
        ranges: [[{ subnet: "10.224.5.0/24" }]],
      }),
    ]);
  }, 600_000);
  afterAll(async () => {
    expect(await networks.berthCni("uninstall")).toMatchObject({ exitCode: 0 });
    await execa("ip", ["link", "del", "lan0"]);
    await cluster.tearDown();
  });

  afterEach(async () => {
    await cluster.kubectl("delete", "pods", "--all", "--timeout=180s");
    await cluster.waitUntilEmpty();
    expect(await secondaryRemains()).toEqual([]);
    expect(await networks.remains()).toMatchObject({ links: [], leases: [], cached: [] });
  });

  test("without the ClusterRole the pod's event names it, and with it the pod starts", async () => {
    await cluster.apply([
      podWith("both", '[{"name":"lan","mac":"02:00:00:00:00:07"},{"name":"store","interface":"st0"}]'),
    ]);
    const event = await pollUntil("the event", 30_000, async () => {
      const text = await cluster.kubectl(
        "get",
        "events",
        "--field-selector=reason=FailedCreatePodSandBox",
        "--output=jsonpath={.items[*].message}",
      );
      return text.includes("ClusterRole") && text;
    });
    expect(event).toContain(
      'the pod selects the network default/lan: network-attachment-definitions.k8s.cni.cncf.io "lan" is forbidden',
    );
    expect(event).toContain(
      "the ClusterRole berth:network-attachment-definitions of deploy/network-attachment-definitions.yaml allows it",
    );
    await cluster.kubectl("apply", "--filename", role);
    const pod = await startPod("both");
    const gateway = cluster.node.containerd.subnet.replace("0/24", "1");
    expect(await outputOf(pod)).toBe(`eth0 lo net1 st0 default via ${gateway} dev eth0`);
    const { annotations = {} } = (await cluster.pod("both")).metadata;
    expect(JSON.parse(annotations[statusAnnotation] ?? "")).toEqual([
      expect.objectContaining({ interface: "eth0", ips: [pod.status?.podIP], default: true }),
      {
        ...{ name: "default/lan", interface: "net1", mac: "02:00:00:00:00:07", dns: {} },
        ips: [expect.stringMatching(/^10\.223\.5\.\d+$/)],
      },
      expect.objectContaining({ name: "default/store", ips: [expect.stringMatching(/^10\.224\.5\.\d+$/)] }),
    ]);
  });

  test("a network may get the default route", async () => {
    await cluster.apply([podWith("routed", '[{"name":"store"},{"name":"lan","default-route":["10.223.5.1"]}]')]);
    const pod = await startPod("routed");
    expect(await outputOf(pod)).toBe("eth0 lo net1 net2 default via 10.223.5.1 dev net2");
  });

  test("the mirror pod of a static pod gets the status, and so does the next one after a user has deleted it", async () => {
    const pod = podOf("static");
    const metadata = { name: "static", labels: { app: "static" }, annotations: { [networksAnnotation]: "lan" } };
    await cluster.node.putManifest({ ...pod, metadata });
    const waitForStatus = async (others: readonly (string | undefined)[]) => {
      const [mirror] = await cluster.waitForPods("its mirror pod has the status", "static", ([found]) => {
        const { annotations: own = {}, uid } = found?.metadata ?? {};
        return statusAnnotation in own && !others.includes(uid);
      });
      const status = JSON.parse(mirror?.metadata.annotations?.[statusAnnotation] ?? "");
      expect(status).toMatchObject([
        { interface: "eth0", default: true },
        { name: "default/lan", interface: "net1" },
      ]);
      return mirror?.metadata.uid;
    };
    const uid = await waitForStatus([]);
    await cluster.kubectl("delete", "pods", "--selector=app=static");
    await waitForStatus([uid]);
    await cluster.node.removeFile("static.yaml");
  });

  test("a network that fails takes the others with it", async () => {
    await cluster.apply([
      definition("broken", { cniVersion: "1.0.0", type: "no-such-plugin" }),
      podWith("torn", "lan,broken"),
    ]);
    await pollUntil("the event", 30_000, async () =>
      (await cluster.kubectl("describe", "pod", "torn")).includes(
        "the secondary network default/broken: no-such-plugin: ",
      ),
    );
  });

  test("while the agent is away its networks are deleted without it", async () => {
    await cluster.apply([podWith("away", "lan,store")]);
    await startPod("away");
    expect(await secondaryRemains()).toHaveLength(6);
    await cluster.node.agent.kill9();
    await networks.removeSandboxOf("away");
    expect(await secondaryRemains()).toEqual([]);
    await startOwner();
  });
});
