import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { NodeFacts, ResolvConf } from "./node-facts.ts";

const MOST_NAMESERVERS = 3;
const MOST_SEARCHES = 32;
const MOST_SEARCH_CHARS = 2048;

/**
 * What stands in the pod's resolv.conf, by `dnsPolicy` and `dnsConfig`, within the limits that Kubernetes sets.
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
 */
export function dnsOf(pod: Pod, facts: NodeFacts): ResolvConf {
  const base = baseOf(pod, facts);
  const { nameservers = [], searches = [], options = [] } = pod.spec.dnsConfig ?? {};
  const own = options.map(({ name = "", value }) => (value === undefined ? name : `${name}:${value}`));
  return {
    nameservers: distinct([...base.nameservers, ...nameservers]).slice(0, MOST_NAMESERVERS),
    searches: withinChars(distinct([...base.searches, ...searches]).slice(0, MOST_SEARCHES)),
    options: mergeOptions(base.options, own),
  };
}

function baseOf(pod: Pod, facts: NodeFacts): ResolvConf {
  const { dnsPolicy = "ClusterFirst", hostNetwork = false } = pod.spec;
  if (dnsPolicy === "None") return { nameservers: [], searches: [], options: [] };
  const isClusterFirst = dnsPolicy === "ClusterFirstWithHostNet" || (dnsPolicy === "ClusterFirst" && !hostNetwork);
  if (!isClusterFirst || facts.clusterDNS.length === 0) return facts.hostResolvConf ?? withoutResolver(facts);
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
 * Said in so many words, since a runtime that is told nothing takes the host's resolv.conf: a pod asks itself, by the families of the
 * node's addresses, and so nobody answers.
 */
function withoutResolver({ hostIPs }: NodeFacts): ResolvConf {
  const loopbacks = distinct(hostIPs.map((address) => (address.includes(":") ? "::1" : "127.0.0.1")));
  return { nameservers: loopbacks.length > 0 ? loopbacks : ["127.0.0.1"], searches: ["."], options: [] };
}

/** Of an option given twice, by whichever side, the last value counts. */
function mergeOptions(base: readonly string[], own: readonly string[]): readonly string[] {
  const byName = new Map<string, string>();
  for (const option of [...base, ...own]) byName.set(option.split(":")[0] ?? option, option);
  return [...byName.values()];
}

function distinct(all: readonly string[]): readonly string[] {
  return [...new Set(all)];
}

function withinChars(searches: readonly string[]): readonly string[] {
  let length = -1;
  return searches.filter((search) => {
    length += search.length + 1;
    return length <= MOST_SEARCH_CHARS;
  });
}

/** Reads resolv.conf(5): `nameserver` lines add up, of `search` and `options` the last line counts. */
export function parseResolvConf(text: string): ResolvConf {
  const lines = text.split("\n").map((line) =>
    line
      .replace(/[#;].*/s, "")
      .trim()
      .split(/\s+/),
  );
  const last = (key: string) => lines.findLast(([word]) => word === key)?.slice(1) ?? [];
  return {
    nameservers: lines.flatMap(([key, value]) => (key === "nameserver" && value !== undefined ? [value] : [])),
    searches: last("search").map((search) => (search.length > 1 ? search.replace(/\.$/, "") : search)),
    options: last("options"),
  };
}
