import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodes, pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { webImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { addressEnv, type DualStackNetwork, ips, makeDualStackBridge, printAddresses } from "../dual-stack-network.ts";
import { script } from "../manifest.ts";
import { startNodeWithoutAgent, type TestNode } from "../node.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("a dual-stack cluster");
const nodeName = "node-a";
/** Its IPv4 range is that of the other tests. */
const serviceRanges = "10.191.0.0/24,fd00:10:191::/112";

/** Serves at both addresses, and prints what it sees of them. */
const web = barePod("dual", {
  image: webImage,
  command: script(`${printAddresses}; echo "service $WEB_SERVICE_HOST"; exec httpd -f -p "[::]:8080" -h /www`),
  env: addressEnv,
  readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1, timeoutSeconds: 30 },
});
const service = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web" },
  spec: { selector: { app: "dual" }, ipFamilyPolicy: "RequireDualStack", ports: [{ port: 80, targetPort: 8080 }] },
};
const host = barePod(
  "host",
  { command: script(`${printAddresses}; exec sleep 1000000`), env: addressEnv },
  { hostNetwork: true },
);

describe.skipIf(skip !== undefined)("a dual-stack cluster", () => {
  let folder = "";
  let plane: ControlPlane;
  let kube: ReturnType<typeof createAdminClient>;
  let node: TestNode;
  let network: DualStackNetwork;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-dual-stack-"));
    const flags = { "kube-apiserver": [`--service-cluster-ip-range=${serviceRanges}`] };
    plane = await startControlPlane({ stateDir: folder, print: console.log, flags });
    kube = createAdminClient(plane, "dual-stack");
    const kubeconfig = await plane.nodeKubeconfig(nodeName);
    node = await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } });
    network = await makeDualStackBridge(node);
    await network.use([network.range4, network.range6], "0.0.0.0/0");
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await node?.tearDown();
    kube?.close();
    await plane?.stop();
    await rm(folder, { recursive: true });
  });

  const apply = (items: readonly object[]) =>
    plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) });
  const jsonPath = (kind: string, path: string, ...args: readonly string[]) =>
    plane.kubectl(["get", kind, ...args, "--output", `jsonpath=${path}`]);

  /** Waits until the pod is ready and meets `condition`. */
  const waitForPod = (name: string, what: string, condition: (pod: Pod) => boolean = () => true) =>
    pollUntil(`the pod ${name}: ${what}`, 60_000, async () => {
      // The pod may not exist yet; the timeout reports a failure that lasts.
      const pod = await kube.get(pods("default"), name).catch(() => undefined);
      return pod !== undefined && areContainersReady(pod) && condition(pod) && pod;
    });
  /** Waits until the node has these addresses in this order: it is reported on its own, not together with the pods. */
  const waitForInternalIPs = (...expected: readonly string[]) =>
    pollUntil(`the addresses ${expected.join()} of the node`, 60_000, async () => {
      const { status } = await kube.get(nodes, nodeName);
      const internal = status?.addresses?.filter(({ type }) => type === "InternalIP") ?? [];
      return internal.map(({ address }) => address).join() === expected.join();
    });
  /** The addresses of the Service's ready endpoints, by family. */
  const endpoints = () =>
    jsonPath(
      "endpointslices",
      '{range .items[*]}{.addressType} {range .endpoints[?(@.conditions.ready==true)]}{.addresses[0]}{end}{"\\n"}{end}',
      "--selector=kubernetes.io/service-name=web",
    );

  test("shows both addresses of a pod and of its node, that of the node's first family first", async () => {
    const { ipv4, ipv6, podIPv4, podIPv6 } = network;
    await apply([service]);
    await node.startAgent({}, ["--node-ip", `${ipv4},${ipv6}`]);
    await apply([web]);
    const { status } = await waitForPod("dual", "it is ready");
    await waitForInternalIPs(ipv4, ipv6);
    expect(status).toMatchObject({ podIP: podIPv4, podIPs: ips([podIPv4, podIPv6]) });
    expect(status).toMatchObject({ hostIP: ipv4, hostIPs: ips([ipv4, ipv6]) });
    const log = await plane.kubectl(["logs", "dual"]);
    const [clusterIP = "", other = ""] = JSON.parse(await jsonPath("service", "{.spec.clusterIPs}", "web"));
    expect(other).toStartWith("fd00:10:191::");
    for (const line of [
      `${podIPv4}\tdual`,
      `${podIPv6}\tdual`,
      `${podIPv4} ${podIPv4},${podIPv6} ${ipv4} ${ipv4},${ipv6}`,
      `service ${clusterIP}`,
    ])
      expect(log.split("\n")).toContain(line);
    const both = `IPv4 ${podIPv4}\nIPv6 ${podIPv6}`;
    const areBoth = async () => (await endpoints()).trim().split("\n").toSorted().join("\n") === both;
    await pollUntil("an endpoint of each family", 60_000, areBoth);
  });

  test("after a change of the node's first family the order changes in the API, and no container restarts", async () => {
    const { ipv4, ipv6, podIPv4, podIPv6 } = network;
    const before = await waitForPod("dual", "it is ready");
    await node.agent.stop();
    await node.startAgent({}, ["--node-ip", `${ipv6},${ipv4}`]);
    const { status } = await waitForPod(
      "dual",
      "its IPv6 address is the first",
      (pod) => pod.status?.podIP === podIPv6,
    );
    expect(status).toMatchObject({ podIPs: ips([podIPv6, podIPv4]), hostIP: ipv6, hostIPs: ips([ipv6, ipv4]) });
    expect(status?.containerStatuses).toEqual(before.status?.containerStatuses);
    await waitForInternalIPs(ipv6, ipv4);
    await apply([host]);
    const ofHost = await waitForPod("host", "it is ready");
    expect(ofHost.status).toMatchObject({ podIP: ipv6, podIPs: ips([ipv6, ipv4]), hostIPs: ips([ipv6, ipv4]) });
    const log = await plane.kubectl(["logs", "host"]);
    expect(log.split("\n")).toContain(`${ipv6} ${ipv6},${ipv4} ${ipv6} ${ipv6},${ipv4}`);
  });
});
