import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AttachmentStore, createAttachmentStore } from "../../cni/builtin/attachment-store.ts";
import type { HostPort } from "../../cni/builtin/network-conf.ts";
import { parsePrefix } from "../../host/ip-address.ts";
import { addAddress, removeAddress } from "../../host/netlink/addresses.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { createBridge, createIfb, deleteLink, readLink } from "../../host/netlink/links.ts";
import { change, hasChain, listEntries, readGeneration, removeEntries } from "../../host/netlink/nftables.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import { type Conf, conf, createNode, ipsOf, NOTHING } from "./builtin-fixture.ts";
import { outputIn, type TestNamespace, writeSysctl } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: the built-in network, since only root may make network namespaces");

let node: ReturnType<typeof createNode>;
beforeEach(() => {
  if (isRoot) node = createNode();
});
afterEach(() => {
  if (isRoot) node.close();
});

const port = (hostPort: number, protocol: HostPort["protocol"] = "tcp", hostIP = "") => ({
  ...{ hostPort, containerPort: 80, protocol, hostIP },
});
const withPorts = (...portMappings: readonly ReturnType<typeof port>[]) => ({ runtimeConfig: { portMappings } });
const mac = Uint8Array.of(2, 0, 0, 0, 0, 9);
const prefix = (text: string) => parsePrefix(text) ?? { bytes: new Uint8Array(4), bits: 0 };
const insideOf = ({ namespace }: { readonly namespace: TestNamespace }) => node.openIn(namespace);

describe.skipIf(!isRoot)("the built-in network", () => {
  test("gives a pod its link, and says so in the result", async () => {
    const { result, namespace } = await node.addPod("c1");
    const bridge = readLink(node.route, "berth0");
    const [host] = node.leftovers().links;
    expect(result).toEqual({
      cniVersion: "1.1.0",
      interfaces: [
        { name: "berth0", mac: bridge.mac, mtu: 1420 },
        { name: host, mac: readLink(node.route, host ?? "").mac, mtu: 1420 },
        { name: "eth0", mac: "0a:58:0a:58:00:02", mtu: 1420, sandbox: namespace.path },
      ],
      ips: [
        { address: "10.88.0.2/24", gateway: "10.88.0.1", interface: 2 },
        { address: "fd00:88::2/64", gateway: "fd00:88::1", interface: 2 },
      ],
      routes: [
        { dst: "0.0.0.0/0", gw: "10.88.0.1" },
        { dst: "::/0", gw: "fd00:88::1" },
      ],
      dns: {},
    });
    expect(namespace.run(() => readFileSync("/proc/sys/net/ipv6/conf/eth0/accept_ra", "utf8"))).toBe("0\n");
    expect(outputIn(namespace, "ip", "link", "show", "lo")).toContain("LOOPBACK,UP");
    expect(outputIn(node.namespace, "bridge", "-d", "link", "show", "dev", host ?? "")).toContain("hairpin on");
  });

  test("gives each pod addresses of its own, and none again soon", async () => {
    const first = await node.addPod("c1");
    const second = await node.addPod("c2");
    await node.call("DEL", first.id);
    const third = await node.addPod("c3");
    expect([first, second, third].map(({ ipv4, ipv6 }) => `${ipv4} ${ipv6}`)).toEqual([
      "10.88.0.2 fd00:88::2",
      "10.88.0.3 fd00:88::3",
      "10.88.0.4 fd00:88::4",
    ]);
  });

  test("gives no pod the address of one that has just gone, also after a restart of the agent, and in the delegate without an agent", async () => {
    const processes = [node.createPlugin(), node.createPlugin(), node.createPlugin()];
    const got = [];
    for (const [index, each] of processes.entries()) {
      const id = { containerId: `c${index}`, netns: node.namespaces.create().path };
      got.push(ipsOf(await node.call("ADD", id, each)));
      await node.call("DEL", id, each);
      each.close();
    }
    expect(got).toEqual([2, 3, 4].map((last) => [`10.88.0.${last}`, `fd00:88::${last}`]));
    // A file that cannot be read costs the order alone.
    for (const text of ["", '["10.88.0.9', "[1, 2]", '["10.99.0.9", "none"]']) {
      writeFileSync(join(node.folder, "pods/last-addresses.json"), text);
      const pod = await node.addPod("next");
      expect([pod.ipv4, pod.ipv6]).toEqual(["10.88.0.2", "fd00:88::2"]);
      await node.call("DEL", pod.id);
    }
  });

  test("gives a pod the addresses and the hardware address that it asks for", async () => {
    const runtimeConfig = { ips: ["10.88.0.77", "fd00:88::77"], mac: "02:00:00:00:00:77" };
    const pod = await node.addPod("c1", { runtimeConfig });
    expect([pod.ipv4, pod.ipv6]).toEqual(["10.88.0.77", "fd00:88::77"]);
    expect(readLink(insideOf(pod), "eth0").mac).toBe("02:00:00:00:00:77");
    const netns = node.namespaces.create().path;
    expect(await node.failureOf("ADD", { containerId: "c2", netns, conf: { runtimeConfig } })).toMatchObject({
      code: 102,
      message: "the requested address 10.88.0.77 is taken by another pod, or by the node",
    });
    expect(
      await node.failureOf("ADD", { containerId: "c2", netns, conf: { runtimeConfig: { ips: ["10.99.0.1"] } } }),
    ).toMatchObject({ code: 102, message: "the requested address 10.99.0.1 is in no range of the network pods" });
    const two = { runtimeConfig: { ips: ["10.88.0.78", "10.88.0.79"] } };
    expect(await node.failureOf("ADD", { containerId: "c2", netns, conf: two })).toMatchObject({
      code: 102,
      message:
        "the requested address 10.88.0.79 is the second one of its ranges in the network pods, and a pod gets one of each",
    });
    expect(node.leftovers().attachments).toEqual(["c1"]);
  });

  test("gives no pod an address that the node has", async () => {
    createBridge(node.route, { name: "other0", mtu: 1500, mac });
    addAddress(node.route, readLink(node.route, "other0"), prefix("10.88.0.2/32"));
    expect((await node.addPod("c1")).ipv4).toBe("10.88.0.3");
  });

  test("has no address left when the range is exhausted, until a pod is gone", async () => {
    // The message counts the addresses of the set that is exhausted.
    const change = { ranges: [[{ subnet: "10.88.0.0/29" }], [{ subnet: "fd00:88::/64" }]] };
    const pods = [];
    for (const name of ["c1", "c2", "c3", "c4", "c5"]) pods.push(await node.addPod(name, change));
    const last = { containerId: "c6", netns: node.namespaces.create().path, conf: change };
    expect(await node.failureOf("ADD", last)).toEqual({
      code: 101,
      message: "no address is left in 10.88.0.0/29 of the network pods: 5 are in use",
      details: "",
    });
    expect(node.leftovers().attachments).toHaveLength(5);
    await node.call("DEL", pods[2]?.id);
    expect(ipsOf(await node.call("ADD", last))).toEqual(["10.88.0.4", "fd00:88::7"]);
  });

  test("a record that an ADD has left, and whose host port another pod has now, keeps no pod from starting", async () => {
    const running = await node.addPod("c1", withPorts(port(8080)));
    const left = { containerId: "left", ifName: "eth0", addresses: ["10.88.0.200/24"], gateways: ["10.88.0.1"] };
    node.store().write({ ...left, hostPorts: [port(8080), port(8081)] });
    // As after a restart of the agent, which makes the rules again.
    const restarted = node.createPlugin();
    const change = withPorts(port(8082));
    await node.call("ADD", { containerId: "c2", netns: node.namespaces.create().path, conf: change }, restarted);
    // Two of each pod, for IPv4 and IPv6, and 8081 of the record.
    expect(node.leftovers().hostPorts).toBe(5);
    await node.call("CHECK", { ...running.id, conf: { ...running.id.conf, prevResult: running.result } }, restarted);
    restarted.close();
  });

  test("answers ADD again with the same result, and DEL again with success", async () => {
    const pod = await node.addPod("c1", withPorts(port(8080)));
    expect(await node.call("ADD", pod.id)).toEqual(pod.result as Conf);
    await node.call("CHECK", { ...pod.id, conf: { ...pod.id.conf, prevResult: pod.result } });
    await node.call("DEL", pod.id);
    expect(node.leftovers()).toEqual(NOTHING);
    await node.call("DEL", pod.id);
    await node.call("DEL", { containerId: "never-seen" });
  });

  test("removes a pod whose namespace is gone, and one whose DEL has no namespace", async () => {
    const gone = await node.addPod("c1", withPorts(port(8080)));
    await node.addPod("c2", withPorts(port(8081)));
    gone.namespace.close();
    await node.call("DEL", gone.id);
    await node.call("DEL", { containerId: "c2" });
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test("removes a pod when its list or its record has been damaged", async () => {
    await node.addPod("c1", withPorts(port(8080)));
    await node.addPod("c2", withPorts(port(8081)));
    writeFileSync(join(node.folder, "pods/attachments/c1:eth0.json"), "{");
    await node.call("DEL", { containerId: "c1", conf: { ranges: "broken" } });
    expect(node.leftovers()).toMatchObject({ attachments: ["c2"], hostPorts: 2 });
    expect(node.leftovers().links).toHaveLength(1);
    expect(node.leftovers().addresses.toSorted()).toEqual(["10.88.0.3", "fd00:88::3"]);
  });

  test("refuses a host port that another pod has, and gives it when that pod is gone", async () => {
    const first = await node.addPod("c1", withPorts(port(8080), port(8080, "udp"), port(53, "sctp", "127.0.0.1")));
    expect(node.leftovers().hostPorts).toBe(5);
    const second = { containerId: "c2", netns: node.namespaces.create().path, conf: withPorts(port(81), port(8080)) };
    expect(await node.failureOf("ADD", second)).toMatchObject({
      code: 104,
      message: "another pod has the host port 8080/tcp",
    });
    // What it had got is released, and the first pod keeps its own.
    expect(node.leftovers()).toMatchObject({ attachments: ["c1"], hostPorts: 5 });
    await node.call("DEL", first.id);
    await node.call("ADD", second);
    expect(node.leftovers()).toMatchObject({ attachments: ["c2"], hostPorts: 4 });
  });

  test("leaves nothing of a hundred pods, and a bridge for the next", async () => {
    const names = Array.from({ length: 100 }, (_, index) => `c${index}`);
    const pods = [];
    for (const [index, name] of names.entries()) pods.push(await node.addPod(name, withPorts(port(8000 + index))));
    expect(node.leftovers().links).toHaveLength(100);
    expect(new Set(pods.map(({ ipv4 }) => ipv4)).size).toBe(100);
    for (const pod of pods) await node.call("DEL", pod.id);
    expect(node.leftovers()).toEqual(NOTHING);
    expect(readLink(node.route, "berth0").isUp).toBe(true);
  }, 600_000);

  test("takes the MTU of the default route, unless the configuration has one", async () => {
    createBridge(node.route, { name: "lan0", mtu: 1390, mac });
    addAddress(node.route, readLink(node.route, "lan0"), prefix("192.0.2.1/24"));
    outputIn(node.namespace, "ip", "route", "add", "default", "via", "192.0.2.2");
    const pod = await node.addPod("c1", { mtu: undefined });
    expect(readLink(insideOf(pod), "eth0").mtu).toBe(1390);
  });

  test("enables IPv6 on its links where new links have it disabled", async () => {
    const pod = node.namespaces.create();
    for (const namespace of [pod, node.namespace])
      namespace.run(() => writeSysctl("ipv6/conf/default/disable_ipv6", "1"));
    await node.call("ADD", { netns: pod.path });
    await node.call("CHECK", { netns: pod.path });
    expect(outputIn(node.namespace, "ip", "addr", "show", "berth0")).toContain("fd00:88::1/64");
  });

  test("gives another address if another process takes the same one at the same moment", async () => {
    const other = { containerId: "other", ifName: "eth0" };
    const racing = node.createPlugin(node.netlink, (folder) => {
      const store = createAttachmentStore(folder);
      const reserve: AttachmentStore["reserve"] = (address, id) => {
        if (address === "10.88.0.2") store.reserve(address, other);
        return store.reserve(address, id);
      };
      return { ...store, reserve };
    });
    const id = { netns: node.namespaces.create().path };
    expect(ipsOf(await node.call("ADD", id, racing))).toEqual(["10.88.0.3", "fd00:88::2"]);
    expect(node.store().reserved()).toEqual(
      new Map([
        ["10.88.0.2", "other:eth0"],
        ["10.88.0.3", "c1:eth0"],
        ["fd00:88::2", "c1:eth0"],
      ]),
    );
    await node.call("DEL", id);
    expect(node.leftovers()).toEqual({ ...NOTHING, addresses: ["10.88.0.2"] });
    racing.close();
  });

  test("opens and closes more host ports than one message to the kernel holds", async () => {
    const pod = await node.addPod("c1", withPorts(...Array.from({ length: 600 }, (_, index) => port(10_000 + index))));
    expect(node.leftovers().hostPorts).toBe(1200);
    await node.call("CHECK", pod.id);
    deleteTable();
    await node.addPod("c2");
    expect(node.leftovers().hostPorts).toBe(1200);
    await node.call("DEL", pod.id);
    expect(node.leftovers()).toMatchObject({ hostPorts: 0, attachments: ["c2"] });
  });

  test("has two networks side by side", async () => {
    const other = { name: "other", bridge: "other0", isDefaultGateway: false, ranges: [[{ subnet: "10.99.0.0/24" }]] };
    const pod = await node.addPod("c1");
    const result = await node.call("ADD", {
      containerId: "c1",
      netns: pod.namespace.path,
      ifName: "net1",
      conf: other,
    });
    expect(ipsOf(result)).toEqual(["10.99.0.2"]);
    expect(result).toMatchObject({ routes: [] });
    await node.call("CHECK", { netns: pod.namespace.path, ifName: "net1", conf: other });
    await node.call("DEL", { ifName: "net1", conf: other });
    expect(node.leftovers()).toMatchObject({ attachments: ["c1"], addresses: expect.arrayContaining(["10.88.0.2"]) });
    await node.call("CHECK", pod.id);
  });
});

describe.skipIf(!isRoot)("the built-in network refuses", () => {
  test.each<[string, () => string, object]>([
    [
      "a namespace that is gone",
      () => "/run/netns/absent",
      { code: 8, message: expect.stringContaining("ENOENT, it does not exist") },
    ],
    [
      "a file that is no namespace",
      () => "/proc/self/status",
      { code: 8, message: "/proc/self/status is no network namespace" },
    ],
    [
      "the node's own namespace",
      () => node.namespace.path,
      {
        code: 8,
        message: expect.stringContaining("is the network namespace of the node; a pod's own one is expected"),
      },
    ],
    [
      "no namespace",
      () => "",
      { code: 4, message: "CNI_NETNS is missing; the path of a network namespace is expected" },
    ],
  ])("%s", async (_name, netns, expected) => {
    expect(await node.failureOf("ADD", { netns: netns() })).toMatchObject(expected);
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test.each<[string, object]>([
    ["../c1", { containerId: "../c1" }],
    ["a/b", { ifName: "a/b" }],
    ["..", { ifName: ".." }],
    ["a-name-of-16-byt", { ifName: "a-name-of-16-byt" }],
  ])("the name %p", async (_name, input) => {
    for (const verb of ["ADD", "DEL", "CHECK"] as const)
      expect(await node.failureOf(verb, { netns: node.namespaces.create().path, ...input })).toMatchObject({ code: 4 });
  });

  test("a pod that has a link of this name, with the kernel's words, and releases everything", async () => {
    const pod = node.namespaces.create();
    createIfb(node.openIn(pod), { name: "eth0", mtu: 1500 });
    expect(await node.failureOf("ADD", { netns: pod.path, conf: withPorts(port(8080)) })).toMatchObject({
      code: 100,
      message: expect.stringMatching(/^cannot create the veth pair veth\w+ and eth0: EEXIST/),
    });
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test("a kernel that answers EBUSY, with its words, and releases everything", async () => {
    const busy = node.createPlugin({
      ...node.netlink,
      openSocket(protocol) {
        const socket = node.netlink.openSocket(protocol);
        const request: NetlinkSocket["request"] = (input) => {
          if (input.what.startsWith("set the port up")) throw new NetlinkError("EBUSY", input.what, "");
          return socket.request(input);
        };
        return { ...socket, request };
      },
    });
    const call = node.call("ADD", { netns: node.namespaces.create().path, conf: withPorts(port(8080)) }, busy);
    await expect(call).rejects.toMatchObject({
      code: 100,
      message: expect.stringMatching(/^cannot set the port up.*: EBUSY$/),
    });
    expect(node.leftovers()).toEqual(NOTHING);
    busy.close();
  });

  test("a bridge that is none", async () => {
    createIfb(node.route, { name: "berth0", mtu: 1500 });
    const expected = "the network pods: the link berth0 is of the kind ifb; delete it, or set bridge to another name";
    expect(await node.failureOf("ADD", { netns: node.namespaces.create().path })).toMatchObject({
      code: 103,
      message: expected,
    });
    expect(await node.failureOf("STATUS")).toMatchObject({
      code: 50,
      message: expected,
    });
  });

  test("a bridge of another program with an address, which stays", async () => {
    createBridge(node.route, { name: "berth0", mtu: 1500, mac });
    addAddress(node.route, readLink(node.route, "berth0"), prefix("10.77.0.1/24"));
    expect(await node.failureOf("ADD", { netns: node.namespaces.create().path })).toMatchObject({
      code: 103,
      message:
        "the network pods: the bridge berth0 has the address 10.77.0.1/24 of another program; this network needs 10.88.0.1/24, fd00:88::1/64. Remove the address, or set bridge to another name",
    });
    expect(outputIn(node.namespace, "ip", "addr", "show", "berth0")).toContain("10.77.0.1");
    removeAddress(node.route, readLink(node.route, "berth0"), prefix("10.77.0.1/24"));
    await node.addPod("c1");
  });

  test("its own bridge with the address of an earlier configuration and ports, but takes it without ports", async () => {
    const earlier = await node.addPod("c0", { ranges: [[{ subnet: "10.77.0.0/24" }]] });
    await node.call("DEL", earlier.id);
    await node.addPod("c1");
    expect(outputIn(node.namespace, "ip", "addr", "show", "berth0")).not.toContain("10.77.0.1");
  });

  const other = { name: "other", ranges: [[{ subnet: "10.77.0.0/24" }]] };
  test.each<[string, Conf]>([
    ["the same addresses", { name: "other" }],
    ["other addresses", other],
  ])(
    "the bridge on which another built-in network has pods (%s), and takes it when they have ended",
    async (_name, change) => {
      const pods = [await node.addPod("c1"), await node.addPod("c2")];
      const message =
        "the network other: the built-in network pods has 2 attachments, such as c1:eth0, on the bridge berth0. Set bridge to another name, or delete those pods";
      expect(await node.failureOf("STATUS", { conf: change })).toMatchObject({ code: 50, message });
      const input = { containerId: "c3", netns: node.namespaces.create().path, conf: change };
      expect(await node.failureOf("ADD", input)).toMatchObject({ code: 103, message });
      for (const pod of pods) await node.call("CHECK", pod.id);
      for (const pod of pods) await node.call("DEL", pod.id);
      await node.call("STATUS", { conf: change });
      expect(ipsOf(await node.call("ADD", input))[0]).toBe(change === other ? "10.77.0.2" : "10.88.0.2");
      expect(outputIn(node.namespace, "ip", "link", "show", "berth0")).toContain("alias berth other");
      // The first network may have it again in the same way.
      const back = { containerId: "c4", netns: node.namespaces.create().path };
      expect(await node.failureOf("ADD", back)).toMatchObject({ code: 103 });
      await node.call("DEL", input);
      await node.call("ADD", back);
      await node.call("CHECK", back);
    },
  );

  test.each<[string, string, string, string]>([
    ["an address", "10.88.0.5/16", "", "10.88.0.0/24 contains 10.88.0.5, the node's address on up0"],
    [
      "a gateway",
      "10.88.7.5/16",
      "default via 10.88.0.1",
      "10.88.0.0/24 contains 10.88.0.1, a gateway of the node on up0",
    ],
    [
      "a network",
      "10.9.0.5/16",
      "10.88.0.128/25",
      "10.88.0.0/24 contains 10.88.0.128/25, which the node reaches over up0",
    ],
    ["IPv6", "fd00:88::9/64", "", "fd00:88::/64 contains fd00:88::9, the node's address on up0"],
  ])("a subnet with %s of the node", async (_name, address, route, words) => {
    createBridge(node.route, { name: "up0", mtu: 1500, mac });
    addAddress(node.route, readLink(node.route, "up0"), prefix(address));
    if (route !== "") outputIn(node.namespace, "ip", "route", "add", ...route.split(" "), "dev", "up0");
    const message = `the network pods: ${words}. Set ranges, or podCIDR of the node, to a subnet that the node does not use`;
    expect(await node.failureOf("STATUS")).toMatchObject({ code: 50, message });
    expect(await node.failureOf("ADD", { netns: node.namespaces.create().path })).toMatchObject({ code: 107, message });
    expect(outputIn(node.namespace, "ip", "-o", "link")).not.toContain("berth0");
    deleteLink(node.route, "up0");
    await node.call("STATUS");
    await node.addPod("c1");
  });

  const lan = { bridge: "lan0", ranges: [[{ subnet: "10.99.0.0/24" }]] };
  test.each<[string, Conf, object]>([
    [
      "another bridge",
      lan,
      {
        code: 7,
        message:
          "the network pods: bridge is lan0, and 2 attachments of a network of this name, such as c1:eth0, have the bridge berth0. Give one of the two networks another name, or delete the pods on berth0",
      },
    ],
    [
      "other addresses on the same bridge",
      { ranges: lan.ranges },
      { code: 103, message: expect.stringContaining("Delete the pods of the other network, or set bridge") },
    ],
  ])("a second network of its name with %s, whose pods keep their rules", async (_name, second, expected) => {
    const pods = [await node.addPod("c1"), await node.addPod("c2")];
    const generation = readGeneration(node.netfilter);
    const input = { containerId: "c3", netns: node.namespaces.create().path, conf: second };
    expect(await node.failureOf("ADD", input)).toMatchObject(expected);
    // After a restart of the agent too.
    const restarted = node.createPlugin();
    await expect(node.call("ADD", input, restarted)).rejects.toMatchObject(expected);
    restarted.close();
    expect(readGeneration(node.netfilter)).toBe(generation);
    expect(outputIn(node.namespace, "ip", "-o", "link")).not.toContain("lan0");
    for (const pod of pods) await node.call("CHECK", pod.id);
    // A network may get another bridge when its pods are gone.
    for (const pod of pods) await node.call("DEL", pod.id);
    expect(ipsOf(await node.call("ADD", input))).toHaveLength(1);
  });

  test("no other bridge where an earlier release has recorded the pods", async () => {
    const addresses = { addresses: ["10.88.0.200/24"], gateways: ["10.88.0.1"] };
    node.store().write({ containerId: "old", ifName: "eth0", ...addresses, hostPorts: [] });
    expect((await node.addPod("c1", lan)).ipv4).toBe("10.99.0.2");
  });

  test("to be the second plugin of a list", async () => {
    const input = { netns: node.namespaces.create().path, conf: { prevResult: {} } };
    expect(await node.failureOf("ADD", input)).toMatchObject({
      code: 7,
      message: "the network pods: the plugin berth must be the first of its list",
    });
  });
});

describe.skipIf(!isRoot)("CHECK finds", () => {
  type Pod = Awaited<ReturnType<ReturnType<typeof createNode>["addPod"]>>;
  test.each<[string, (pod: Pod) => void, string]>([
    ["a bridge that is gone", () => deleteLink(node.route, "berth0"), "the bridge berth0 is missing or down"],
    ["a link that is gone", () => deleteLink(node.route, node.leftovers().links[0] ?? ""), "is missing"],
    [
      "a link that is down",
      (pod) => void outputIn(pod.namespace, "ip", "link", "set", "eth0", "down"),
      "the link eth0 is down in",
    ],
    [
      "an address that is gone",
      (pod) => removeAddress(insideOf(pod), readLink(insideOf(pod), "eth0"), prefix("10.88.0.2/24")),
      "the address 10.88.0.2/24 is missing at eth0 in",
    ],
    [
      "a route that is gone",
      (pod) => void outputIn(pod.namespace, "ip", "-6", "route", "del", "default"),
      "the default route over fd00:88::1 is missing in",
    ],
    [
      "a host port that is gone",
      () => {
        const [entry] = listEntries(node.netfilter, "berth", "host-ports-4");
        removeEntries(node.netfilter, "berth", [{ map: "host-ports-4", key: entry?.key ?? mac, what: "a port" }]);
      },
      "the host port 8080/tcp is missing in the nftables map host-ports-4",
    ],
  ])("%s", async (_name, damage, message) => {
    const pod = await node.addPod("c1", withPorts(port(8080)));
    await node.call("CHECK", pod.id);
    damage(pod);
    expect(await node.failureOf("CHECK", pod.id)).toMatchObject({
      code: 105,
      message: expect.stringContaining(message),
    });
    // ADD repairs it.
    await node.call("ADD", pod.id);
    await node.call("CHECK", pod.id);
    expect(node.leftovers()).toMatchObject({ attachments: ["c1"], hostPorts: 2 });
    expect(node.leftovers().links).toHaveLength(1);
  });

  test("no default route only where the result of ADD has one", async () => {
    const pod = await node.addPod("c1");
    outputIn(pod.namespace, "ip", "route", "del", "default");
    const check = { ...pod.id, conf: { ...pod.id.conf, prevResult: pod.result } };
    expect(await node.failureOf("CHECK", check)).toMatchObject({
      code: 105,
      message: expect.stringContaining("the default route over 10.88.0.1 is missing"),
    });
    const moved = { ...pod.result, routes: [] };
    await node.call("CHECK", { ...check, conf: { ...check.conf, prevResult: moved } });
  });

  test("no attachment, and a result with other addresses", async () => {
    const pod = await node.addPod("c1");
    expect(await node.failureOf("CHECK", { ...pod.id, containerId: "c2" })).toMatchObject({
      code: 3,
      message: "the network pods has no attachment c2:eth0",
    });
    const prevResult = { ips: [{ address: "10.88.0.9/24" }] };
    expect(await node.failureOf("CHECK", { ...pod.id, conf: { prevResult } })).toMatchObject({
      code: 105,
      message: "the pod has the address 10.88.0.2/24, which the result of its ADD has not",
    });
  });
});

describe.skipIf(!isRoot)(
  "an ADD that makes the rules while DEL removes links opens no host port of the deleted pod",
  () => {
    test.each([
      ["after a start of the agent", () => {}],
      ["after a flush of the rules", deleteTable],
    ])("%s", async (_, change) => {
      const { id } = await node.addPod("c1", withPorts(port(8080)));
      const agent = node.createPlugin();
      change();
      const deletion = node.call("DEL", id, agent);
      await node.call("ADD", { containerId: "c2", netns: node.namespaces.create().path }, agent);
      await deletion;
      expect(node.leftovers()).toMatchObject({ hostPorts: 0, attachments: ["c2"] });
      agent.close();
    });
  },
);

/** As `nft flush ruleset` does. */
function deleteTable(): void {
  change(node.netfilter, [
    {
      type: (10 << 8) | 2,
      flags: 0,
      body: Uint8Array.of(1, 0, 0, 0),
      attributes: [[1, new TextEncoder().encode("berth\0")]],
      what: "delete the table",
    },
  ]);
}

describe.skipIf(!isRoot)("GC", () => {
  const valid = (...ids: readonly string[]) => ({
    conf: { "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })) },
  });

  test("removes what belongs to no valid attachment, and keeps the rest", async () => {
    await node.addPod("c1", withPorts(port(8081)));
    const kept = await node.addPod("c2", withPorts(port(8082)));
    await node.addPod("c3");
    await node.call("GC", valid("c2"));
    expect(node.leftovers()).toMatchObject({ attachments: ["c2"], hostPorts: 2 });
    expect(node.leftovers().links).toHaveLength(1);
    expect(node.leftovers().addresses.toSorted()).toEqual([kept.ipv4, kept.ipv6]);
    await node.call("CHECK", kept.id);
  });

  test("removes what no record has: reservations, links and host ports", async () => {
    await node.addPod("c1", withPorts(port(8081)));
    writeFileSync(join(node.folder, "pods/attachments/c1:eth0.json"), "{");
    const lost = node.createPlugin();
    await node.call("GC", valid(), lost);
    expect(node.leftovers()).toEqual(NOTHING);
    await node.addPod("c2", withPorts(port(8081)));
    const id = { containerId: "c2", ifName: "eth0" };
    node.store().remove(id);
    for (const address of node.store().reservedAddresses()) node.store().release(address, id);
    await node.call("GC", valid());
    expect(node.leftovers()).toEqual(NOTHING);
  });

  test("without a list of attachments removes nothing", async () => {
    await node.addPod("c1");
    expect(await node.failureOf("GC")).toMatchObject({ code: 7 });
    expect(node.leftovers().attachments).toEqual(["c1"]);
  });
});

test.skipIf(!isRoot)("STATUS is success before the first pod, and makes nothing", async () => {
  await node.call("STATUS", { conf });
  expect(outputIn(node.namespace, "ip", "-o", "link")).not.toContain("berth0");
  expect(hasChain(node.netfilter, "berth", "guard")).toBe(false);
});
