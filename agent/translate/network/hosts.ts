import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { absolute, podFolder } from "../volumes/paths.ts";
import { domainOf, hostnameOf } from "./hostname.ts";

/** Where containers find the names of the pod and of its neighbours. */
const HOSTS_PATH = "/etc/hosts";

const OWN_ADDRESSES: readonly (readonly [address: string, names: string])[] = [
  ["127.0.0.1", "localhost"],
  ["::1", "localhost ip6-localhost ip6-loopback"],
  ["fe00::0", "ip6-localnet"],
  ["fe00::0", "ip6-mcastprefix"],
  ["fe00::1", "ip6-allnodes"],
  ["fe00::2", "ip6-allrouters"],
];

/** The file that all containers of a pod share, relative to the root directory. */
export function hostsFile(uid: string): string {
  return `${podFolder(uid)}/etc-hosts`;
}

/** Where the container finds that file; undefined where it brings its own, or the pod has no address to be told of. */
export function hostsPathFor({ spec }: Pod, { volumeMounts = [] }: Container, podIPs: readonly string[]) {
  const bringsOwn = volumeMounts.some(({ mountPath }) => absolute(mountPath).replace(/\/+$/, "") === HOSTS_PATH);
  return bringsOwn || (podIPs.length === 0 && spec.hostNetwork !== true) ? undefined : HOSTS_PATH;
}

/**
 * The content of a pod's `/etc/hosts`, in the form that the kubelet gives it. `ofNode` is the node's own file, which counts for a pod
 * on the node's network.
 * https://kubernetes.io/docs/tasks/network/customize-hosts-file-for-pods/
 */
export function hostsContent(pod: Pod, podIPs: readonly string[], facts: NodeFacts, ofNode: string): string {
  const own =
    pod.spec.hostNetwork === true
      ? `# Kubernetes-managed hosts file (host network).\n${ofNode}`
      : `# Kubernetes-managed hosts file.\n${linesOf([...OWN_ADDRESSES, ...podAddresses(pod, podIPs, facts)])}`;
  const aliases = (pod.spec.hostAliases ?? []).map(({ ip, hostnames = [] }) => [ip, ...hostnames]);
  return aliases.length === 0 ? own : `${own}\n# Entries added by HostAliases.\n${linesOf(aliases)}`;
}

function podAddresses(pod: Pod, podIPs: readonly string[], facts: NodeFacts): readonly (readonly string[])[] {
  const hostname = hostnameOf(pod);
  const domain = domainOf(pod, facts);
  const names = domain === "" ? [hostname] : [`${hostname}.${domain}`, hostname];
  return podIPs.map((ip) => [ip, ...names]);
}

function linesOf(entries: readonly (readonly string[])[]): string {
  return entries.map((words) => `${words.join("\t")}\n`).join("");
}
