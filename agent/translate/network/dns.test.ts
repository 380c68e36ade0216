import { expect, test } from "bun:test";
import type { Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { NodeFacts, ResolvConf } from "../node-facts.ts";
import { dnsOf, dnsTroubles, parseResolvConf } from "./dns.ts";

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
const itself: ResolvConf = { nameservers: ["127.0.0.1"], searches: ["."], options: [] };
const unresolving = { hostResolvConf: undefined, hostIPs: ["192.0.2.1"] };

const policies: readonly [sentence: string, spec: Partial<PodSpec>, facts: Partial<NodeFacts>, result: ResolvConf][] = [
  ["no policy is ClusterFirst", {}, {}, cluster],
  [
    "ClusterFirst asks the cluster, with the host's searches behind its own",
    { dnsPolicy: "ClusterFirst" },
    {},
    cluster,
  ],
  ["ClusterFirst on the host's network is the host's", { dnsPolicy: "ClusterFirst", hostNetwork: true }, {}, host],
  [
    "ClusterFirstWithHostNet is the cluster's",
    { dnsPolicy: "ClusterFirstWithHostNet", hostNetwork: true },
    {},
    cluster,
  ],
  ["ClusterFirst without a cluster DNS is the host's", {}, { clusterDNS: [] }, host],
  ["Default is the host's", { dnsPolicy: "Default" }, {}, host],
  ["None is nothing", { dnsPolicy: "None" }, {}, nothing],
  [
    "without a cluster domain there are only the host's searches",
    {},
    { clusterDomain: "" },
    { ...cluster, searches: ["example.com"] },
  ],
  ["without the host's resolver Default asks the pod itself", { dnsPolicy: "Default" }, unresolving, itself],
  ["and so does ClusterFirst without a cluster DNS", {}, { ...unresolving, clusterDNS: [] }, itself],
  [
    "on a node of both families by both loopbacks, the primary first",
    { dnsPolicy: "Default" },
    { ...unresolving, hostIPs: ["2001:db8::1", "192.0.2.1"] },
    { ...itself, nameservers: ["::1", "127.0.0.1"] },
  ],
  [
    "before the node has an address, by that of IPv4",
    { dnsPolicy: "Default" },
    { ...unresolving, hostIPs: [] },
    itself,
  ],
  [
    "without the host's resolver ClusterFirst has the cluster's searches alone",
    {},
    unresolving,
    { ...cluster, searches: cluster.searches.slice(0, 3) },
  ],
  ["without the host's resolver None is still nothing", { dnsPolicy: "None" }, unresolving, nothing],
];
for (const [sentence, spec, facts, result] of policies)
  test(sentence, () => {
    expect(dns(spec, facts)).toEqual(result);
  });

test("a pod without a namespace searches that of default", () => {
  const pod: Pod = { metadata: { name: "web" }, spec: { containers: [] } };
  expect(dnsOf(pod, nodeFacts).searches[0]).toBe("default.svc.cluster.local");
});

test("dnsConfig is all there is under the policy None", () => {
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

test("dnsConfig comes behind the policy's, each entry once, and its options win", () => {
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

const many = (count: number, make: (index: number) => string) =>
  Array.from({ length: count }, (_, index) => make(index));

test("of more than three nameservers the first three count", () => {
  const nameservers = many(5, (index) => `198.51.100.${index}`);
  expect(dns({ dnsConfig: { nameservers } }).nameservers).toEqual(["192.0.2.10", "198.51.100.0", "198.51.100.1"]);
});

test("of more than 32 searches the first 32 count", () => {
  const searches = many(40, (index) => `s${index}.test`);
  expect(dns({ dnsPolicy: "None", dnsConfig: { searches } }).searches).toEqual(searches.slice(0, 32));
});

test("searches end where they would be longer than 2048 characters, spaces counted", () => {
  // Each is 127 characters: 16 of them and 15 spaces are 2047, and one more word of any length is too much.
  const searches = many(16, (index) => `${String(index).padStart(2, "0")}${"x".repeat(125)}`);
  const found = dns({ dnsPolicy: "None", dnsConfig: { searches: [...searches, "y"] } }).searches;
  expect(found).toEqual(searches);
  expect(found.join(" ")).toHaveLength(2047);
});

test("searches of exactly 2048 characters are all kept, and behind one that is too long there is none", () => {
  const searches = many(16, (index) => `${String(index).padStart(2, "0")}${"x".repeat(125 + (index === 0 ? 1 : 0))}`);
  const dnsConfig = { searches: [...searches, "z".repeat(9), "y"] };
  const found = dns({ dnsPolicy: "None", dnsConfig }).searches;
  expect(found.join(" ")).toHaveLength(2048);
  expect(found).toEqual(searches);
});

test("a search that is longer than a name may be is left out", () => {
  const searches = ["a.test", "x".repeat(254), "y".repeat(253)];
  expect(dns({ dnsPolicy: "None", dnsConfig: { searches } }).searches).toEqual(["a.test", "y".repeat(253)]);
});

const servers = many(4, (index) => `198.51.100.${index}`);
const troubles: readonly [sentence: string, spec: Partial<PodSpec>, facts: Partial<NodeFacts>, says: string[]][] = [
  ["a pod of a cluster with a DNS", {}, {}, []],
  ["a pod that takes the host's DNS where the cluster has none", { dnsPolicy: "Default" }, { clusterDNS: [] }, []],
  ["one on the host's network", { dnsPolicy: "ClusterFirst", hostNetwork: true }, { clusterDNS: [] }, []],
  ["one that brings its own", { dnsPolicy: "None" }, { clusterDNS: [] }, []],
  [
    "a pod that asks for the cluster's where it has none",
    {},
    { clusterDNS: [] },
    [
      'MissingClusterDNS: pod: "web_shop(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    ],
  ],
  [
    "a pod that asks for it on the host's network",
    { dnsPolicy: "ClusterFirstWithHostNet", hostNetwork: true },
    { clusterDNS: [] },
    [
      'MissingClusterDNS: pod: "web_shop(u)". kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.',
    ],
  ],
  [
    "one with too many nameservers",
    { dnsPolicy: "None", dnsConfig: { nameservers: servers } },
    {},
    [
      "DNSConfigForming: Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 198.51.100.0 198.51.100.1 198.51.100.2",
    ],
  ],
  [
    "one with a search that is too long",
    { dnsPolicy: "None", dnsConfig: { searches: ["a.test", "x".repeat(254)] } },
    {},
    [
      "DNSConfigForming: Search Line limits were exceeded, some search paths have been omitted, the applied search line is: a.test",
    ],
  ],
];
for (const [sentence, spec, facts, says] of troubles)
  test(`what is told of ${sentence}`, () => {
    const pod: Pod = { metadata: { name: "web", namespace: "shop", uid: "u" }, spec: { containers: [], ...spec } };
    const told = dnsTroubles(pod, { ...nodeFacts, ...facts });
    expect(told.map(({ reason, message }) => `${reason}: ${message}`)).toEqual(says);
    const ofNode = told.flatMap((trouble) => trouble.ofNode ?? []);
    expect(ofNode).toHaveLength(says.filter((each) => each.startsWith("MissingClusterDNS")).length);
  });

const files: readonly [sentence: string, text: string, result: ResolvConf][] = [
  ["an empty file says nothing", "", nothing],
  [
    "nameservers add up, in their order",
    "nameserver 192.0.2.1\nnameserver 192.0.2.2\n",
    { ...nothing, nameservers: ["192.0.2.1", "192.0.2.2"] },
  ],
  [
    "of two search lines the last counts",
    "search a.test b.test\nsearch c.test d.test\n",
    { ...nothing, searches: ["c.test", "d.test"] },
  ],
  [
    "options add up, and of one given twice the last value counts",
    "options ndots:1 rotate\noptions ndots:2 edns0\n",
    { ...nothing, options: ["ndots:2", "rotate", "edns0"] },
  ],
  [
    "comments of both kinds, tabs and spaces are passed over",
    "# one\n; two\n  nameserver\t192.0.2.1 # three\noptions rotate ; four\n",
    { nameservers: ["192.0.2.1"], searches: [], options: ["rotate"] },
  ],
  ["a search loses its last dot, and the root goes", "search a.test. .\n", { ...nothing, searches: ["a.test"] }],
  ["a nameserver without an address is none", "nameserver\n", nothing],
  ["words that are not known are passed over", "domain a.test\nsortlist 192.0.2.0\n", nothing],
  [
    "lines may end as on Windows",
    "nameserver 192.0.2.1\r\nsearch a.test\r\n",
    { ...nothing, nameservers: ["192.0.2.1"], searches: ["a.test"] },
  ],
];
for (const [sentence, text, result] of files)
  test(`resolv.conf: ${sentence}`, () => {
    expect(parseResolvConf(text)).toEqual(result);
  });

test("without the host's resolver dnsConfig comes behind the pod itself", () => {
  expect(dns({ dnsPolicy: "Default", dnsConfig: { nameservers: ["198.51.100.1"] } }, unresolving)).toEqual({
    ...itself,
    nameservers: ["127.0.0.1", "198.51.100.1"],
  });
});
