import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseIp } from "../../host/ip-address.ts";
import { change, flushChain } from "../../host/netlink/nftables.ts";
import { isLocalAddress } from "../../host/netlink/routes.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type Conf, connectMachine, createNode, ipsOf } from "./builtin-fixture.ts";
import { askTcp, createUdpClient, NO_ANSWER, serveTcp, serveUdp } from "./network-connections.ts";
import { outputIn, type TestNamespace, writeSysctl } from "./network-namespaces.ts";
import { addByPrograms, bridgeConf, pluginFolder } from "./plugin-programs.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: reachability of the built-in network, since only root may make network namespaces");

const portMappings = [
  { hostPort: 8080, containerPort: 80, protocol: "tcp" },
  { hostPort: 5353, containerPort: 53, protocol: "udp" },
  { hostPort: 9090, containerPort: 80, protocol: "tcp", hostIP: "192.0.2.1" },
];

type Node = ReturnType<typeof createNode>;

interface Pod {
  readonly namespace: TestNamespace;
  readonly ipv4: string;
  readonly ipv6: string;
}

/** A node with two pods, of which `server` has the host ports, and a machine beside it. */
interface Site {
  readonly node: Node;
  readonly machine: TestNamespace;
  readonly server: Pod;
  readonly client: Pod;
}

/** By what makes the network of its pods. */
const sites = new Map<string, Site>();
const [BUILTIN, CHAIN] = ["the built-in network", "the chain of loopback, bridge, host-local and portmap"] as const;
const siteOf = (network: string): Site => {
  const site = sites.get(network);
  if (site === undefined) throw new Error(`no pods of ${network}`);
  return site;
};
/** What is closed at the end, the last one first. */
const opened: { close(): void }[] = [];

/** Makes both pods and the machine, and starts the servers. */
async function createSite(addPod: (node: Node, name: string, change: Conf) => Promise<Pod>): Promise<Site> {
  const node = createNode();
  opened.push(node);
  const machine = connectMachine(node);
  const add = async (name: string, change: Conf = {}) => {
    const pod = await addPod(node, name, change);
    // The kernel finishes an address of IPv6 by itself a moment later.
    const inside = node.openIn(pod.namespace);
    const address = parseIp(pod.ipv6) ?? new Uint8Array(16);
    await pollUntil(`${pod.ipv6} is usable`, 5000, () => isLocalAddress(inside, address));
    return pod;
  };
  const server = await add("c1", { runtimeConfig: { portMappings } });
  const client = await add("c2");
  // The node answers at a port of its own, so that a host port that leads to the node instead of the pod is seen.
  for (const [namespace, port] of [
    [server.namespace, 80],
    [node.namespace, 70],
    [machine, 60],
  ] as const)
    opened.push(serveTcp(namespace, "::", port));
  opened.push(await serveUdp(server.namespace, "::", 53));
  opened.push(serveTcp(node.namespace, "127.0.0.1", 9999));
  // A program of the node at the address at which no host port can be.
  opened.push(serveTcp(node.namespace, "::1", 8080));
  return { node, machine, server, client };
}

beforeAll(async () => {
  if (!isRoot) return;
  sites.set(BUILTIN, await createSite((node, name, change) => node.addPod(name, change)));
  const binDir = await pluginFolder();
  const addPod = async (node: Node, containerId: string, change: Conf) => {
    const namespace = node.namespaces.create();
    const input = { binDir, node: node.namespace, containerId, netns: namespace.path };
    // As container runtimes do before the chain.
    await addByPrograms({ ...input, ifName: "lo" }, [{ type: "loopback" }]);
    const result = await addByPrograms(input, [bridgeConf(node.folder), { type: "portmap", snat: true, ...change }]);
    const [ipv4 = "", ipv6 = ""] = ipsOf(result);
    return { namespace, ipv4, ipv6 };
  };
  sites.set(CHAIN, await createSite(addPod));
}, 600_000);

afterAll(() => {
  for (const each of opened.toReversed()) each.close();
});

/**
 * From, to, port, and the address that the server sees as the client's; undefined for no answer. The last is what differs with
 * the chain.
 */
type Row = readonly [string, (site: Site) => TestNamespace, (site: Site) => string, number, Answer, Answer?];
type Answer = (site: Site) => string | undefined;
/** As one argument: Bun takes a parameter that a row does not fill for a callback that ends the test. */
const named = (row: Row) => [row[0], row] as const;
const expectedOf = (site: Site, network: string, seen: Answer, seenByChain: Answer = seen) =>
  (network === CHAIN ? seenByChain : seen)(site);
const ofPod =
  (pod: "server" | "client", family: "ipv4" | "ipv6") =>
  (site: Site): string =>
    site[pod][family];
const inPod =
  (pod: "server" | "client") =>
  (site: Site): TestNamespace =>
    site[pod].namespace;
const inNode = ({ node }: Site) => node.namespace;
const inMachine = ({ machine }: Site) => machine;

describe.skipIf(!isRoot).each([BUILTIN, CHAIN])("a connection by TCP in %s", (network) => {
  const rows: readonly Row[] = [
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
    [
      "from the node to its own program at ::1, which is no host port",
      inNode,
      () => "::1",
      8080,
      () => "::1",
      // portmap leads it to the pod, whose answers the kernel does not take back.
      () => undefined,
    ],
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
  ];
  test.each(rows.map(named))("%s", async (_name, [, from, to, port, seen, seenByChain]) => {
    const site = siteOf(network);
    const expected = expectedOf(site, network, seen, seenByChain);
    expect(await askTcp(from(site), to(site), port, expected !== undefined)).toBe(expected ?? NO_ANSWER);
  });
});

const bridgeFilter = "bridge/bridge-nf-call-iptables";
const hasBridgeFilter = existsSync(join("/proc/sys/net", bridgeFilter));
if (!hasBridgeFilter) console.warn("skipped: services, since br_netfilter is not loaded, which kube-proxy needs too");

test.skipIf(!isRoot || !hasBridgeFilter)(
  "a service that another program leads to a pod shows the client's own address",
  async () => {
    const { node, server, client } = siteOf(BUILTIN);
    node.namespace.run(() => writeSysctl(bridgeFilter, "1"));
    // As kube-proxy does.
    const service = ["-d", "10.96.0.1", "-p", "tcp", "--dport", "80"];
    const target = ["-j", "DNAT", "--to-destination", `${server.ipv4}:80`];
    outputIn(node.namespace, "iptables", "-t", "nat", "-A", "PREROUTING", ...service, ...target);
    expect(await askTcp(client.namespace, "10.96.0.1", 80, true)).toBe(client.ipv4);
  },
);

describe.skipIf(!isRoot).each([BUILTIN, CHAIN])("a datagram by UDP in %s", (network) => {
  const rows: readonly Row[] = [
    ["from another machine to a host port", inMachine, () => "192.0.2.1", 5353, () => "192.0.2.2"],
    ["from another machine to a host port by IPv6", inMachine, () => "fd02::1", 5353, () => "fd02::2"],
    ["from the node to a host port at 127.0.0.1", inNode, () => "127.0.0.1", 5353, () => "10.88.0.1"],
    ["from the pod itself to its host port", inPod("server"), () => "192.0.2.1", 5353, () => "10.88.0.1"],
  ];
  test.each(rows.map(named))("%s", async (_name, [, from, to, port, seen, seenByChain]) => {
    const site = siteOf(network);
    const [address, expected] = [to(site), expectedOf(site, network, seen, seenByChain)];
    const udp = await createUdpClient(from(site), address.includes(":") ? 6 : 4);
    opened.push(udp);
    expect(await udp.ask(address, port, expected !== undefined)).toBe(expected ?? NO_ANSWER);
  });
});

describe.skipIf(!isRoot)("a datagram by UDP", () => {
  test.each<[4 | 6, string]>([
    [4, "192.0.2.1"],
    [6, "fd02::1"],
  ])(
    "of a client that sends all the time reaches the pod that has the host port now (IPv%d)",
    async (family, address) => {
      const { node, machine } = siteOf(BUILTIN);
      const change = { runtimeConfig: { portMappings: [{ hostPort: 5400, containerPort: 53, protocol: "udp" }] } };
      const udp = await createUdpClient(machine, family);
      opened.push(udp);
      expect(await udp.ask(address, 5400, false)).toBe(NO_ANSWER);
      for (const name of [`first-${family}`, `second-${family}`]) {
        const pod = await node.addPod(name, change);
        opened.push(await serveUdp(pod.namespace, "::", 53, name));
        expect(await udp.ask(address, 5400, true)).toBe(name);
        await node.call("DEL", pod.id);
      }
      expect(await udp.ask(address, 5400, false)).toBe(NO_ANSWER);
    },
  );
});

describe.skipIf(!isRoot)("a connection by TCP in a network with two subnets of each family", () => {
  let machine: TestNamespace;
  /** One in each subnet. */
  let pods: readonly Pod[];

  beforeAll(async () => {
    const node = createNode();
    opened.push(node);
    machine = connectMachine(node);
    const ranges = ["10.88.0", "fd00:88:"].map((part) =>
      [part, part.replace("88", "99")].map((each) => ({ subnet: each.includes(":") ? `${each}:/64` : `${each}.0/24` })),
    );
    const add = async (name: string, ips: readonly string[]) => {
      const pod = await node.addPod(name, { ranges, runtimeConfig: { ips } });
      const inside = node.openIn(pod.namespace);
      const address = parseIp(pod.ipv6) ?? new Uint8Array(16);
      await pollUntil(`${pod.ipv6} is usable`, 5000, () => isLocalAddress(inside, address));
      return pod;
    };
    pods = [await add("c1", ["10.88.0.5", "fd00:88::5"]), await add("c2", ["10.99.0.5", "fd00:99::5"])];
    for (const namespace of [...pods.map((pod) => pod.namespace), machine]) opened.push(serveTcp(namespace, "::", 80));
  });

  test.each(["ipv4", "ipv6"] as const)(
    "from pod to pod of the other subnet has the pod's address (%s)",
    async (family) => {
      for (const [from, to] of [pods, pods.toReversed()])
        expect(await askTcp(from!.namespace, to![family], 80, true)).toBe(from![family]);
    },
  );

  test.each([
    ["192.0.2.2", "192.0.2.1"],
    ["fd02::2", "fd02::1"],
  ])("to another machine, %s, has the node's address", async (address, seen) => {
    for (const { namespace } of pods) expect(await askTcp(namespace, address, 80, true)).toBe(seen);
  });
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
    const { node, machine, client } = siteOf(BUILTIN);
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
