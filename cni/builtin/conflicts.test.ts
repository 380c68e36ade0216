import { expect, test } from "bun:test";
import { formatPrefix, parseIp, parsePrefix } from "../../host/ip-address.ts";
import { findConflictingPath } from "./conflicts.ts";

const BRIDGE = 7;
const prefix = (text: string) => parsePrefix(text) ?? { bytes: new Uint8Array(4), bits: 0 };

/** `10.1.0.5/24 @2` is an address of link 2; `0.0.0.0/0 via 10.1.0.1 @2` and `10.1.0.0/24 @2` are routes over it. */
function readLine(line: string) {
  const [, to = "", gateway, link = ""] = /^(\S+)(?: via (\S+))? @(\d+)$/.exec(line) ?? [];
  return { to: prefix(to), gateway: gateway === undefined ? undefined : parseIp(gateway), link: Number(link) };
}

test.each<[string, readonly string[], readonly string[], string | undefined]>([
  ["nothing", [], [], undefined],
  ["the bridge's own address and route", ["10.241.0.1/24 @7"], ["10.241.0.0/24 @7"], undefined],
  ["a neighbouring network", ["10.241.1.5/24 @2"], ["10.241.1.0/24 @2", "0.0.0.0/0 via 10.241.1.1 @2"], undefined],
  ["a larger network with the address outside", ["10.241.7.5/16 @2"], ["10.241.0.0/16 @2"], undefined],
  ["an address inside", ["10.241.0.5/16 @2"], ["10.241.0.0/16 @2"], "address 10.241.0.5 @2"],
  ["the same network on another bridge", ["10.241.0.1/24 @3"], [], "address 10.241.0.1 @3"],
  ["a gateway inside", [], ["0.0.0.0/0 via 10.241.0.1 @2"], "gateway 10.241.0.1 @2"],
  ["a network inside", [], ["10.241.0.64/26 @2"], "network 10.241.0.64/26 @2"],
  ["the same network behind a gateway", [], ["10.241.0.0/24 via 10.9.0.1 @2"], "network 10.241.0.0/24 @2"],
  ["a single address", ["10.241.0.9/32 @1"], ["10.241.0.9/32 @1"], undefined],
  ["a route without a link", [], ["10.241.0.0/24 @0"], undefined],
  ["the other family", ["fd00::5/64 @2"], ["fd00::/64 @2"], "address fd00::5 @2"],
])("the node has %s", (_name, addresses, routes, expected) => {
  const paths = {
    addresses: addresses.map(readLine).map(({ to, link }) => ({ ...to, link })),
    routes: routes.map(readLine),
  };
  const found = findConflictingPath([prefix("10.241.0.0/24"), prefix("fd00::/64")], paths, BRIDGE);
  expect(found && `${found.kind} ${found.target} @${found.link}`).toBe(expected);
  const subnet = expected?.includes("fd00") === true ? "fd00::/64" : "10.241.0.0/24";
  expect(found && formatPrefix(found.subnet)).toBe(expected && subnet);
});
