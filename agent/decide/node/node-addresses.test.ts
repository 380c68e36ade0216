import { expect, test } from "bun:test";
import type { NodeAddress } from "../../../proto/kubernetes/gen/types.ts";
import { hostIPsOf } from "./node-addresses.ts";

const internal = (address: string): NodeAddress => ({ type: "InternalIP", address });
const external = (address: string): NodeAddress => ({ type: "ExternalIP", address });
const hostname: NodeAddress = { type: "Hostname", address: "node-a" };

const rows: readonly [sentence: string, addresses: readonly NodeAddress[], told: string][] = [
  ["a node of one address tells that", [hostname, internal("192.0.2.1")], "192.0.2.1"],
  ["an internal one comes before an external one", [external("203.0.113.1"), internal("192.0.2.1")], "192.0.2.1"],
  ["an external one is better than none", [hostname, external("203.0.113.1")], "203.0.113.1"],
  ["the first counts", [internal("192.0.2.2"), internal("192.0.2.1")], "192.0.2.2"],
  [
    "the first of the other family is the second",
    [internal("2001:db8::1"), internal("2001:db8::2"), internal("192.0.2.1"), internal("192.0.2.2")],
    "2001:db8::1,192.0.2.1",
  ],
  [
    "which may be an external one",
    [external("2001:db8::1"), internal("192.0.2.1"), internal("192.0.2.2")],
    "192.0.2.1,2001:db8::1",
  ],
  ["a name is no address", [hostname, { type: "InternalDNS", address: "a.example" }], ""],
  ["a node without addresses tells none", [], ""],
  ["what is none spoils all", [internal("192.0.2.1"), internal("a.example")], ""],
];
for (const [sentence, addresses, told] of rows)
  test(sentence, () => {
    expect(hostIPsOf(addresses).join()).toBe(told);
  });
