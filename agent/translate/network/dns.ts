import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts, ResolvConf } from "../node-facts.ts";
import { mergeOptions } from "./resolv-conf.ts";

const MAX_NAMESERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARS = 2048;
/** Some resolvers abort when a search domain is longer. */
const MAX_SEARCH_LENGTH = 253;

/**
 * The content of the pod's resolv.conf, from `dnsPolicy` and `dnsConfig`, truncated to the limits of Kubernetes.
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
 */
export function dnsOf(pod: Pod, facts: NodeFacts): ResolvConf {
  const { nameservers, searches, options } = requestedDns(pod, facts);
  return {
    nameservers: nameservers.slice(0, MAX_NAMESERVERS),
    searches: truncateToChars(searches.slice(0, MAX_SEARCHES).filter((search) => search.length <= MAX_SEARCH_LENGTH)),
    options,
  };
}

/** An Event, in the kubelet's wording, for a pod whose DNS settings cannot be applied as requested. */
export interface DnsWarning {
  readonly reason: "MissingClusterDNS" | "DNSConfigForming";
  readonly message: string;
  /** The message of the same Event on the Node, where the node's configuration is the cause. */
  readonly nodeMessage?: string;
}

/** Returns the warnings in the kubelet's order. Rule: kubelet/network/dns. */
export function dnsWarnings(pod: Pod, facts: NodeFacts): readonly DnsWarning[] {
  const requested = requestedDns(pod, facts);
  const { nameservers, searches } = dnsOf(pod, facts);
  const warnings: DnsWarning[] = [];
  if (isClusterFirst(pod) && facts.clusterDNS.length === 0) {
    const { name = "", namespace = "default", uid = "" } = pod.metadata;
    const message = `pod: "${name}_${namespace}(${uid})". ${NO_CLUSTER_DNS_MESSAGE}`;
    warnings.push({ reason: "MissingClusterDNS", message, nodeMessage: NO_CLUSTER_DNS_MESSAGE });
  }
  if (nameservers.length < requested.nameservers.length)
    warnings.push(truncationWarning("Nameserver limits", "nameservers", "nameserver", nameservers));
  if (searches.length < requested.searches.length)
    warnings.push(truncationWarning("Search Line limits", "search paths", "search", searches));
  return warnings;
}

const NO_CLUSTER_DNS_MESSAGE =
  'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';

function truncationWarning(limits: string, what: string, line: string, applied: readonly string[]): DnsWarning {
  const message = `${limits} were exceeded, some ${what} have been omitted, the applied ${line} line is: ${applied.join(" ")}`;
  return { reason: "DNSConfigForming", message };
}

/** The DNS settings that the pod requests, before truncation. */
function requestedDns(pod: Pod, facts: NodeFacts): ResolvConf {
  const base = policyDns(pod, facts);
  const { nameservers = [], searches = [], options = [] } = pod.spec.dnsConfig ?? {};
  const own = options.map(({ name = "", value = "" }) => (value === "" ? name : `${name}:${value}`));
  return {
    nameservers: distinct([...base.nameservers, ...nameservers]),
    searches: distinct([...base.searches, ...searches]),
    options: mergeOptions([...base.options, ...own]),
  };
}

function isClusterFirst({ spec: { dnsPolicy = "ClusterFirst", hostNetwork = false } }: Pod): boolean {
  return dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
}

function policyDns(pod: Pod, facts: NodeFacts): ResolvConf {
  if (pod.spec.dnsPolicy === "None") return { nameservers: [], searches: [], options: [] };
  if (!isClusterFirst(pod) || facts.clusterDNS.length === 0) return facts.hostResolvConf ?? loopbackResolver(facts);
  const { namespace = "default" } = pod.metadata;
  const domain = facts.clusterDomain;
  const cluster = domain === "" ? [] : [`${namespace}.svc.${domain}`, `svc.${domain}`, domain];
  return {
    nameservers: facts.clusterDNS,
    searches: [...cluster, ...(facts.hostResolvConf?.searches ?? [])],
    options: ["ndots:5"],
  };
}

/**
 * With `resolvConf: ""` a pod without cluster DNS must not resolve names through the host. An empty DNSConfig would
 * make the runtime mount the host's resolv.conf, so the loopback addresses of the node's IP families stand in as
 * unreachable nameservers.
 */
function loopbackResolver({ hostIPs }: NodeFacts): ResolvConf {
  const loopbacks = distinct(hostIPs.map((address) => (address.includes(":") ? "::1" : "127.0.0.1")));
  return { nameservers: loopbacks.length > 0 ? loopbacks : ["127.0.0.1"], searches: ["."], options: [] };
}

function distinct(all: readonly string[]): readonly string[] {
  return [...new Set(all)];
}

function truncateToChars(searches: readonly string[]): readonly string[] {
  let length = -1;
  return searches.filter((search) => {
    length += search.length + 1;
    return length <= MAX_SEARCH_CHARS;
  });
}
