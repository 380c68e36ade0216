import { expect, test } from "bun:test";
import { join } from "node:path";
import { createNet, type DefaultInterfaces, defaultInterfaces, globalAddressesOf, resolveName } from "./net.ts";

const v4 = (address: string) => ({ address, family: "IPv4", internal: false });
const v6 = (address: string) => ({ address, family: "IPv6", internal: false });
const lo = [
  { address: "127.0.0.1", family: "IPv4", internal: true },
  { address: "::1", family: "IPv6", internal: true },
];

const rows: readonly [
  sentence: string,
  interfaces: Parameters<typeof globalAddressesOf>[0],
  defaults: DefaultInterfaces,
  found: readonly string[],
][] = [
  ["loopback is not an address", { lo }, {}, []],
  [
    "IPv4 comes before IPv6",
    { eth0: [v6("2001:db8::1"), v4("192.0.2.1")] },
    { IPv4: "eth0", IPv6: "eth0" },
    ["192.0.2.1", "2001:db8::1"],
  ],
  [
    "the interface of the default route comes first, with both families",
    { cni0: [v4("10.0.0.1")], eth0: [v4("192.0.2.1"), v6("2001:db8::1")] },
    { IPv4: "eth0" },
    ["192.0.2.1", "2001:db8::1", "10.0.0.1"],
  ],
  [
    "without an IPv4 route the IPv6 route's address comes before the IPv4 address of a bridge",
    { docker0: [v4("172.17.0.1"), v6("2001:db8:1::1")], eth0: [v6("2001:db8::1")] },
    { IPv6: "eth0" },
    ["2001:db8::1", "172.17.0.1", "2001:db8:1::1"],
  ],
  [
    "each family has a default route of its own",
    { eth0: [v4("192.0.2.1"), v6("2001:db8::1")], eth1: [v4("192.0.2.2"), v6("2001:db8::2")] },
    { IPv4: "eth1", IPv6: "eth0" },
    ["192.0.2.2", "2001:db8::1", "192.0.2.1", "2001:db8::2"],
  ],
  [
    "without a default route the order stays",
    { a: [v4("10.0.0.1")], b: [v4("10.0.0.2")] },
    {},
    ["10.0.0.1", "10.0.0.2"],
  ],
  [
    "link-local addresses are left out",
    { eth0: [v6("fe80::1"), v6("FE80::2"), v4("169.254.1.1"), v4("192.0.2.1")] },
    { IPv4: "eth0" },
    ["192.0.2.1"],
  ],
  ["an interface may have no addresses", { eth0: undefined, eth1: [v4("192.0.2.1")] }, { IPv4: "eth0" }, ["192.0.2.1"]],
];
for (const [sentence, interfaces, defaults, found] of rows)
  test(sentence, () => {
    expect(globalAddressesOf(interfaces, defaults)).toEqual(found);
  });

const header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
const route = (name: string, destination: string, mask: string) =>
  `${name}\t${destination}\t010200C0\t0003\t0\t0\t0\t${mask}\t0\t0\t0`;
const routes: readonly [sentence: string, lines: readonly string[], found: string | undefined][] = [
  ["no routes at all", [], undefined],
  ["only a route to a network", [route("eth0", "000200C0", "00FFFFFF")], undefined],
  [
    "a default route after a route to a network",
    [route("cni0", "0000000A", "000000FF"), route("eth0", "00000000", "00000000")],
    "eth0",
  ],
  [
    "the first of two default routes",
    [route("eth1", "00000000", "00000000"), route("eth0", "00000000", "00000000")],
    "eth1",
  ],
  [
    "a route to half of all addresses, as VPNs add them, is not a default route",
    [route("tun0", "00000000", "00000080")],
    undefined,
  ],
];
for (const [sentence, lines, found] of routes)
  test(`default route of IPv4: ${sentence}`, () => {
    expect(defaultInterfaces([header, ...lines, ""].join("\n"), undefined)).toEqual({ IPv4: found, IPv6: undefined });
  });

const none = "0".repeat(32);
const route6 = (name: string, destination: string, length: string, flags: string) =>
  `${destination} ${length} ${none} 00 fd000000000000000000000000000001 00000400 00000003 00000000 ${flags}     ${name}`;
const network6 = route6("cni0", "fd000000000000000000000000000000", "40", "00000001");
/** The kernel's entry for unreachable destinations; every such file contains it. */
const unreachable = route6("lo", none, "00", "00200200");
const routes6: readonly [sentence: string, lines: readonly string[], found: string | undefined][] = [
  ["no routes at all", [], undefined],
  ["a route to a network, and everything else unreachable", [network6, unreachable], undefined],
  ["a default route between others", [network6, route6("eth0", none, "00", "00000003"), unreachable], "eth0"],
  ["a route to half of all addresses is not a default route", [route6("tun0", none, "01", "00000003")], undefined],
];
for (const [sentence, lines, found] of routes6)
  test(`default route of IPv6: ${sentence}`, () => {
    expect(defaultInterfaces(undefined, [...lines, ""].join("\n"))).toEqual({ IPv4: undefined, IPv6: found });
  });

test("this machine's addresses contain no loopback address", () => {
  for (const address of createNet().addresses()) expect(address).not.toMatch(/^(127\.|::1$|fe80:)/);
});

test("without route files there are no default routes", () => {
  expect(() => createNet("/nowhere").addresses()).not.toThrow();
});

/** In a network namespace of its own, where nothing has an address until `act` has run; it prints what it finds. */
async function runInNetworkNamespace(act: string) {
  const program = `
    import { readdirSync, readlinkSync } from "node:fs";
    import { createNet } from ${JSON.stringify(join(import.meta.dirname, "net.ts"))};
    const sockets = () => readdirSync("/proc/self/fd").filter((fd) => {
      // The descriptor of the listing itself is closed by then.
      try { return readlinkSync("/proc/self/fd/" + fd).startsWith("socket:"); } catch { return false; }
    }).length;
    const ip = (...args) => Bun.spawnSync(["ip", ...args]).exitCode;
    const net = createNet();
    const ending = new AbortController();
    const before = sockets();
    ${act}
  `;
  const child = Bun.spawn(["unshare", "--net", process.execPath, "-e", program], { stdout: "pipe" });
  const [output] = await Promise.all([child.stdout.text(), child.exited]);
  return output.trim().split("\n");
}

test("a new address is reported, until the signal aborts", async () => {
  const output = await runInNetworkNamespace(`
    console.log(net.addresses().length);
    await new Promise((resolve) => { net.watch(resolve, ending.signal); ip("link", "set", "lo", "up"); });
    net.watch(() => {
      if (net.addresses().length === 0) return;
      console.log(net.addresses().join());
      ending.abort();
    }, ending.signal);
    ip("link", "add", "one", "type", "veth", "peer", "name", "two");
    ip("address", "add", "192.0.2.7/24", "dev", "one");
    // An address counts when its link is up, like a cable that is plugged in last.
    ip("link", "set", "one", "up");
    ip("link", "set", "two", "up");
    await new Promise((resolve) => ending.signal.addEventListener("abort", resolve));
    while (sockets() > before) await new Promise((resolve) => setImmediate(resolve));
    console.log("closed");
  `);
  expect(output).toEqual(["0", "192.0.2.7", "closed"]);
});

test("an interface has its addresses without a carrier too, in any notation, and so has a loopback", async () => {
  const output = await runInNetworkNamespace(`
    ip("link", "set", "lo", "up");
    ip("address", "add", "198.51.100.1/32", "dev", "lo");
    ip("link", "add", "one", "type", "veth", "peer", "name", "two");
    ip("link", "set", "one", "up");
    ip("address", "add", "192.0.2.7/24", "dev", "one");
    ip("address", "add", "2001:db8::7/64", "dev", "one", "nodad");
    console.log(net.addresses().length);
    console.log(["198.51.100.1", "192.0.2.7", "2001:DB8:0::0007", "::1"].map(net.hasAddress).join());
    console.log(["192.0.2.0", "192.0.2.70", "192.0.2.255", "2001:db8::8"].map(net.hasAddress).join());
  `);
  expect(output).toEqual(["0", "true,true,true,true", "false,false,false,false"]);
});

test("a flood of changes that overflows the socket's buffer does not end the watch", async () => {
  const output = await runInNetworkNamespace(`
    let onChange = () => {};
    net.watch(() => onChange(), ending.signal);
    // One program that makes more changes than the socket's buffer holds, while this process is blocked.
    const many = Array.from({ length: 4000 }, (_, i) => "address add 127.1." + (i >> 8) + "." + (i & 255) + "/8 dev lo").join("\\n");
    Bun.spawnSync(["ip", "-batch", "-"], { stdin: Buffer.from(many) });
    await new Promise((resolve) => { onChange = resolve; });
    // Each of these events may be the last of the old ones.
    for (let i = 0; i < 3; i++) {
      const changed = new Promise((resolve) => { onChange = resolve; });
      ip("address", "add", "127.2.0." + (i + 1) + "/8", "dev", "lo");
      await changed;
    }
    console.log("changed");
    ending.abort();
  `);
  expect(output).toEqual(["changed"]);
});

test("a host name is resolved, or has no addresses", async () => {
  expect(await resolveName("localhost")).toContain("127.0.0.1");
  expect(await resolveName("no.such.name.invalid")).toEqual([]);
});
