import { describe, expect, test } from "bun:test";
import { parseIp } from "../../host/ip-address.ts";
import { encodeAttributes } from "../../host/netlink/codec.ts";
import { type HostPort, readNetworkConf } from "./network-conf.ts";
import { addressOfEntry, findMissingRules, hostPortEntries, networkRequests } from "./ruleset.ts";

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

test("a connection leaves a network with several subnets if it goes to none of them", () => {
  const ranges = [
    [{ subnet: "10.88.0.0/24" }, { subnet: "10.99.0.0/24" }],
    [{ subnet: "fd00:88::/64" }, { subnet: "fd00:99::/64" }],
  ];
  const rulesFor = (change: object) =>
    networkRequests(readNetworkConf({ name: "pods", bridge: "berth0", ranges, ...change }))
      .slice(2)
      .map(({ attributes }) => hex(encodeAttributes(attributes)));
  const without = rulesFor({ ipMasq: false });
  const ofMasquerade = rulesFor({}).filter((rule) => !without.includes(rule));
  /** How often each rule compares its source or its destination with these addresses. */
  const countsOf = (...addresses: readonly string[]) => {
    const bytes = addresses.map((address) => hex(parseIp(address) ?? new Uint8Array()));
    return ofMasquerade.map((rule) => bytes.map((each) => rule.split(each).length - 1));
  };
  expect(countsOf("10.88.0.0", "10.99.0.0")).toEqual([[2, 1], [1, 2], [0, 0], [0, 0]]); // biome-ignore format: one row
  expect(countsOf("fd00:88::", "fd00:99::")).toEqual([[0, 0], [0, 0], [2, 1], [1, 2]]); // biome-ignore format: one row
});

describe("the first chain of a network with both families that has too few rules", () => {
  const conf = (change: object = {}) =>
    readNetworkConf({
      ...{ name: "pods", bridge: "berth0", ranges: [[{ subnet: "10.88.0.0/24" }], [{ subnet: "fd00:88::/64" }]] },
      ...change,
    });
  const whole = { guard: 2, "host-ports": 4, prerouting: 1, output: 2, "masquerade-pods": 7 };
  const rows: readonly (readonly [string, Readonly<Record<string, number>>, object, string | undefined])[] = [
    ["is none where all rules are there", whole, {}, undefined],
    ["is none where another program has added rules", { ...whole, guard: 3, other: 1 }, {}, undefined],
    ["is guard after a flush of the table", {}, {}, "guard has 0 of 2"],
    ["is guard without one of its rules", { ...whole, guard: 1 }, {}, "guard has 1 of 2"],
    ["is the one that looks up host ports", { ...whole, "host-ports": 0 }, {}, "host-ports has 0 of 4"],
    ["is the hook of other machines", { ...whole, prerouting: 0 }, {}, "prerouting has 0 of 1"],
    ["is the hook of the node", { ...whole, output: 1 }, {}, "output has 1 of 2"],
    ["is that of the network", { ...whole, "masquerade-pods": 6 }, {}, "masquerade-pods has 6 of 7"],
    ["is that of the network itself, not of another one", whole, { name: "lan" }, "masquerade-lan has 0 of 7"],
    ["needs fewer rules without ipMasq", { ...whole, "masquerade-pods": 5 }, { ipMasq: false }, undefined],
  ];
  for (const [name, counts, change, expected] of rows)
    test(name, () => {
      const missing = findMissingRules(conf(change), new Map(Object.entries(counts)));
      const text = missing && `${missing.chain} has ${missing.present} of ${missing.needed}`;
      expect(text).toBe(expected as string);
    });
});
