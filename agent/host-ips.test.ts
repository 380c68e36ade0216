import { expect, test } from "bun:test";
import { chooseHostIPs } from "./host-ips.ts";

const own = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const rows: readonly (readonly [
  sentence: string,
  told: readonly string[],
  own: readonly string[],
  chosen: string[],
])[] = [
  ["a node that is told nothing has its first address", [], own, ["192.0.2.1"]],
  ["what it is told counts, whatever it has", ["198.51.100.7"], own, ["198.51.100.7"]],
  ["one of each family too", ["198.51.100.7", "2001:db8::7"], own, ["198.51.100.7", "2001:db8::7"]],
  ["0.0.0.0 prefers IPv4", ["0.0.0.0"], ["2001:db8::1", "192.0.2.1"], ["192.0.2.1"]],
  [":: prefers IPv6", ["::"], own, ["2001:db8::1"]],
  ["a preference that cannot be met is none", ["::"], ["192.0.2.1"], ["192.0.2.1"]],
  ["a node without any address has none", ["::"], [], []],
];
for (const [sentence, told, has, chosen] of rows)
  test(sentence, () => {
    expect(chooseHostIPs(told, has)).toEqual(chosen);
  });
