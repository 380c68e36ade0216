import { describe, expect, test } from "bun:test";
import { formatIp, ipFromNumber, parseIp } from "../../host/ip-address.ts";
import { type AddressRange, nextFreeAddress, rangeOf, readRange } from "./address-range.ts";

const ends = ({ subnet, first, last, gateway }: AddressRange) =>
  [first, last]
    .map((number) => formatIp(ipFromNumber(number, subnet.bytes.length)))
    .concat(formatIp(gateway))
    .join(" ");

describe("a range has its first and last address and its gateway", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["by the subnet", { subnet: "10.88.0.0/24" }, "10.88.0.1 10.88.0.254 10.88.0.1"],
    ["of the smallest subnet", { subnet: "10.88.0.4/30" }, "10.88.0.5 10.88.0.6 10.88.0.5"],
    ["of IPv6, which has no broadcast address", { subnet: "fd00::/120" }, "fd00::1 fd00::ff fd00::1"],
    [
      "as they are given",
      { subnet: "10.88.0.0/24", rangeStart: "10.88.0.10", rangeEnd: "10.88.0.20", gateway: "10.88.0.254" },
      "10.88.0.10 10.88.0.20 10.88.0.254",
    ],
  ])("%s", (_name, value, expected) => {
    expect(ends(readRange(value, "ranges[0][0]"))).toBe(expected);
  });

  test.each<[string, unknown, string]>([
    ["without a subnet", {}, 'ranges[0][0].subnet is undefined; a network such as "10.88.0.0/16" is expected'],
    ["that is no object", "10.88.0.0/16", "ranges[0][0].subnet is undefined"],
    ["with host bits", { subnet: "10.88.0.1/24" }, "10.88.0.1/24 has host bits set; the network is 10.88.0.0/24"],
    ["that is too small", { subnet: "10.88.0.0/31" }, "10.88.0.0/31 is too small"],
    [
      "that ends before it begins",
      { subnet: "10.88.0.0/24", rangeStart: "10.88.0.9", rangeEnd: "10.88.0.8" },
      "rangeStart 10.88.0.9 is above rangeEnd 10.88.0.8",
    ],
    [
      "with a gateway elsewhere",
      { subnet: "10.88.0.0/24", gateway: "10.89.0.1" },
      "ranges[0][0].gateway 10.89.0.1 is not in the subnet 10.88.0.0/24",
    ],
    [
      "with a gateway that is no address",
      { subnet: "10.88.0.0/24", gateway: "gw" },
      'gateway is "gw"; an IP address is',
    ],
  ])("not %s", (_name, value, reason) => {
    expect(() => readRange(value, "ranges[0][0]")).toThrow(reason);
  });
});

const range = (subnet: string, rangeStart = "", rangeEnd = "") => readRange({ subnet, rangeStart, rangeEnd }, "range");
const small = range("10.88.0.0/29");
const next = (ranges: readonly AddressRange[], taken: readonly string[], after?: string) => {
  const found = nextFreeAddress({
    ranges,
    isTaken: (address) => taken.includes(formatIp(address)),
    after: after === undefined ? undefined : parseIp(after),
  });
  return found && formatIp(found.address);
};

describe("the next address", () => {
  const all = [2, 3, 4, 5, 6].map((last) => `10.88.0.${last}`);
  test.each<[string, string | undefined, string | undefined]>([
    ["is the first behind the gateway", next([small], []), "10.88.0.2"],
    ["is the first that is free", next([small], ["10.88.0.2", "10.88.0.3"]), "10.88.0.4"],
    ["follows the last one, though an earlier one is free", next([small], [], "10.88.0.4"), "10.88.0.5"],
    ["begins again at the end", next([small], [], "10.88.0.6"), "10.88.0.2"],
    ["may be the last one itself, if no other is free", next([small], all.slice(0, 4), "10.88.0.6"), "10.88.0.6"],
    ["is none if all are taken", next([small], all), undefined],
    ["is none if all are taken, behind the last one too", next([small], all, "10.88.0.4"), undefined],
    [
      "comes from the second range of a set when the first one is full",
      next([small, range("10.89.0.0/29")], all),
      "10.89.0.2",
    ],
    ["comes from the range of the last one", next([small, range("10.89.0.0/29")], [], "10.89.0.3"), "10.89.0.4"],
    [
      "begins at the first range behind the end of the second",
      next([small, range("10.89.0.0/29")], [], "10.89.0.6"),
      "10.88.0.2",
    ],
    ["skips a gateway within the range", next([range("10.88.0.0/29", "10.88.0.1", "10.88.0.2")], []), "10.88.0.2"],
    ["starts again if the ranges have changed", next([small], [], "10.99.0.4"), "10.88.0.2"],
    ["of a large network of IPv6 is found at once", next([range("fd00::/64")], ["fd00::2"]), "fd00::3"],
  ])("%s", (_name, found, expected) => {
    expect(found).toBe(expected as string);
  });
});

test.each<[string, boolean]>([
  ["10.88.0.2", true],
  ["10.88.0.6", true],
  ["10.88.0.1", false],
  ["10.88.0.7", false],
  ["fd00::2", false],
])("a pod may ask for %s: %p", (address, expected) => {
  expect(rangeOf(parseIp(address) ?? new Uint8Array(), [small]) !== undefined).toBe(expected);
});
