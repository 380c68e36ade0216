// What another program removes of a built-in network while its pods run: CHECK says what is missing, and ADD and GC put it back.
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { formatPrefix } from "../../host/ip-address.ts";
import { listAddresses } from "../../host/netlink/addresses.ts";
import { readLink } from "../../host/netlink/links.ts";
import {
  change,
  countRules,
  deleteTable,
  flushChain,
  listEntries,
  newTable,
  removeEntries,
} from "../../host/netlink/nftables.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import { createNode } from "./builtin-fixture.ts";
import { outputIn, writeSysctl } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: repairs of the built-in network, since only root may make network namespaces");

let node: ReturnType<typeof createNode>;
beforeEach(() => {
  if (isRoot) node = createNode();
});
afterEach(() => {
  if (isRoot) node.close();
});

const withPort = (hostPort: number) => ({
  runtimeConfig: { portMappings: [{ hostPort, containerPort: 80, protocol: "tcp" }] },
});
const valid = (...ids: readonly string[]) => ({
  conf: { "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })) },
});
const MAPS = ["host-ports-4", "host-ports-6"] as const;
const FORWARDING = ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] as const;

/** What all pods share on the node. */
const sharedState = () => ({
  rules: Object.fromEntries(countRules(node.netfilter, "berth")),
  hostPorts: MAPS.map((map) => listEntries(node.netfilter, "berth", map).length),
  gateways: listAddresses(node.route, readLink(node.route, "berth0"))
    .map(formatPrefix)
    .filter((address) => !address.startsWith("fe80:")),
  forwarding: FORWARDING.map((path) => node.namespace.run(() => readFileSync(`/proc/sys/net/${path}`, "utf8").trim())),
});

const whole = {
  rules: { guard: 2, "host-ports": 4, prerouting: 1, output: 2, "masquerade-pods": 7 },
  hostPorts: [1, 1],
  gateways: ["10.88.0.1/24", "fd00:88::1/64"],
  forwarding: ["1", "1"],
};

const flush = (chain: string) => change(node.netfilter, [flushChain("berth", chain)]);
const flushMap = (map: string) =>
  removeEntries(
    node.netfilter,
    "berth",
    listEntries(node.netfilter, "berth", map).map(({ key }) => ({ map, key, what: "a port" })),
  );
const switchOff = (path: string) => node.namespace.run(() => writeSysctl(path, "0"));

const damages: readonly (readonly [string, () => void, string])[] = [
  [
    "the table",
    () => change(node.netfilter, [deleteTable("berth")]),
    "the nftables chain guard of the table inet berth has 0 of 2 rules",
  ],
  [
    // As `nft flush table inet berth`: with route_localnet on the bridge, 127.0.0.1 is open to pods (CVE-2020-8558).
    "all rules",
    () => {
      for (const chain of Object.keys(whole.rules)) flush(chain);
    },
    "the nftables chain guard of the table inet berth has 0 of 2 rules",
  ],
  ["the guard", () => flush("guard"), "the nftables chain guard of the table inet berth has 0 of 2 rules"],
  [
    "the way to host ports",
    () => flush("prerouting"),
    "the nftables chain prerouting of the table inet berth has 0 of 1 rules",
  ],
  [
    "the masquerade",
    () => flush("masquerade-pods"),
    "the nftables chain masquerade-pods of the table inet berth has 0 of 7 rules",
  ],
  [
    "the host ports of IPv4",
    () => flushMap("host-ports-4"),
    "the host port 8080/tcp is missing in the nftables map host-ports-4",
  ],
  [
    "the host ports of IPv6",
    () => flushMap("host-ports-6"),
    "the host port 8080/tcp is missing in the nftables map host-ports-6",
  ],
  [
    "a gateway",
    () => void outputIn(node.namespace, "ip", "addr", "del", "10.88.0.1/24", "dev", "berth0"),
    "the bridge berth0 has lost its address 10.88.0.1/24",
  ],
  [
    "all addresses of the bridge",
    () => void outputIn(node.namespace, "ip", "addr", "flush", "dev", "berth0"),
    "the bridge berth0 has lost its address 10.88.0.1/24",
  ],
  [
    "forwarding of IPv4",
    () => switchOff("ipv4/ip_forward"),
    "/proc/sys/net/ipv4/ip_forward is 0, must be 1: the node forwards nothing for its pods",
  ],
  [
    "forwarding of IPv6",
    () => switchOff("ipv6/conf/all/forwarding"),
    "/proc/sys/net/ipv6/conf/all/forwarding is 0, must be 1: the node forwards nothing for its pods",
  ],
];

describe.skipIf(!isRoot)("after another program has removed …", () => {
  for (const [what, damage, problem] of damages)
    for (const verb of ["ADD", "GC"] as const)
      test(`${what}: CHECK names it, and ${verb} puts it back`, async () => {
        const pod = await node.addPod("c1", withPort(8080));
        // The second and the third find what the first has made.
        for (const name of ["c2", "c3"]) await node.addPod(name);
        await node.call("CHECK", pod.id);
        expect(sharedState()).toEqual(whole);
        damage();
        expect(await node.failureOf("CHECK", pod.id)).toMatchObject({
          code: 105,
          message: `${problem}; the next ADD or GC of the network pods puts it back`,
        });
        if (verb === "ADD") await node.addPod("c4");
        else await node.call("GC", valid("c1", "c2", "c3"));
        expect(sharedState()).toEqual(whole);
        await node.call("CHECK", pod.id);
      });

  test("nothing: GC leaves an address that it has added to the bridge while pods run", async () => {
    await node.addPod("c1");
    outputIn(node.namespace, "ip", "addr", "add", "192.0.2.9/24", "dev", "berth0");
    await node.call("GC", valid("c1"));
    expect(sharedState().gateways.toSorted()).toEqual(["10.88.0.1/24", "192.0.2.9/24", "fd00:88::1/64"]);
  });

  test("host ports of a deleted pod are not opened again by a repair", async () => {
    const [first, second] = [await node.addPod("c1", withPort(8080)), await node.addPod("c2", withPort(8081))];
    for (const map of MAPS) flushMap(map);
    await node.call("DEL", first.id);
    await node.addPod("c3");
    expect(sharedState()).toEqual(whole);
    await node.call("CHECK", second.id);
  });
});

test.skipIf(!isRoot)("ADD reads rules and host ports only after a change of nftables", async () => {
  const asked: string[] = [];
  const agent = node.createPlugin({
    ...node.netlink,
    openSocket(protocol) {
      const socket = node.netlink.openSocket(protocol);
      const noted =
        <T>(ask: (request: Parameters<NetlinkSocket["dump"]>[0]) => T) =>
        (request: Parameters<NetlinkSocket["dump"]>[0]) => {
          asked.push(request.what);
          return ask(request);
        };
      return { ...socket, request: noted(socket.request), dump: noted(socket.dump) };
    },
  });
  /** What ADD asks before it looks for an address. */
  const asksOf = async (containerId: string, conf: object = {}) => {
    asked.length = 0;
    await node.call("ADD", { containerId, netns: node.namespaces.create().path, conf: { ...conf } }, agent);
    return asked.slice(
      0,
      asked.findIndex((what) => what.startsWith("find the route to")),
    );
  };
  const unchanged = [
    "read the link berth0",
    "list the addresses of berth0",
    "read the generation of the nftables rules",
  ];
  const rules = "list the rules of the nftables table inet berth";
  const maps = MAPS.map((map) => `list the nftables map ${map} of the table inet berth`);
  await asksOf("c1");
  expect(await asksOf("c2")).toEqual([...unchanged, rules]);
  expect(await asksOf("c3")).toEqual(unchanged);
  // As kube-proxy does.
  change(node.netfilter, [newTable("kube-proxy")]);
  expect(await asksOf("c4", withPort(8080))).toEqual([...unchanged, rules]);
  expect(await asksOf("c5")).toEqual([...unchanged, rules, ...maps]);
  expect(await asksOf("c6")).toEqual(unchanged);
  agent.close();
});
