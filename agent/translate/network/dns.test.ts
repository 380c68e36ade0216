import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { NodeFacts, ResolvConf } from "../node-facts.ts";
import { dnsOf, dnsWarnings } from "./dns.ts";

function dns(spec: Partial<PodSpec>, facts: Partial<NodeFacts> = {}): ResolvConf {
  const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [], ...spec } };
  return dnsOf(pod, { ...nodeFacts, ...facts });
}

const host: ResolvConf = { nameservers: ["192.0.2.53"], searches: ["example.com"], options: ["rotate"] };
const cluster: ResolvConf = {
  nameservers: ["192.0.2.10"],
  searches: ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com"],
  options: ["ndots:5"],
};
const nothing: ResolvConf = { nameservers: [], searches: [], options: [] };
const loopback: ResolvConf = { nameservers: ["127.0.0.1"], searches: ["."], options: [] };
const withoutResolver = { hostResolvConf: undefined, hostIPs: ["192.0.2.1"] };

const policies: readonly [sentence: string, spec: Partial<PodSpec>, facts: Partial<NodeFacts>, result: ResolvConf][] = [
  ["an unset policy means ClusterFirst", {}, {}, cluster],
  [
    "ClusterFirst uses the cluster DNS and appends the host's search domains",
    { dnsPolicy: "ClusterFirst" },
    {},
    cluster,
  ],
  ["ClusterFirst with hostNetwork uses the host's DNS", { dnsPolicy: "ClusterFirst", hostNetwork: true }, {}, host],
  [
    "ClusterFirstWithHostNet uses the cluster DNS",
    { dnsPolicy: "ClusterFirstWithHostNet", hostNetwork: true },
    {},
    cluster,
  ],
  ["ClusterFirst without a cluster DNS uses the host's DNS", {}, { clusterDNS: [] }, host],
  ["Default uses the host's DNS", { dnsPolicy: "Default" }, {}, host],
  ["None is empty", { dnsPolicy: "None" }, {}, nothing],
  [
    "without a cluster domain only the host's search domains remain",
    {},
    { clusterDomain: "" },
    { ...cluster, searches: ["example.com"] },
  ],
  ["with an empty resolvConf Default uses the loopback address", { dnsPolicy: "Default" }, withoutResolver, loopback],
  [
    "with an empty resolvConf ClusterFirst without a cluster DNS uses the loopback address",
    {},
    { ...withoutResolver, clusterDNS: [] },
    loopback,
  ],
  [
    "a dual-stack node uses both loopback addresses, the primary family first",
    { dnsPolicy: "Default" },
    { ...withoutResolver, hostIPs: ["2001:db8::1", "192.0.2.1"] },
    { ...loopback, nameservers: ["::1", "127.0.0.1"] },
  ],
  [
    "a node without an address uses the IPv4 loopback address",
    { dnsPolicy: "Default" },
    { ...withoutResolver, hostIPs: [] },
    loopback,
  ],
  [
    "with an empty resolvConf ClusterFirst has the cluster's search domains only",
    {},
    withoutResolver,
    { ...cluster, searches: cluster.searches.slice(0, 3) },
  ],
  ["with an empty resolvConf None is empty", { dnsPolicy: "None" }, withoutResolver, nothing],
];
for (const [sentence, spec, facts, result] of policies)
  test(sentence, () => {
    expect(dns(spec, facts)).toEqual(result);
  });

test("a pod without a namespace searches the default namespace", () => {
  const pod: Pod = { metadata: { name: "web" }, spec: { containers: [] } };
  expect(dnsOf(pod, nodeFacts).searches[0]).toBe("default.svc.cluster.local");
});

test("under the policy None dnsConfig alone counts", () => {
  const dnsConfig = {
    nameservers: ["198.51.100.1"],
    searches: ["a.test"],
    options: [{ name: "timeout", value: "1" }, { name: "edns0" }, { name: "rotate", value: "" }],
  };
  expect(dns({ dnsPolicy: "None", dnsConfig })).toEqual({
    nameservers: ["198.51.100.1"],
    searches: ["a.test"],
    options: ["timeout:1", "edns0", "rotate"],
  });
});

test("dnsConfig is appended without duplicates, and its options win", () => {
  const dnsConfig = {
    nameservers: ["192.0.2.10", "198.51.100.1"],
    searches: ["example.com", "a.test"],
    options: [{ name: "ndots", value: "2" }, { name: "rotate" }],
  };
  expect(dns({ dnsConfig })).toEqual({
    nameservers: ["192.0.2.10", "198.51.100.1"],
    searches: [...cluster.searches, "a.test"],
    options: ["ndots:2", "rotate"],
  });
});

const manyItems = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => make(index));

test("only the first three nameservers are kept", () => {
  const nameservers = manyItems(5, (index) => `198.51.100.${index}`);
  expect(dns({ dnsConfig: { nameservers } }).nameservers).toEqual(["192.0.2.10", "198.51.100.0", "198.51.100.1"]);
});

test("only the first 32 search domains are kept", () => {
  const searches = manyItems(40, (index) => `s${index}.test`);
  expect(dns({ dnsPolicy: "None", dnsConfig: { searches } }).searches).toEqual(searches.slice(0, 32));
});

test("search domains are truncated at 2048 characters, spaces included", () => {
  // Each is 127 characters: 16 of them and 15 spaces are 2047, so one more of any length exceeds the limit.
  const searches = manyItems(16, (index) => `${String(index).padStart(2, "0")}${"x".repeat(125)}`);
  const found = dns({ dnsPolicy: "None", dnsConfig: { searches: [...searches, "y"] } }).searches;
  expect(found).toEqual(searches);
  expect(found.join(" ")).toHaveLength(2047);
});

test("a search line of exactly 2048 characters is kept, and a domain that exceeds the limit drops all after it", () => {
  const searches = manyItems(
    16,
    (index) => `${String(index).padStart(2, "0")}${"x".repeat(125 + (index === 0 ? 1 : 0))}`,
  );
  const dnsConfig = { searches: [...searches, "z".repeat(9), "y"] };
  const found = dns({ dnsPolicy: "None", dnsConfig }).searches;
  expect(found.join(" ")).toHaveLength(2048);
  expect(found).toEqual(searches);
});

test("a search domain of more than 253 characters is dropped", () => {
  const searches = ["a.test", "x".repeat(254), "y".repeat(253)];
  expect(dns({ dnsPolicy: "None", dnsConfig: { searches } }).searches).toEqual(["a.test", "y".repeat(253)]);
});

const servers = manyItems(4, (index) => `198.51.100.${index}`);
const warningRows: readonly [sentence: string, spec: Partial<PodSpec>, facts: Partial<NodeFacts>, says: string[]][] = [
  ["a pod of a cluster with a DNS has none", {}, {}, []],
  ["a pod with the policy Default has none without a cluster DNS", { dnsPolicy: "Default" }, { clusterDNS: [] }, []],
  ["a pod with hostNetwork has none", { dnsPolicy: "ClusterFirst", hostNetwork: true }, { clusterDNS: [] }, []],
  ["a pod with the policy None has none", { dnsPolicy: "None" }, { clusterDNS: [] }, []],
  [
    "ClusterFirst without a cluster DNS",
    {},
    { clusterDNS: [] },
    [
      'MissingClusterDNS: pod: "web_shop(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    ],
  ],
  [
    "ClusterFirstWithHostNet without a cluster DNS",
    { dnsPolicy: "ClusterFirstWithHostNet", hostNetwork: true },
    { clusterDNS: [] },
    [
      'MissingClusterDNS: pod: "web_shop(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    ],
  ],
  [
    "too many nameservers",
    { dnsPolicy: "None", dnsConfig: { nameservers: servers } },
    {},
    [
      "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 198.51.100.0 198.51.100.1 198.51.100.2",
    ],
  ],
  [
    "a search domain that is too long",
    { dnsPolicy: "None", dnsConfig: { searches: ["a.test", "x".repeat(254)] } },
    {},
    [
      "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a.test",
    ],
  ],
];
for (const [sentence, spec, facts, expected] of warningRows)
  test(`DNS warnings: ${sentence}`, () => {
    const pod: Pod = { metadata: { name: "web", namespace: "shop", uid: "u" }, spec: { containers: [], ...spec } };
    const warnings = dnsWarnings(pod, { ...nodeFacts, ...facts });
    expect(warnings.map(({ reason, message }) => `${reason}: ${message}`)).toEqual(expected);
    const nodeMessages = warnings.flatMap((warning) => warning.nodeMessage ?? []);
    expect(nodeMessages).toHaveLength(expected.filter((each) => each.startsWith("MissingClusterDNS")).length);
  });

test("with an empty resolvConf dnsConfig is appended to the loopback address", () => {
  expect(dns({ dnsPolicy: "Default", dnsConfig: { nameservers: ["198.51.100.1"] } }, withoutResolver)).toEqual({
    ...loopback,
    nameservers: ["127.0.0.1", "198.51.100.1"],
  });
});
