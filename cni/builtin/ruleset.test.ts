import { describe, expect, test } from "bun:test";
import { parseIp } from "../../host/ip-address.ts";
import type { HostPort } from "./network-conf.ts";
import { addressOfEntry, hostPortEntries } from "./ruleset.ts";

const ipv4 = parseIp("10.88.0.5") ?? new Uint8Array();
const ipv6 = parseIp("fd00::5") ?? new Uint8Array();
const port: HostPort = { hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" };
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex");
const entries = (change: Partial<HostPort>, addresses = [ipv4, ipv6]) =>
  hostPortEntries({ ...port, ...change }, addresses, "pods c1:eth0").map(({ map, key, data, what }) => [
    map,
    hex(key),
    hex(data),
    what,
  ]);

const zeros = "00".repeat(16);
const fd005 = "fd00000000000000" + "0000000000000005";

describe("the map entries of a host port", () => {
  test.each<[string, Partial<HostPort>, string[][]]>([
    [
      "one for each family of the pod",
      {},
      [
        ["host-ports-4", "00000000" + "06000000" + "1f900000", "0a580005" + "00500000", "the host port 8080/tcp"],
        ["host-ports-6", `${zeros}060000001f900000`, `${fd005}00500000`, "the host port 8080/tcp"],
      ],
    ],
    [
      "for an address of the node alone",
      { protocol: "udp", hostIP: "127.0.0.1" },
      [
        [
          "host-ports-4",
          "7f000001" + "11000000" + "1f900000",
          "0a580005" + "00500000",
          "the host port 127.0.0.1 8080/udp",
        ],
      ],
    ],
    [
      "for IPv6 alone, if the address says so",
      { protocol: "sctp", hostIP: "::" },
      [["host-ports-6", `${zeros}840000001f900000`, `${fd005}00500000`, "the host port :: 8080/sctp"]],
    ],
  ])("%s", (_name, change, expected) => {
    expect(entries(change)).toEqual(expected);
  });

  test("of a pod without the family of the host address are none", () => {
    expect(entries({ hostIP: "::1" }, [ipv4])).toEqual([]);
  });
  test("lead to the first address of a family", () => {
    expect(entries({}, [ipv4, parseIp("10.99.0.5") ?? ipv4])).toHaveLength(1);
  });
  test("say to which pod they lead", () => {
    for (const entry of hostPortEntries(port, [ipv4, ipv6], "pods c1:eth0"))
      expect(hex(addressOfEntry(entry.map, entry))).toBe(entry.map === "host-ports-4" ? hex(ipv4) : hex(ipv6));
  });
});
