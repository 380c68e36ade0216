import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { busyboxImage, webImage } from "../bed/images/images.ts";
import { addressEnv, type DualStackNetwork, ips, makeDualStackBridge, printAddresses } from "./dual-stack-network.ts";
import { serveHealth } from "./health-server.ts";
import { podOf, script, upIgnoringSigterm } from "./manifest.ts";
import { containerId, linesContaining, startNodeWithoutAgent, type TestNode, waitForOutput } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
let network: DualStackNetwork;
/** The addresses of the bridge, which the pods share: the node's addresses of both families. */
let [ipv4, ipv6] = ["", ""];
beforeAll(async () => {
  node = await startNodeWithoutAgent();
  network = await makeDualStackBridge(node);
  ({ ipv4, ipv6 } = network);
});
afterAll(() => node.tearDown());

test("a pod has an address of each family, that of the node's family first, and probes go to the first one", async () => {
  await network.use([network.range4, network.range6], "0.0.0.0/0");
  await node.startAgent({}, ["--node-ip", `${ipv4},${ipv6}`]);
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
  const { podIPv4, podIPv6 } = network;
  expect(pod.status).toMatchObject({ podIP: podIPv4, podIPs: ips([podIPv4, podIPv6]) });
  expect(pod.status).toMatchObject({ hostIP: ipv4, hostIPs: ips([ipv4, ipv6]) });
  for (const line of [`${podIPv4}\tdual-berth`, `${podIPv6}\tdual-berth`, `IPS=${podIPv4},${podIPv6}`])
    await waitForOutput(node, pod, line);

  await node.agent.stop();
  await node.startAgent({}, ["--node-ip", ipv6]);
  const same = await node.waitForPod("dual", "it is reached by IPv6", ({ ready }) => ready === "1/1");
  expect(same.status).toMatchObject({ podIP: podIPv6, podIPs: ips([podIPv6, podIPv4]), hostIPs: ips([ipv6]) });
  expect([containerId(same), same.restarts]).toEqual([containerId(pod), 0]);
  await node.removeFile("dual.yaml");
  await node.waitUntilEmpty();
  await node.agent.stop();
});

/** Tolerates a busy machine, which starts a server late and answers slowly. */
const tolerant = { periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 60 };

/** Writes to the log of the container, since nothing else shows that a command has succeeded. */
const reachByCommand = 'wget -q -O - "http://[$podIP]:8080/" && echo "reached by command" > /proc/1/fd/1';

test("on a node with IPv6 only a pod has one address, and probes by HTTP, TCP and command and hooks reach it", async () => {
  await network.use([network.range6], "::/0");
  await node.startAgent({}, ["--node-ip", ipv6]);
  const container = {
    image: webImage,
    // It serves once the test has seen that it does not.
    command: script(
      `${printAddresses}; until test -e /notes/serve; do sleep 0.1; done; exec httpd -f -vv -p "[$podIP]:8080" -h /www`,
    ),
    volumeMounts: [{ name: "notes", mountPath: "/notes" }],
    env: addressEnv,
    startupProbe: { ...tolerant, tcpSocket: { port: 8080 } },
    readinessProbe: { ...tolerant, httpGet: { port: 8080 } },
    livenessProbe: { ...tolerant, exec: { command: ["sh", "-c", reachByCommand] } },
    // Only the hook requests this path.
    lifecycle: { preStop: { httpGet: { port: 8080, path: "/index.html" } } },
  };
  const [main] = podOf("six", container).spec.containers;
  // Keeps the pod and its logs until the grace period ends.
  const keeper = { name: "keeper", image: busyboxImage, command: upIgnoringSigterm };
  const volumes = [{ name: "notes", hostPath: { path: node.folder } }];
  await node.putManifest(podOf("six", {}, { containers: [main!, keeper], volumes }));
  const refused = /^main .*Startup probe failed: dial tcp \[fd00:[\da-f:]+\]:8080: connect: connection refused/;
  await node.waitForPod("six", "it says which address refuses", ({ message }) => refused.test(message));
  await writeFile(join(node.folder, "serve"), "");
  const [pod] = await node.waitUntilRunning("six");
  const podIP = pod?.ip ?? "";
  expect(podIP).toStartWith(ipv6.replace(/1$/, ""));
  expect(pod?.status).toMatchObject({ podIP, podIPs: ips([podIP]), hostIP: ipv6, hostIPs: ips([ipv6]) });
  for (const line of [`${podIP}\tsix-berth`, `${podIP} ${podIP} ${ipv6} ${ipv6}`])
    await waitForOutput(node, pod!, line);
  await waitForOutput(node, pod!, "reached by command");
  await waitForOutput(node, pod!, "up", "keeper");
  await node.removeFile("six.yaml");
  await waitForOutput(node, pod!, "url:/index.html");
  await node.waitUntilEmpty();
  expect(linesContaining(await node.log(), "six-berth").filter((line) => / (warn|error) /.test(line))).toEqual([]);
});

test("a pod with host networking has the node's IPv6 address, and a gRPC probe reaches it there", async () => {
  const health = await serveHealth(`[${ipv6}]`, () => true);
  try {
    const container = {
      command: script(`${printAddresses}; exec sleep 1000000`),
      env: addressEnv,
      readinessProbe: { ...tolerant, grpc: { port: health.port } },
    };
    await node.putManifest(podOf("host", container, { hostNetwork: true }));
    const [pod] = await node.waitUntilRunning("host");
    expect(pod?.status).toMatchObject({ podIP: ipv6, podIPs: ips([ipv6]), hostIP: ipv6, hostIPs: ips([ipv6]) });
    await waitForOutput(node, pod!, `${ipv6} ${ipv6} ${ipv6} ${ipv6}`);
  } finally {
    health.end();
  }
});
