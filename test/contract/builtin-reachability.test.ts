import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseIp } from "../../host/ip-address.ts";
import { change, flushChain } from "../../host/netlink/nftables.ts";
import { isLocalAddress } from "../../host/netlink/routes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type Conf, connectMachine, createNode } from "./builtin-fixture.ts";
import { askTcp, createUdpClient, NO_ANSWER, serveTcp, serveUdp } from "./network-connections.ts";
import { outputIn, type TestNamespace, writeSysctl } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: reachability of the built-in network, since only root may make network namespaces");

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 5353, containerPort: 53, protocol: "udp" },
  { hostPort: 9090, containerPort: 80, protocol: "tcp", hostIP: "192.0.2.1" },
];

let node: ReturnType<typeof createNode>;
let machine: TestNamespace;
let server: Awaited<ReturnType<typeof node.addPod>>;
let client: Awaited<ReturnType<typeof node.addPod>>;
const servers: { close(): void }[] = [];

/** Adds a pod, and waits for the kernel, which finishes an address of IPv6 by itself a moment later. */
async function addPod(name: string, change: Conf = {}) {
  const pod = await node.addPod(name, change);
  const inside = node.openIn(pod.namespace);
  const address = parseIp(pod.ipv6) ?? new Uint8Array(16);
  await pollUntil(`${pod.ipv6} is usable`, 5000, () => isLocalAddress(inside, address));
  return pod;
}

beforeAll(async () => {
  if (!isRoot) return;
  node = createNode();
  machine = connectMachine(node);
  server = await addPod("c1", { runtimeConfig: { portMappings } });
  client = await addPod("c2");
  // The node answers at a port of its own, so that a host port that leads to the node instead of the pod is seen.
  for (const [namespace, port] of [
    [server.namespace, 80],
    [node.namespace, 70],
    [machine, 60],
  ] as const)
    servers.push(serveTcp(namespace, "::", port));
  servers.push(await serveUdp(server.namespace, "::", 53));
  servers.push(serveTcp(node.namespace, "127.0.0.1", 9999));
  // A program of the node at the address at which no host port can be.
  servers.push(serveTcp(node.namespace, "::1", 8080));
});

afterAll(() => {
  for (const each of servers) each.close();
  if (isRoot) node.close();
});

/** From, to, port, and the address that the server sees as the client's; undefined for no answer. */
type Row = readonly [string, () => TestNamespace, () => string, number, () => string | undefined];
const ofPod = (pod: "server" | "client", family: "ipv4" | "ipv6") => () => (pod === "server" ? server : client)[family];
const inPod = (pod: "server" | "client") => () => (pod === "server" ? server : client).namespace;
const inNode = () => node.namespace;
const inMachine = () => machine;

describe.skipIf(!isRoot)("a connection by TCP", () => {
  test.each<Row>([
    ["from pod to pod", inPod("client"), ofPod("server", "ipv4"), 80, ofPod("client", "ipv4")],
    ["from pod to pod by IPv6", inPod("client"), ofPod("server", "ipv6"), 80, ofPod("client", "ipv6")],
    ["from a pod to itself", inPod("server"), ofPod("server", "ipv4"), 80, ofPod("server", "ipv4")],
    ["from a pod to the node", inPod("client"), () => "10.88.0.1", 70, ofPod("client", "ipv4")],
    ["from a pod to the node's address elsewhere", inPod("client"), () => "192.0.2.1", 70, ofPod("client", "ipv4")],
    ["from a pod to the node by IPv6", inPod("client"), () => "fd00:88::1", 70, ofPod("client", "ipv6")],
    ["from the node to a pod", inNode, ofPod("server", "ipv4"), 80, () => "10.88.0.1"],
    ["from the node to a pod by IPv6", inNode, ofPod("server", "ipv6"), 80, () => "fd00:88::1"],
    [
      "from a pod to another machine, with the node's address",
      inPod("client"),
      () => "192.0.2.2",
      60,
      () => "192.0.2.1",
    ],
    ["from a pod to another machine by IPv6", inPod("client"), () => "fd02::2", 60, () => "fd02::1"],
    [
      "from another machine to a pod, to which it has no route",
      inMachine,
      ofPod("server", "ipv4"),
      80,
      () => undefined,
    ],

    ["from another machine to a host port", inMachine, () => "192.0.2.1", 8080, () => "192.0.2.2"],
    ["from another machine to a host port by IPv6", inMachine, () => "fd02::1", 8080, () => "fd02::2"],
    ["from the node to a host port at 127.0.0.1", inNode, () => "127.0.0.1", 8080, () => "10.88.0.1"],
    ["from the node to a host port at its own address", inNode, () => "192.0.2.1", 8080, () => "192.0.2.1"],
    ["from the node to a host port at the gateway", inNode, () => "10.88.0.1", 8080, () => "10.88.0.1"],
    ["from the node to a host port at its address of IPv6", inNode, () => "fd02::1", 8080, () => "fd02::1"],
    ["from the node to its own program at ::1, which is no host port", inNode, () => "::1", 8080, () => "::1"],
    ["from another pod to a host port", inPod("client"), () => "192.0.2.1", 8080, () => "10.88.0.1"],
    ["from another pod to a host port at the gateway", inPod("client"), () => "10.88.0.1", 8080, () => "10.88.0.1"],
    ["from another pod to a host port by IPv6", inPod("client"), () => "fd02::1", 8080, () => "fd00:88::1"],
    ["from the pod itself to its host port", inPod("server"), () => "192.0.2.1", 8080, () => "10.88.0.1"],
    ["from the pod itself to its host port by IPv6", inPod("server"), () => "fd02::1", 8080, () => "fd00:88::1"],
    ["to a host port of one address", inMachine, () => "192.0.2.1", 9090, () => "192.0.2.2"],
    ["to a host port of one address, at another one", inNode, () => "10.88.0.1", 9090, () => undefined],
    [
      "to a host port of another machine, which is none of ours",
      inPod("client"),
      () => "192.0.2.2",
      8080,
      () => undefined,
    ],
  ])("%s", async (_name, from, to, port, seen) => {
    const namespace = from();
    expect(await askTcp(namespace, to(), port, seen() !== undefined)).toBe(seen() ?? NO_ANSWER);
  });
});

const bridgeFilter = "bridge/bridge-nf-call-iptables";
const hasBridgeFilter = existsSync(join("/proc/sys/net", bridgeFilter));
if (!hasBridgeFilter) console.warn("skipped: services, since br_netfilter is not loaded, which kube-proxy needs too");

test.skipIf(!isRoot || !hasBridgeFilter)(
  "a service that another program leads to a pod shows the client's own address",
  async () => {
    node.namespace.run(() => writeSysctl(bridgeFilter, "1"));
    // As kube-proxy does.
    const service = ["-d", "10.96.0.1", "-p", "tcp", "--dport", "80"];
    const target = ["-j", "DNAT", "--to-destination", `${server.ipv4}:80`];
    outputIn(node.namespace, "iptables", "-t", "nat", "-A", "PREROUTING", ...service, ...target);
    expect(await askTcp(client.namespace, "10.96.0.1", 80, true)).toBe(client.ipv4);
  },
);

describe.skipIf(!isRoot)("a datagram by UDP", () => {
  test.each<Row>([
    ["from another machine to a host port", inMachine, () => "192.0.2.1", 5353, () => "192.0.2.2"],
    ["from another machine to a host port by IPv6", inMachine, () => "fd02::1", 5353, () => "fd02::2"],
    ["from the node to a host port at 127.0.0.1", inNode, () => "127.0.0.1", 5353, () => "10.88.0.1"],
    ["from the pod itself to its host port", inPod("server"), () => "192.0.2.1", 5353, () => "10.88.0.1"],
  ])("%s", async (_name, from, to, port, seen) => {
    const udp = await createUdpClient(from(), to().includes(":") ? 6 : 4);
    servers.push(udp);
    expect(await udp.ask(to(), port, seen() !== undefined)).toBe(seen() ?? NO_ANSWER);
  });

  test.each<[4 | 6, string]>([
    [4, "192.0.2.1"],
    [6, "fd02::1"],
  ])(
    "of a client that sends all the time reaches the pod that has the host port now (IPv%d)",
    async (family, address) => {
      const change = { runtimeConfig: { portMappings: [{ hostPort: 5400, containerPort: 53, protocol: "udp" }] } };
      const udp = await createUdpClient(machine, family);
      servers.push(udp);
      expect(await udp.ask(address, 5400, false)).toBe(NO_ANSWER);
      for (const name of [`first-${family}`, `second-${family}`]) {
        const pod = await node.addPod(name, change);
        servers.push(await serveUdp(pod.namespace, "::", 53, name));
        expect(await udp.ask(address, 5400, true)).toBe(name);
        await node.call("DEL", pod.id);
      }
      expect(await udp.ask(address, 5400, false)).toBe(NO_ANSWER);
    },
  );
});

describe.skipIf(!isRoot)("a service of the node that listens on 127.0.0.1 alone (CVE-2020-8558)", () => {
  /** Sends packets for 127.0.0.1 to the node, as an attacker does. */
  const route = (from: TestNamespace, gateway: string) => {
    from.run(() => {
      writeSysctl("ipv4/conf/eth0/route_localnet", "1");
      writeSysctl("ipv4/conf/all/route_localnet", "1");
    });
    outputIn(from, "ip", "rule", "add", "pref", "1", "to", "127.0.0.1", "lookup", "100");
    outputIn(from, "ip", "rule", "del", "pref", "0");
    outputIn(from, "ip", "rule", "add", "pref", "2", "lookup", "local");
    outputIn(from, "ip", "route", "add", "127.0.0.1/32", "via", gateway, "dev", "eth0", "table", "100");
  };

  test("is not reached from a pod, nor from another machine; without the guard it would be", async () => {
    route(client.namespace, "10.88.0.1");
    route(machine, "192.0.2.1");
    expect(await askTcp(node.namespace, "127.0.0.1", 9999, true)).toBe("127.0.0.1");
    expect(await askTcp(client.namespace, "127.0.0.1", 9999, false)).toBe(NO_ANSWER);
    expect(await askTcp(machine, "127.0.0.1", 9999, false)).toBe(NO_ANSWER);
    change(node.netfilter, [flushChain("berth", "guard")]);
    expect(await askTcp(client.namespace, "127.0.0.1", 9999, true)).toBe("10.88.0.3");
    expect(await askTcp(machine, "127.0.0.1", 9999, false)).toBe(NO_ANSWER);
  });
});
