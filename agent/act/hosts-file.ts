import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { hostsContent, hostsFile, hostsPathFor } from "../translate/network/hosts.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { PodDisk } from "./volumes/pod-volumes.ts";

const LARGEST_HOSTS_BYTES = 1024 * 1024;

/**
 * Writes the `/etc/hosts` that a container about to be created is to find; with each container anew, since the node's own file or the
 * pod's addresses may be others by then. Throws `FilesError`.
 */
export async function makeHostsFile(
  { root, machine }: Pick<PodDisk, "root" | "machine">,
  pod: Pod,
  container: Container,
  podIPs: readonly string[],
  facts: NodeFacts,
): Promise<void> {
  if (hostsPathFor(pod, container, podIPs) === undefined) return;
  const ofNode = pod.spec.hostNetwork === true ? await machine.read("etc/hosts", LARGEST_HOSTS_BYTES) : "";
  await root.makeFile(hostsFile(pod.metadata.uid ?? ""), 0o644, hostsContent(pod, podIPs, facts, ofNode));
}
