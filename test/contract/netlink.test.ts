import { afterEach, describe, expect, test } from "bun:test";
import { readlinkSync } from "node:fs";
import { formatPrefix, type IpPrefix, parseIp, parsePrefix } from "../../host/ip-address.ts";
import { addAddress, listAddresses, removeAddress } from "../../host/netlink/addresses.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { createLinkRemoval } from "../../host/netlink/link-removal.ts";
import {
  createBridge,
  createVeth,
  deleteLink,
  findLink,
  listLinks,
  parseMac,
  readLink,
  setAlias,
  setPortUp,
  setUp,
} from "../../host/netlink/links.ts";
import { createNetlink, NETLINK_NETFILTER, NETLINK_ROUTE } from "../../host/netlink/netlink.ts";
import { drop, equals, jump, leave, loadMeta } from "../../host/netlink/nft-expressions.ts";
import {
  addEntries,
  change,
  changeAsRead,
  countRules,
  flushChain,
  hasChain,
  listChains,
  listEntries,
  listRules,
  newChain,
  newMap,
  newRule,
  newTable,
  readGeneration,
  removeEntries,
} from "../../host/netlink/nftables.ts";
import { addRoute, isLocalAddress, listRoutes, removeRoute } from "../../host/netlink/routes.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { createTestNamespaces, outputIn } from "./network-namespaces.ts";

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.warn("skipped: netlink, since only root may make network namespaces");

const namespaces = createTestNamespaces();
afterEach(() => namespaces.closeAll());
const netlink = createNetlink();
const mac = parseMac("0a:58:0a:58:00:01") ?? new Uint8Array(6);
const prefix = (text: string): IpPrefix => parsePrefix(text) ?? { bytes: new Uint8Array(4), bits: 0 };
const ip = (text: string) => parseIp(text) ?? new Uint8Array(4);

/** A namespace of its own with an open socket. */
function fixture(protocol = NETLINK_ROUTE) {
  const namespace = namespaces.create();
  const socket = namespace.run(() => netlink.openSocket(protocol));
  return { namespace, socket };
}

/** A key of a map of an address and a port. */
const be = (number: number) => Uint8Array.of(0, 0, 0, 0, number >> 8, number & 255, 0, 0);

const errorOf = (work: () => unknown): NetlinkError => {
  try {
    work();
  } catch (error) {
    if (error instanceof NetlinkError) return error;
    throw error;
  }
  throw new Error("no error was thrown");
};

describe.skipIf(!isRoot)("netlink on this kernel", () => {
  test("a bridge is created, found, listed and deleted", () => {
    const { socket, namespace } = fixture();
    createBridge(socket, { name: "br0", mtu: 1400, mac });
    expect(readLink(socket, "br0")).toMatchObject({ mtu: 1400, mac: "0a:58:0a:58:00:01", isUp: true, kind: "bridge" });
    expect(listLinks(socket).map(({ name }) => name)).toContain("br0");
    expect(outputIn(namespace, "ip", "-o", "link", "show", "br0")).toContain("mtu 1400");
    deleteLink(socket, "br0");
    deleteLink(socket, "br0");
    expect(findLink(socket, "br0")).toBeUndefined();
  });

  test("a bridge gets its alias with its creation, and a link that has the name already does not", () => {
    const { socket } = fixture();
    createBridge(socket, { name: "br0", mtu: undefined, mac, alias: "berth pods" });
    expect(readLink(socket, "br0")).toMatchObject({ alias: "berth pods", isUp: true, kind: "bridge" });
    createBridge(socket, { name: "br1", mtu: undefined, mac });
    for (const name of ["br0", "br1"])
      expect(errorOf(() => createBridge(socket, { name, mtu: undefined, mac, alias: "berth other" }))).toMatchObject({
        code: "EEXIST",
        what: `create the bridge ${name}`,
      });
    expect(["br0", "br1"].map((name) => readLink(socket, name).alias)).toEqual(["berth pods", ""]);
    // The kernel goes on with its own indexes.
    createBridge(socket, { name: "br2", mtu: undefined, mac });
    expect(readLink(socket, "br2").index).toBeLessThan(1000);
  });

  test("an error has the kernel's name, and says what was attempted", () => {
    const { socket } = fixture();
    createBridge(socket, { name: "br0", mtu: undefined, mac });
    expect(errorOf(() => createBridge(socket, { name: "br0", mtu: undefined, mac }))).toMatchObject({
      code: "EEXIST",
      what: "create the bridge br0",
    });
    expect(errorOf(() => readLink(socket, "br1"))).toMatchObject({ code: "ENODEV" });
    // The socket still works.
    expect(readLink(socket, "br0").name).toBe("br0");
    socket.close();
    const { code, message } = errorOf(() => readLink(socket, "br0"));
    expect([code, message]).toEqual(["EBADF", "cannot read the link br0: EBADF"]);
  });

  test("an error has the kernel's own sentence, where it has one", () => {
    const { socket } = fixture();
    createBridge(socket, { name: "br0", mtu: undefined, mac });
    const unreachable = errorOf(() =>
      addRoute(socket, readLink(socket, "br0"), { to: prefix("10.0.0.0/8"), gateway: ip("192.0.2.1") }),
    );
    expect(unreachable.code).toBe("ENETUNREACH");
    expect(unreachable.message).toBe(
      "cannot add the route to 10.0.0.0/8 over 192.0.2.1 on br0: ENETUNREACH, Nexthop has invalid gateway",
    );
  });

  test("a veth pair leads from a port of a bridge to another namespace", () => {
    const { socket } = fixture();
    const pod = fixture();
    createBridge(socket, { name: "br0", mtu: undefined, mac });
    const namespace = netlink.openNamespace(pod.namespace.path);
    const peer = { name: "eth0", mac: parseMac("0a:58:0a:58:00:05"), descriptor: namespace.descriptor };
    createVeth(socket, { name: "veth0", mtu: 1300, master: readLink(socket, "br0").index, peer });
    namespace.close();
    const port = readLink(socket, "veth0");
    setAlias(socket, port, "berth pods c1:eth0");
    setPortUp(socket, port, true);
    setUp(pod.socket, readLink(pod.socket, "eth0"));
    expect(readLink(socket, "veth0")).toMatchObject({
      mtu: 1300,
      isUp: true,
      kind: "veth",
      alias: "berth pods c1:eth0",
      master: readLink(socket, "br0").index,
    });
    expect(readLink(pod.socket, "eth0")).toMatchObject({ mtu: 1300, isUp: true, mac: "0a:58:0a:58:00:05" });
    deleteLink(socket, "veth0");
    expect(findLink(pod.socket, "eth0")).toBeUndefined();
  });

  test("hairpin is set on the port", () => {
    const { socket, namespace } = fixture();
    const pod = namespaces.create();
    createBridge(socket, { name: "br0", mtu: undefined, mac });
    for (const [name, hairpin] of [
      ["veth0", true],
      ["veth1", false],
    ] as const) {
      const opened = netlink.openNamespace(pod.path);
      createVeth(socket, {
        name,
        mtu: 1500,
        master: readLink(socket, "br0").index,
        peer: { name, descriptor: opened.descriptor },
      });
      opened.close();
      setPortUp(socket, readLink(socket, name), hairpin);
    }
    expect(outputIn(namespace, "bridge", "-d", "link", "show", "dev", "veth0")).toContain("hairpin on");
    expect(outputIn(namespace, "bridge", "-d", "link", "show", "dev", "veth1")).toContain("hairpin off");
  });

  test("addresses and routes of both families are added, listed and removed", async () => {
    const { socket } = fixture();
    createBridge(socket, { name: "br0", mtu: undefined, mac });
    const link = readLink(socket, "br0");
    const other = readLink(socket, "lo");
    for (const text of ["10.88.0.1/16", "fd00::1/64"]) addAddress(socket, link, prefix(text));
    addAddress(socket, other, prefix("10.99.0.1/32"));
    expect(errorOf(() => addAddress(socket, link, prefix("10.88.0.1/16"))).code).toBe("EEXIST");
    const listed = () =>
      listAddresses(socket, link)
        .map(formatPrefix)
        .filter((text) => !text.startsWith("fe80"));
    expect(listed()).toEqual(["10.88.0.1/16", "fd00::1/64"]);
    addRoute(socket, link, { to: prefix("0.0.0.0/0"), gateway: ip("10.88.0.9") });
    expect(listRoutes(socket, 4).find(({ to }) => to.bits === 0)).toMatchObject({
      link: link.index,
      gateway: ip("10.88.0.9"),
    });
    addRoute(socket, link, { to: prefix("10.77.0.0/16"), gateway: ip("10.88.0.9") });
    for (const text of ["0.0.0.0/0", "10.77.0.0/16", "10.88.0.0/16"]) {
      const { bits } = prefix(text);
      const found = () =>
        listRoutes(socket, 4).filter(({ to }) => formatPrefix(to) === text || (bits === 0 && to.bits === 0));
      for (const route of [...found(), ...found()]) removeRoute(socket, route);
      expect([text, found()]).toEqual([text, []]);
    }
    const local = () =>
      ["10.88.0.1", "10.88.0.2", "fd00::1", "fd00::2", "192.0.2.1"].filter((text) => isLocalAddress(socket, ip(text)));
    // The kernel finishes an address of IPv6 a moment later, by itself.
    await pollUntil("the address of IPv6 is usable", 5000, () => local().includes("fd00::1"));
    expect(local()).toEqual(["10.88.0.1", "fd00::1"]);
    removeAddress(socket, link, prefix("10.88.0.1/16"));
    removeAddress(socket, link, prefix("10.88.0.1/16"));
    expect(listed()).toEqual(["fd00::1/64"]);
  });

  test("a list longer than one datagram is complete", () => {
    const { socket } = fixture();
    const names = Array.from({ length: 120 }, (_, index) => `br${index}`);
    for (const name of names) createBridge(socket, { name, mtu: undefined, mac });
    expect(
      listLinks(socket)
        .map(({ name }) => name)
        .filter((name) => name.startsWith("br")),
    ).toEqual(names);
  });

  test("links that are removed in one turn of the event loop are removed together, and no others", async () => {
    const { socket } = fixture();
    for (const name of ["br0", "br1", "br2", "br3"]) createBridge(socket, { name, mtu: undefined, mac });
    const removals: string[] = [];
    const counted: NetlinkSocket = {
      ...socket,
      request(request) {
        removals.push(request.what);
        return socket.request(request);
      },
    };
    const remove = createLinkRemoval(counted);
    await Promise.all([remove(["br0", "absent"]), remove(["br2"])]);
    expect(removals.filter((what) => what.startsWith("delete"))).toHaveLength(1);
    const names = () =>
      listLinks(socket)
        .map(({ name }) => name)
        .filter((name) => name !== "lo");
    expect(names()).toEqual(["br1", "br3"]);
    await remove(["absent"]);
    await remove(["br1"]);
    expect(names()).toEqual(["br3"]);
    socket.close();
    await expect(remove(["br3"])).rejects.toThrow(NetlinkError);
  });

  test("a change of nftables is made as a whole, or not at all", () => {
    const { socket } = fixture(NETLINK_NETFILTER);
    const map = newMap({
      table: "t",
      map: "m",
      key: ["ipv4_addr", "inet_service"],
      data: ["ipv4_addr", "inet_service"],
      id: 1,
    });
    const entry = {
      map: "m",
      key: new Uint8Array(8),
      data: Uint8Array.of(1, 2, 3, 4, 0, 80, 0, 0),
      comment: "c1",
      what: "a port",
    };
    expect(errorOf(() => change(socket, [newTable("t"), newChain("t", "a"), newRule("t", "b", [])]))).toMatchObject({
      code: "ENOENT",
      what: "add a rule to the nftables chain b of the table inet t",
    });
    expect(hasChain(socket, "t", "a")).toBe(false);
    change(socket, [newTable("t"), newChain("t", "a"), map]);
    addEntries(socket, "t", [entry]);
    // Again: all of it exists.
    change(socket, [newTable("t"), newChain("t", "a"), map]);
    addEntries(socket, "t", [entry]);
    expect(hasChain(socket, "t", "a")).toBe(true);
    expect(listEntries(socket, "t", "m")).toEqual([{ key: entry.key, data: entry.data }]);
    const other = { ...entry, data: Uint8Array.of(1, 2, 3, 5, 0, 80, 0, 0) };
    expect(["EBUSY", "EEXIST"]).toContain(errorOf(() => addEntries(socket, "t", [other])).code);
    const many = Array.from({ length: 600 }, (_, index) => ({ ...entry, key: be(index + 1) }));
    addEntries(socket, "t", many);
    expect(listEntries(socket, "t", "m")).toHaveLength(601);
    removeEntries(socket, "t", [{ ...entry, key: be(700) }, ...many]);
    expect(listEntries(socket, "t", "m")).toEqual([{ key: entry.key, data: entry.data }]);
    removeEntries(socket, "t", [entry, entry]);
    removeEntries(socket, "absent", [entry]);
    expect(listEntries(socket, "t", "m")).toEqual([]);
    expect(listEntries(socket, "t", "absent")).toEqual([]);
  });

  test("the generation of nftables changes with every change and with nothing else, and rules are counted by their chain", () => {
    const { socket } = fixture(NETLINK_NETFILTER);
    const generations = [readGeneration(socket)];
    const add = newRule("t", "a", []);
    for (const requests of [
      [newTable("t")],
      [newChain("t", "a"), newChain("t", "b")],
      [add, add],
      [flushChain("t", "a")],
    ]) {
      change(socket, requests);
      generations.push(readGeneration(socket));
    }
    expect(new Set(generations).size).toBe(5);
    change(socket, [add]);
    const last = readGeneration(socket);
    expect([...countRules(socket, "t")]).toEqual([["a", 1]]);
    expect([...countRules(socket, "absent")]).toEqual([]);
    expect(readGeneration(socket)).toBe(last);
  });

  test("a change of nftables that rests on a read is repeated as long as the rules change in between, sixteen times", () => {
    const { socket } = fixture(NETLINK_NETFILTER);
    change(socket, [newTable("t"), newChain("t", "a"), newChain("t", "b")]);
    for (const [changes, expected] of [
      [0, 1],
      [1, 2],
      [15, 16],
    ] as const) {
      let plans = 0;
      changeAsRead(socket, () => {
        plans += 1;
        const rules = countRules(socket, "t").get("a") ?? 0;
        if (plans <= changes) change(socket, [newRule("t", "a", [])]);
        return Array.from({ length: rules + 1 }, () => newRule("t", "b", []));
      });
      // The last read has seen all changes.
      const { a = 0, b = 0 } = Object.fromEntries(countRules(socket, "t"));
      expect({ plans, a, b }).toEqual({ plans: expected, a: changes, b: changes + 1 });
      change(socket, [flushChain("t", "a"), flushChain("t", "b")]);
    }
    const always = () => {
      change(socket, [newRule("t", "a", [])]);
      return [newRule("t", "b", [])];
    };
    expect(errorOf(() => changeAsRead(socket, always))).toMatchObject({ code: "ERESTART" });
    expect([...countRules(socket, "t")]).toEqual([["a", 16]]);
    // Other refusals are the caller's.
    expect(errorOf(() => changeAsRead(socket, () => [newRule("t", "absent", [])]))).toMatchObject({ code: "ENOENT" });
    changeAsRead(socket, () => []);
  });

  test("chains are listed, and those that forwarded packets enter have a policy", () => {
    const { socket } = fixture(NETLINK_NETFILTER);
    const forward = { type: "filter", hook: "forward", priority: 0 } as const;
    change(socket, [
      newTable("t"),
      newChain("t", "dropping", { ...forward, policy: "drop" }),
      newChain("t", "accepting", { ...forward, policy: "accept" }),
      newChain("t", "default", forward),
      newChain("t", "output", { ...forward, hook: "output", policy: "drop" }),
      newChain("t", "plain"),
    ]);
    const chains = listChains(socket);
    expect(chains.map(({ family, table, chain, forwardPolicy }) => [family, table, chain, forwardPolicy])).toEqual([
      ["inet", "t", "dropping", "drop"],
      ["inet", "t", "accepting", "accept"],
      ["inet", "t", "default", "accept"],
      ["inet", "t", "output", undefined],
      ["inet", "t", "plain", undefined],
    ]);
  });

  test("the rules of a table are listed in their order, and no others", () => {
    const { socket } = fixture(NETLINK_NETFILTER);
    const link = [loadMeta("oifname", 1), equals(1, new TextEncoder().encode("berth0".padEnd(16, "\0")))];
    change(socket, [
      newTable("t"),
      newTable("u"),
      newChain("t", "a"),
      newChain("t", "b"),
      newChain("u", "a"),
      newRule("t", "a", [...link, jump("b")]),
      newRule("t", "a", [drop]),
      newRule("u", "a", [leave]),
    ]);
    expect(listRules(socket, { family: "inet", table: "t" })).toEqual([
      {
        chain: "a",
        conditions: [{ kind: "link", side: "out", name: "berth0", isPrefix: false, isNegated: false }],
        verdict: { kind: "jump", chain: "b" },
      },
      { chain: "a", conditions: [], verdict: { kind: "drop" } },
    ]);
    expect(listRules(socket, { family: "ip", table: "t" })).toEqual([]);
  });

  test("the thread is back in its own namespace, after an error too", () => {
    const own = readlinkSync("/proc/thread-self/ns/net");
    const namespace = netlink.openNamespace(namespaces.create().path);
    expect(netlink.runIn(namespace, () => readlinkSync("/proc/thread-self/ns/net"))).not.toBe(own);
    expect(readlinkSync("/proc/thread-self/ns/net")).toBe(own);
    expect(() =>
      netlink.runIn(namespace, () => {
        throw new Error("inside");
      }),
    ).toThrow("inside");
    expect(readlinkSync("/proc/thread-self/ns/net")).toBe(own);
    namespace.close();
  });

  test("what is no namespace is not entered", () => {
    expect(errorOf(() => netlink.openNamespace("/run/netns/absent"))).toMatchObject({ code: "ENOENT" });
    const file = netlink.openNamespace("/proc/self/cmdline");
    expect(errorOf(() => netlink.runIn(file, () => 0))).toMatchObject({
      code: "EINVAL",
      what: "enter the network namespace /proc/self/cmdline",
    });
    file.close();
  });
});
