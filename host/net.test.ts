import { expect, test } from "bun:test";
import { addressesOf, createNet, defaultInterface } from "./net.ts";

const v4 = (address: string) => ({ address, family: "IPv4", internal: false });
const v6 = (address: string) => ({ address, family: "IPv6", internal: false });
const lo = [
  { address: "127.0.0.1", family: "IPv4", internal: true },
  { address: "::1", family: "IPv6", internal: true },
];

const rows: readonly [
  sentence: string,
  interfaces: Parameters<typeof addressesOf>[0],
  first: string | undefined,
  found: readonly string[],
][] = [
  ["loopback alone is no address", { lo }, undefined, []],
  ["IPv4 stands before IPv6", { eth0: [v6("2001:db8::1"), v4("192.0.2.1")] }, "eth0", ["192.0.2.1", "2001:db8::1"]],
  [
    "the default route's interface stands before the others, with both families",
    { cni0: [v4("10.0.0.1")], eth0: [v4("192.0.2.1"), v6("2001:db8::1")] },
    "eth0",
    ["192.0.2.1", "2001:db8::1", "10.0.0.1"],
  ],
  [
    "without a default route they stand as they come",
    { a: [v4("10.0.0.1")], b: [v4("10.0.0.2")] },
    undefined,
    ["10.0.0.1", "10.0.0.2"],
  ],
  [
    "link-local addresses are left out",
    { eth0: [v6("fe80::1"), v6("FE80::2"), v4("169.254.1.1"), v4("192.0.2.1")] },
    "eth0",
    ["192.0.2.1"],
  ],
  ["an interface may have none", { eth0: undefined, eth1: [v4("192.0.2.1")] }, "eth0", ["192.0.2.1"]],
];
for (const [sentence, interfaces, first, found] of rows)
  test(sentence, () => {
    expect(addressesOf(interfaces, first)).toEqual(found);
  });

const header = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";
const route = (name: string, destination: string, mask: string) =>
  `${name}\t${destination}\t010200C0\t0003\t0\t0\t0\t${mask}\t0\t0\t0`;
const routes: readonly [sentence: string, lines: readonly string[], found: string | undefined][] = [
  ["no routes at all", [], undefined],
  ["only a network", [route("eth0", "000200C0", "00FFFFFF")], undefined],
  [
    "a default route behind a network",
    [route("cni0", "0000000A", "000000FF"), route("eth0", "00000000", "00000000")],
    "eth0",
  ],
  [
    "of two default routes the first",
    [route("eth1", "00000000", "00000000"), route("eth0", "00000000", "00000000")],
    "eth1",
  ],
  ["half of all addresses, as VPNs route them, is not all", [route("tun0", "00000000", "00000080")], undefined],
];
for (const [sentence, lines, found] of routes)
  test(`default route: ${sentence}`, () => {
    expect(defaultInterface([header, ...lines, ""].join("\n"))).toBe(found);
  });

test("this machine's addresses are none of loopback's", () => {
  for (const address of createNet().addresses()) expect(address).not.toMatch(/^(127\.|::1$|fe80:)/);
});
