import { expect, test } from "bun:test";
import { pickSubnet } from "./bed-record.ts";

test("the subnet of a test bed follows from its id and lies below 10.192.0.0/10", () => {
  expect(pickSubnet("00000000", new Set())).toBe("10.192.0.0/24");
  expect(pickSubnet("ffffffff", new Set())).toBe("10.255.255.0/24");
  expect(pickSubnet("0102abcd", new Set())).toBe("10.193.2.0/24");
});

test("pickSubnet skips subnets in use and wraps around at the end", () => {
  expect(pickSubnet("ffff0000", new Set(["10.255.255.0/24", "10.192.0.0/24"]))).toBe("10.192.1.0/24");
});
