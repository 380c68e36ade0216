import { expect, test } from "bun:test";
import { podIPsOf } from "./pod-ips.ts";

const rows: readonly [name: string, addresses: readonly string[], hostIPs: readonly string[], expected: string][] = [
  ["one", ["10.0.0.2"], ["192.0.2.1"], "10.0.0.2"],
  ["none", [], ["192.0.2.1"], ""],
  [
    "two, in the order of the node's families",
    ["fd00::2", "10.0.0.2"],
    ["192.0.2.1", "2001:db8::1"],
    "10.0.0.2,fd00::2",
  ],
  ["two, of a node that prefers IPv6", ["10.0.0.2", "fd00::2"], ["2001:db8::1", "192.0.2.1"], "fd00::2,10.0.0.2"],
  ["two, of a node without an address", ["fd00::2", "10.0.0.2"], [], "10.0.0.2,fd00::2"],
  ["only of the other family", ["fd00::2"], ["192.0.2.1"], "fd00::2"],
  ["more than one of a family", ["10.0.0.2", "10.9.0.2", "fd00::2", "fd00::3"], ["192.0.2.1"], "10.0.0.2,fd00::2"],
];
for (const [name, addresses, hostIPs, expected] of rows)
  test(`the addresses of a pod that has ${name}: ${expected}`, () => {
    expect(podIPsOf(addresses, hostIPs).join()).toBe(expected);
  });
