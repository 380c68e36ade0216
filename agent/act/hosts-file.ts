import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { hostsContent, hostsFile, hostsPathFor } from "../translate/network/hosts.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { NodeDirs } from "./volumes/pod-dirs.ts";

const MAX_HOSTS_BYTES = 1024 * 1024;

/**
 * Writes the pod's `/etc/hosts` before each container creation, because the node's own file or the pod's addresses may
 * have changed since. Throws `FilesError`.
 */
export async function writeHostsFile(
  { root, machine }: Pick<NodeDirs, "root" | "machine">,
  pod: Pod,
  container: Container,
  podIPs: readonly string[],
  facts: NodeFacts,
): Promise<void> {
  if (hostsPathFor(pod, container, podIPs) === undefined) return;
  const nodeHosts = pod.spec.hostNetwork === true ? await machine.read("etc/hosts", MAX_HOSTS_BYTES) : "";
  await root.makeFile(hostsFile(pod.metadata.uid ?? ""), 0o644, hostsContent(pod, podIPs, facts, nodeHosts));
}
