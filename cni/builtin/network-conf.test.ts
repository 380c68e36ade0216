import { describe, expect, test } from "bun:test";
import { CniError } from "../error.ts";
import { readNetworkConf, readNetworkName, readValidAttachments } from "./network-conf.ts";

const conf = { cniVersion: "1.1.0", name: "pods", type: "berth", ranges: [[{ subnet: "10.88.0.0/16" }]] };
const withRuntime = (runtimeConfig: unknown) => ({ ...conf, runtimeConfig });

test("the shortest configuration has the defaults", () => {
  expect(readNetworkConf(conf)).toMatchObject({
    name: "pods",
    bridge: "berth0",
    mtu: undefined,
    ipMasq: true,
    hairpinMode: true,
    isDefaultGateway: true,
    ips: [],
    mac: undefined,
    hostPorts: [],
    bandwidth: { ingressBytes: 0, ingressBurstBytes: 0, egressBytes: 0, egressBurstBytes: 0 },
  });
});

test("the runtime's ranges replace those of the file", () => {
  const { ranges } = readNetworkConf(
    withRuntime({ ipRanges: [[{ subnet: "10.1.0.0/24" }], [{ subnet: "fd00::/64" }]] }),
  );
  expect(ranges.map(([range]) => range?.subnet.bits)).toEqual([24, 64]);
});

test("ranges may be those of the runtime alone, and missing where it hands none over", () => {
  const { ranges: _, ...without } = conf;
  const ipRanges = [[{ subnet: "10.1.0.0/24" }]];
  expect(readNetworkConf({ ...without, runtimeConfig: { ipRanges } }).ranges.length).toBe(1);
  expect(() => readNetworkConf(without)).toThrow("ranges is undefined");
  expect(readNetworkConf(without, { needsRanges: false }).ranges).toEqual([]);
  expect(() => readNetworkConf({ ...without, ranges: [[{}]] }, { needsRanges: false })).toThrow("ranges[0][0].subnet");
});

test("what the runtime hands over is read in the plugin's units", () => {
  const found = readNetworkConf(
    withRuntime({
      ips: ["10.88.0.9/16", "10.88.0.10"],
      mac: "02:00:00:00:00:01",
      portMappings: [
        { hostPort: 8080, containerPort: 80, protocol: "TCP" },
        { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "127.0.0.1" },
        { hostPort: 0, containerPort: 81, protocol: "tcp" },
      ],
      bandwidth: { ingressRate: 8000, ingressBurst: 80, egressRate: 0, egressBurst: 0 },
    }),
  );
  expect(found.ips.map((ip) => ip.join("."))).toEqual(["10.88.0.9", "10.88.0.10"]);
  expect(found.mac).toEqual(Uint8Array.of(2, 0, 0, 0, 0, 1));
  expect(found.hostPorts).toEqual([
    { hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" },
    { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "127.0.0.1" },
  ]);
  expect(found.bandwidth).toMatchObject({ ingressBytes: 1000, ingressBurstBytes: 10 });
});

test("what containerd hands over has Go's names", () => {
  const found = readNetworkConf(
    withRuntime({
      portMappings: [{ HostPort: 8080, ContainerPort: 80, Protocol: "tcp", HostIP: "" }],
      bandwidth: { IngressRate: 8000, IngressBurst: 80, EgressRate: 0, EgressBurst: 0 },
    }),
  );
  expect(found.hostPorts).toEqual([{ hostPort: 8080, containerPort: 80, protocol: "tcp", hostIP: "" }]);
  expect(found.bandwidth).toMatchObject({ ingressBytes: 1000, ingressBurstBytes: 10 });
});

describe("a wrong configuration is refused with the code 7, and a text that says what is expected", () => {
  test.each<[string, Record<string, unknown>, string]>([
    ["a name that leads out of the folder", { ...conf, name: "../pods" }, 'name is "../pods"; letters, digits'],
    ["no name", { ...conf, name: undefined }, "name is undefined"],
    ["a long name of the bridge", { ...conf, bridge: "a-bridge-of-pods" }, "of at most 15 bytes, is expected"],
    ["no ranges", { ...conf, ranges: undefined }, 'ranges is undefined; sets such as [[{"subnet"'],
    ["an empty set", { ...conf, ranges: [[]] }, "ranges[0] is []; a list of ranges is expected"],
    ["a wrong subnet", { ...conf, ranges: [[{ subnet: "10.88.0.0" }]] }, 'ranges[0][0].subnet is "10.88.0.0"'],
    [
      "two families in a set",
      { ...conf, ranges: [[{ subnet: "10.88.0.0/16" }, { subnet: "fd00::/64" }]] },
      "ranges[0] has ranges of IPv4 and of IPv6",
    ],
    [
      "wrong ranges of the runtime",
      withRuntime({ ipRanges: [[{}]] }),
      "runtimeConfig.ipRanges[0][0].subnet is undefined",
    ],
    ["an MTU that is too small", { ...conf, mtu: 67 }, "mtu is 67; a number from 68 to 65535 is expected"],
    [
      "an MTU that is too small for IPv6",
      { ...conf, ranges: [[{ subnet: "fd00::/64" }]], mtu: 1279 },
      "mtu is 1279; a number from 1280 to 65535 is expected",
    ],
    ["a flag that is a text", { ...conf, ipMasq: "yes" }, 'ipMasq is "yes"; true or false is expected'],
    [
      "a port beyond the last one",
      withRuntime({ portMappings: [{ hostPort: 65536, containerPort: 80 }] }),
      "portMappings[0].hostPort is 65536",
    ],
    [
      "no port of the container",
      withRuntime({ portMappings: [{ hostPort: 80 }] }),
      "portMappings[0].containerPort is 0",
    ],
    [
      "another protocol",
      withRuntime({ portMappings: [{ hostPort: 80, containerPort: 80, protocol: "icmp" }] }),
      'protocol is "icmp"; tcp, udp or sctp is expected',
    ],
    [
      "a host address that is none",
      withRuntime({ portMappings: [{ hostPort: 80, containerPort: 80, hostIP: "localhost" }] }),
      'hostIP is "localhost"; an IP address is expected',
    ],
    ["a group address", withRuntime({ mac: "01:00:5e:00:00:01" }), 'mac is "01:00:5e:00:00:01"'],
    ["an address that is none", withRuntime({ ips: ["10.88.0"] }), 'ips[0] is "10.88.0"'],
    [
      "a rate without a burst",
      withRuntime({ bandwidth: { egressRate: 8000 } }),
      "egressBurst is 0; with egressRate a burst is needed",
    ],
    ["a negative rate", withRuntime({ bandwidth: { ingressRate: -1 } }), "ingressRate is -1"],
  ])("%s", (_name, value, reason) => {
    const read = () => readNetworkConf(value);
    expect(read).toThrow(CniError);
    expect(read).toThrow(reason);
    const { name } = value;
    expect(read).toThrow(name === "pods" ? /^the network pods: / : /^a network of the type berth: name is /);
    expect(read).toThrow(expect.objectContaining({ code: 7 }));
  });
});

test("the name is read alone, for DEL with a broken list", () => {
  expect(readNetworkName({ name: "pods" })).toBe("pods");
  expect(() => readNetworkName({})).toThrow("name is undefined");
});

test("the error names the network, the field, what it is, and what is expected", () => {
  expect(() => readNetworkConf({ ...conf, mtu: 67 })).toThrow(
    new CniError(7, "the network pods: mtu is 67; a number from 68 to 65535 is expected"),
  );
});

describe("the valid attachments of GC", () => {
  test.each<[string, unknown, unknown]>([
    ["are read", [{ containerID: "c1", ifname: "eth0" }], [{ containerId: "c1", ifName: "eth0" }]],
    ["may be none", [], []],
    ["may be none in the words of Go", null, []],
  ])("%s", (_name, value, expected) => {
    expect(readValidAttachments({ ...conf, "cni.dev/valid-attachments": value })).toEqual(expected as never);
  });
  test.each<[string, Record<string, unknown>, string]>([
    ["must be there, as all attachments would be removed otherwise", {}, "is undefined; a list is expected"],
    ["have both parts", { "cni.dev/valid-attachments": [{ containerID: "c1" }] }, "[0] is {"],
  ])("%s", (_name, value, reason) => {
    expect(() => readValidAttachments({ ...conf, ...value })).toThrow(reason);
  });
});
