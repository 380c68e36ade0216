import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { absolutePath, podDir } from "../volumes/paths.ts";
import { domainOf, hostnameOf } from "./hostname.ts";

/** Where the kubelet mounts the pod's hosts file. */
const HOSTS_PATH = "/etc/hosts";

const LOOPBACK_ENTRIES: readonly (readonly [address: string, names: string])[] = [
  ["127.0.0.1", "localhost"],
  ["::1", "localhost ip6-localhost ip6-loopback"],
  ["fe00::0", "ip6-localnet"],
  ["fe00::0", "ip6-mcastprefix"],
  ["fe00::1", "ip6-allnodes"],
  ["fe00::2", "ip6-allrouters"],
];

/** The hosts file that all containers of a pod share, relative to the root directory. */
export function hostsFile(uid: string): string {
  return `${podDir(uid)}/etc-hosts`;
}

/** The mount path of the hosts file; undefined when the container mounts its own, or the pod has no address to list. */
export function hostsPathFor({ spec }: Pod, { volumeMounts = [] }: Container, podIPs: readonly string[]) {
  const mountsOwnFile = volumeMounts.some(
    ({ mountPath }) => absolutePath(mountPath).replace(/\/+$/, "") === HOSTS_PATH,
  );
  return mountsOwnFile || (podIPs.length === 0 && spec.hostNetwork !== true) ? undefined : HOSTS_PATH;
}

/**
 * The content of a pod's `/etc/hosts`, in the kubelet's format. A pod with `hostNetwork` gets `nodeHosts`, the
 * content of the node's own file.
 * https://kubernetes.io/docs/tasks/network/customize-hosts-file-for-pods/
 */
export function hostsContent(pod: Pod, podIPs: readonly string[], facts: NodeFacts, nodeHosts: string): string {
  const own =
    pod.spec.hostNetwork === true
      ? `# Kubernetes-managed hosts file (host network).\n${nodeHosts}`
      : `# Kubernetes-managed hosts file.\n${formatEntries([...LOOPBACK_ENTRIES, ...podAddresses(pod, podIPs, facts)])}`;
  const aliases = (pod.spec.hostAliases ?? []).map(({ ip, hostnames = [] }) => [ip, ...hostnames]);
  return aliases.length === 0 ? own : `${own}\n# Entries added by HostAliases.\n${formatEntries(aliases)}`;
}

function podAddresses(pod: Pod, podIPs: readonly string[], facts: NodeFacts): readonly (readonly string[])[] {
  const hostname = hostnameOf(pod);
  const domain = domainOf(pod, facts);
  const names = domain === "" ? [hostname] : [`${hostname}.${domain}`, hostname];
  return podIPs.map((ip) => [ip, ...names]);
}

function formatEntries(entries: readonly (readonly string[])[]): string {
  return entries.map((fields) => `${fields.join("\t")}\n`).join("");
}
