import { type LinuxContainerResources, PodSandboxConfig, Protocol } from "../../proto/cri/gen/api.ts";
import { sidecarsOf } from "../../proto/kubernetes/containers.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { normalizeSysctl } from "../../proto/kubernetes/values/sysctl.ts";
import {
  crashesAnnotation,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../proto/kubernetes/well-known-names.ts";
import { podLogDir } from "./log-path.ts";
import { dnsOf } from "./network/dns.ts";
import { kernelHostname } from "./network/hostname.ts";
import type { NodeFacts } from "./node-facts.ts";
import { amountsOf, linuxResources, podAmounts } from "./resources/linux-resources.ts";
import { sandboxSecurityContext } from "./security/security-context.ts";
import type { IdRange } from "./security/user-namespace.ts";

/** What a sandbox config needs of a pod that has no sandbox yet. */
export const FIRST_SANDBOX = { attempt: 0, crashes: 0 };

/** What the pod holds on the node that its sandbox runs with. */
export interface SandboxPlacement {
  /** The host ids of its user namespace; left out without one. */
  readonly ids?: IdRange | undefined;
  /** The pod's cgroup, in the form of the cgroup driver. Left out, the runtime chooses the parent. */
  readonly cgroupParent?: string | undefined;
}

/** Builds the PodSandboxConfig of RunPodSandbox. Every CreateContainer in that sandbox carries the same message. */
export function sandboxConfig(
  pod: Pod,
  { attempt, crashes }: { readonly attempt: number; readonly crashes: number },
  facts: NodeFacts,
  { ids, cgroupParent = "" }: SandboxPlacement = {},
): PodSandboxConfig {
  const { name = "", namespace = "default", uid = "", labels, annotations } = pod.metadata;
  const { nameservers, searches, options } = dnsOf(pod, facts);
  return PodSandboxConfig.fromPartial({
    metadata: { name, namespace, uid, attempt },
    hostname: pod.spec.hostNetwork === true ? "" : kernelHostname(pod, facts),
    logDirectory: `${facts.podLogsDir}/${podLogDir(pod)}`,
    dnsConfig: { servers: nameservers, searches, options },
    portMappings: portMappings(pod),
    labels: { ...labels, ...podLabels(pod) },
    annotations: { ...annotations, [crashesAnnotation]: String(crashes) },
    linux: {
      cgroupParent,
      securityContext: sandboxSecurityContext(pod, facts, ids),
      sysctls: sysctls(pod),
      resources: linuxResources(podAmounts(pod), facts),
      ...overhead(pod, facts),
    },
  });
}

/** `spec.overhead` of the RuntimeClass, as both request and limit. */
function overhead({ spec }: Pod, facts: NodeFacts): { readonly overhead?: LinuxContainerResources } {
  if (spec.overhead === undefined) return {};
  return { overhead: linuxResources(amountsOf({ requests: spec.overhead, limits: spec.overhead }), facts) };
}

/** The labels that tie a sandbox or container to its pod. */
export function podLabels({ metadata: { name = "", namespace = "default", uid = "" } }: Pod): Record<string, string> {
  return { [podNameLabel]: name, [podNamespaceLabel]: namespace, [podUidLabel]: uid };
}

/**
 * The ports of containers and sidecars. The kubelet leaves out sidecars, so their host ports are silently not mapped,
 * although the scheduler and the kubelet's own admission reserve them.
 */
function portMappings({ spec }: Pod): PodSandboxConfig["portMappings"] {
  const protocols = { TCP: Protocol.TCP, UDP: Protocol.UDP, SCTP: Protocol.SCTP } as const;
  return [...sidecarsOf(spec), ...spec.containers]
    .flatMap(({ ports = [] }) => ports)
    .map(({ containerPort, hostPort = 0, hostIP = "", protocol = "TCP" }) => ({
      protocol: protocols[protocol as keyof typeof protocols],
      containerPort,
      hostPort,
      hostIp: hostIP,
    }));
}

function sysctls({ spec }: Pod): Record<string, string> {
  const all = spec.securityContext?.sysctls ?? [];
  return Object.fromEntries(all.map(({ name, value }) => [normalizeSysctl(name), value]));
}
