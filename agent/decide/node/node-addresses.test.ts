import { expect, test } from "bun:test";
import type { NodeAddress } from "../../../proto/kubernetes/gen/types.ts";
import { hostIPsOf } from "./node-addresses.ts";

const internal = (address: string): NodeAddress => ({ type: "InternalIP", address });
const external = (address: string): NodeAddress => ({ type: "ExternalIP", address });
const hostname: NodeAddress = { type: "Hostname", address: "node-a" };

const rows: readonly [sentence: string, addresses: readonly NodeAddress[], reported: string][] = [
  ["a node with one address has that host IP", [hostname, internal("192.0.2.1")], "192.0.2.1"],
  ["an internal address comes before an external one", [external("203.0.113.1"), internal("192.0.2.1")], "192.0.2.1"],
  ["an external address is used if there is no internal one", [hostname, external("203.0.113.1")], "203.0.113.1"],
  ["the first address counts", [internal("192.0.2.2"), internal("192.0.2.1")], "192.0.2.2"],
  [
    "the first address of the other family is the second host IP",
    [internal("2001:db8::1"), internal("2001:db8::2"), internal("192.0.2.1"), internal("192.0.2.2")],
    "2001:db8::1,192.0.2.1",
  ],
  [
    "the second host IP may be an external address",
    [external("2001:db8::1"), internal("192.0.2.1"), internal("192.0.2.2")],
    "192.0.2.1,2001:db8::1",
  ],
  ["a host name is not an address", [hostname, { type: "InternalDNS", address: "a.example" }], ""],
  ["a node without addresses has no host IPs", [], ""],
  ["one malformed address leaves no host IPs", [internal("192.0.2.1"), internal("a.example")], ""],
];
for (const [sentence, addresses, expected] of rows)
  test(sentence, () => {
    expect(hostIPsOf(addresses).join()).toBe(expected);
  });
