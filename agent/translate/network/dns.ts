import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts, ResolvConf } from "../node-facts.ts";

const MOST_NAMESERVERS = 3;
const MOST_SEARCHES = 32;
const MOST_SEARCH_CHARS = 2048;
/** Resolvers are known that abort at a longer one. */
const LONGEST_SEARCH = 253;

/**
 * What stands in the pod's resolv.conf, by `dnsPolicy` and `dnsConfig`, within the limits that Kubernetes sets.
 * https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy
 */
export function dnsOf(pod: Pod, facts: NodeFacts): ResolvConf {
  const { nameservers, searches, options } = wantedOf(pod, facts);
  return {
    nameservers: nameservers.slice(0, MOST_NAMESERVERS),
    searches: withinChars(searches.slice(0, MOST_SEARCHES).filter((search) => search.length <= LONGEST_SEARCH)),
    options,
  };
}

/** Where a pod's DNS is other than it asks for, in the kubelet's words. */
export interface DnsTrouble {
  readonly reason: "MissingClusterDNS" | "DNSConfigForming";
  readonly message: string;
  /** What is to be told of the node besides, since it is not the pod's fault. */
  readonly ofNode?: string;
}

/** All of them, in the order in which they are told. Rule: kubelet/network/dns. */
export function dnsTroubles(pod: Pod, facts: NodeFacts): readonly DnsTrouble[] {
  const wanted = wantedOf(pod, facts);
  const { nameservers, searches } = dnsOf(pod, facts);
  const troubles: DnsTrouble[] = [];
  if (isClusterFirst(pod) && facts.clusterDNS.length === 0) {
    const { name = "", namespace = "default", uid = "" } = pod.metadata;
    const message = `pod: "${name}_${namespace}(${uid})". ${WITHOUT_CLUSTER_DNS}`;
    troubles.push({ reason: "MissingClusterDNS", message, ofNode: WITHOUT_CLUSTER_DNS });
  }
  if (nameservers.length < wanted.nameservers.length)
    troubles.push(limited("Nameserver limits", "nameservers", "nameserver", nameservers));
  if (searches.length < wanted.searches.length)
    troubles.push(limited("Search Line limits", "search paths", "search", searches));
  return troubles;
}

const WITHOUT_CLUSTER_DNS =
  'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';

function limited(limits: string, what: string, line: string, applied: readonly string[]): DnsTrouble {
  const message = `${limits} were exceeded, some ${what} have been omitted, the applied ${line} line is: ${applied.join(" ")}`;
  return { reason: "DNSConfigForming", message };
}

/** What the pod asks for, without limits. */
function wantedOf(pod: Pod, facts: NodeFacts): ResolvConf {
  const base = baseOf(pod, facts);
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

function baseOf(pod: Pod, facts: NodeFacts): ResolvConf {
  if (pod.spec.dnsPolicy === "None") return { nameservers: [], searches: [], options: [] };
  if (!isClusterFirst(pod) || facts.clusterDNS.length === 0) return facts.hostResolvConf ?? withoutResolver(facts);
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

/** Of an option given twice, by whomever, the last value counts. */
function mergeOptions(options: readonly string[]): readonly string[] {
  const byName = new Map<string, string>();
  for (const option of options) byName.set(option.split(":")[0] ?? option, option);
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

/**
 * Reads resolv.conf(5): `nameserver` and `options` lines add up, of `search` lines the last counts. The root, which is all that
 * systemd-resolved writes where there is nothing to search, is searched in any case.
 */
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
    searches: last("search").flatMap((search) => (search === "." ? [] : [search.replace(/\.$/, "")])),
    options: mergeOptions(lines.flatMap(([key, ...values]) => (key === "options" ? values : []))),
  };
}
