import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  formatIp,
  formatPrefix,
  ipFromNumber,
  ipToNumber,
  isInNetwork,
  maskOf,
  networkOf,
  parseIp,
  parsePrefix,
} from "./ip-address.ts";

describe("an address is parsed and written", () => {
  test.each<[string, string]>([
    ["10.88.0.5", "10.88.0.5"],
    ["0.0.0.0", "0.0.0.0"],
    ["255.255.255.255", "255.255.255.255"],
    ["::", "::"],
    ["::1", "::1"],
    ["fd00::", "fd00::"],
    ["FD00:0:0:0:0:0:0:00a", "fd00::a"],
    ["fd00:0:0:1:0:0:0:1", "fd00:0:0:1::1"],
    ["fd00:1:0:2:3:4:5:6", "fd00:1:0:2:3:4:5:6"],
    ["1:0:0:2:0:0:3:4", "1::2:0:0:3:4"],
    ["::ffff:10.1.2.3", "::ffff:a01:203"],
  ])("%s as %s", (text, expected) => {
    expect(formatIp(parseIp(text) ?? new Uint8Array())).toBe(expected);
  });

  test.each([
    "",
    "10.88.0",
    "10.88.0.256",
    "10.88.0.05",
    "10.88.0.5.6",
    "10.88.0.-5",
    " 10.88.0.5",
    "0x0a.0.0.1",
    ":",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    "12345::",
    "g::",
    "10.1.2.3::",
    "::10.1.2",
    "fe80::1%eth0",
  ])("%p is none", (text) => {
    expect(parseIp(text)).toBeUndefined();
  });

  test("any bytes come back", () => {
    const bytes = fc.oneof(
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      fc.array(fc.constantFrom(0, 0, 1, 255), { minLength: 16, maxLength: 16 }).map((list) => Uint8Array.from(list)),
    );
    fc.assert(
      fc.property(bytes, (address) => {
        expect([...(parseIp(formatIp(address)) ?? [])]).toEqual([...address]);
        expect([...ipFromNumber(ipToNumber(address), address.length)]).toEqual([...address]);
        // The same text as a browser writes.
        if (address.length === 16)
          expect(new URL(`http://[${formatIp(address)}]`).hostname).toBe(`[${formatIp(address)}]`);
      }),
    );
  });
});

test.each<[string, string | undefined]>([
  ["10.88.0.5/16", "10.88.0.0/16"],
  ["10.88.0.5/0", "0.0.0.0/0"],
  ["10.88.255.255/32", "10.88.255.255/32"],
  ["10.88.255.255/17", "10.88.128.0/17"],
  ["fd00::ffff/120", "fd00::ff00/120"],
  ["10.88.0.5", undefined],
  ["10.88.0.5/33", undefined],
  ["10.88.0.5/-1", undefined],
  ["10.88.0.5/016", undefined],
  ["10.88.0.5/16/1", undefined],
  ["fd00::/129", undefined],
])("the network of %s is %s", (text, expected) => {
  const prefix = parsePrefix(text);
  expect(prefix && formatPrefix(networkOf(prefix))).toBe(expected as string);
});

test.each<[number, number, string]>([
  [0, 4, "0.0.0.0"],
  [9, 4, "255.128.0.0"],
  [32, 4, "255.255.255.255"],
  [65, 16, "ffff:ffff:ffff:ffff:8000::"],
])("the mask of %d bits of %d bytes is %s", (bits, length, expected) => {
  expect(formatIp(maskOf(bits, length))).toBe(expected);
});

test.each<[string, string, boolean]>([
  ["10.88.0.5", "10.88.0.0/24", true],
  ["10.88.1.5", "10.88.0.0/24", false],
  ["fd00::5", "fd00::/64", true],
  ["10.88.0.5", "fd00::/0", false],
])("%s in %s: %p", (address, network, expected) => {
  const prefix = parsePrefix(network);
  expect(prefix && isInNetwork(parseIp(address) ?? new Uint8Array(), prefix)).toBe(expected);
});
