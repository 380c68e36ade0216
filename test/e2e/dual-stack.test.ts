import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import { cniConflist } from "../bed/containerd/containerd-config.ts";
import { webImage } from "../bed/images/images.ts";
import { podOf, script } from "./manifest.ts";
import { containerId, startNodeWithoutAgent, type TestNode, waitForOutput } from "./node.ts";

setDefaultTimeout(60_000);

let node: TestNode;
/** The addresses of the bridge, which the pods share: the node's addresses of both families. */
let [ipv4, ipv6] = ["", ""];
beforeAll(async () => {
  node = await startNodeWithoutAgent();
  const { bridge, subnet, record } = node.containerd;
  ipv4 = subnet.replace("0/24", "1");
  ipv6 = `fd00:${record.id.slice(0, 4)}:${record.id.slice(4)}::1`;
  // The test makes the bridge: as a gateway, the plugin would switch on the machine's IPv6 forwarding.
  const ip = (...args: readonly string[]) => execa("ip", args, ownProcessGroup);
  await ip("link", "add", bridge, "type", "bridge");
  await ip("address", "add", `${ipv4}/24`, "dev", bridge);
  await ip("-6", "address", "add", `${ipv6}/64`, "dev", bridge, "nodad");
  await ip("link", "set", bridge, "up");
  const network = { name: record.network, bridge, subnet, leases: node.paths.cniLeases };
  const config = JSON.parse(cniConflist(network));
  const [plugin] = config.plugins;
  plugin.isGateway = false;
  plugin.ipam.ranges = [[{ subnet }], [{ subnet: `${ipv6.replace(/1$/, "")}/64` }]];
  await writeFile(join(node.paths.cniConfDir, "10-berth.conflist"), JSON.stringify(config));
  await node.containerd.restart();
  await node.startAgent({}, ["--node-ip", `${ipv4},${ipv6}`]);
});
afterAll(() => node.tearDown());

const ips = (all: readonly string[]) => all.map((ip) => ({ ip }));

test("a pod has an address of each family, that of the node's family first, and probes go to the first one", async () => {
  // The server listens on the IPv6 address only.
  const serve = 'cat /etc/hosts; echo "IPS=$IPS"; exec httpd -f -p "[$(echo $IPS | cut -d, -f2)]:8080" -h /www';
  const container = {
    image: webImage,
    command: script(serve),
    env: [{ name: "IPS", valueFrom: { fieldRef: { fieldPath: "status.podIPs" } } }],
    readinessProbe: { httpGet: { port: 8080 }, periodSeconds: 1, failureThreshold: 1 },
  };
  await node.putManifest(podOf("dual", container));
  const refused = /^main is not ready: Readiness probe failed: Get "http:\/\/10\.[\d.]+:8080\/": .*refused/;
  const pod = await node.waitForPod("dual", "it is not reached by IPv4", ({ message }) => refused.test(message));
  const [podIPv4, podIPv6] = [ipv4.replace(/1$/, "2"), ipv6.replace(/1$/, "2")];
  expect(pod.status).toMatchObject({ podIP: podIPv4, podIPs: ips([podIPv4, podIPv6]) });
  expect(pod.status).toMatchObject({ hostIP: ipv4, hostIPs: ips([ipv4, ipv6]) });
  for (const line of [`${podIPv4}\tdual-berth`, `${podIPv6}\tdual-berth`, `IPS=${podIPv4},${podIPv6}`])
    await waitForOutput(node, pod, line);

  await node.agent.stop();
  await node.startAgent({}, ["--node-ip", ipv6]);
  const same = await node.waitForPod("dual", "it is reached by IPv6", ({ ready }) => ready === "1/1");
  expect(same.status).toMatchObject({ podIP: podIPv6, podIPs: ips([podIPv6, podIPv4]), hostIPs: ips([ipv6]) });
  expect([containerId(same), same.restarts]).toEqual([containerId(pod), 0]);
});
