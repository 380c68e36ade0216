import { sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { CRITICAL_PRIORITY, priorityOf } from "../../../proto/kubernetes/priority.ts";
import { type ResourceAmounts, toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { withAllocated } from "../resize/allocation.ts";

/** The resources that one pod uses on its node. */
export interface PodDemand {
  readonly requests: ResourceAmounts;
  readonly ports: readonly HostPort[];
  /** Other pods may be preempted for it. */
  readonly isCritical: boolean;
  /** Undefined if the spec has none. */
  readonly priority: number | undefined;
}

/** A port of the node that a pod requests. */
export interface HostPort {
  readonly ip: string;
  readonly protocol: string;
  readonly port: number;
}

/** The resources that the pods of a node use together. */
export interface NodeUsage {
  pods(): number;
  amount(resource: string): bigint;
  isPortUsed(port: HostPort): boolean;
  demands(): Iterable<PodDemand>;
}

/** The host IP that stands for all addresses of the node. */
export const ANY_ADDRESS = "0.0.0.0";

/**
 * What a pod uses: what is allocated to it, or what its spec requests before that. Static pods are always critical: no
 * scheduler could place them on another node.
 */
export function podDemandOf({ pod, source, allocation }: DesiredPod): PodDemand {
  const { spec } = allocation === undefined ? pod : withAllocated(pod, allocation.allocated);
  return {
    requests: toAmounts(podRequests(spec)),
    ports: hostPorts(pod),
    isCritical: source.kind !== "api" || priorityOf(pod) >= CRITICAL_PRIORITY,
    priority: pod.spec.priority,
  };
}

/** The host ports of an init container count only while it runs, except for those of sidecars. */
export function hostPorts({ spec }: Pod): readonly HostPort[] {
  return [...sidecarsOf(spec), ...spec.containers].flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostIP, protocol = "TCP", hostPort: port = 0 }) =>
      port > 0 ? [{ ip: hostIP || ANY_ADDRESS, protocol, port }] : [],
    ),
  );
}

/**
 * Whether the pod's resources count: it was admitted, has not ended, and is still desired. A pod whose manifest is
 * removed does not count; a deleted pod of the API counts until it has ended or is removed from the API.
 */
export function countsOnNode({ admission, hasReleasedResources, termination, source }: DesiredPod): boolean {
  return (
    admission === undefined && hasReleasedResources !== true && (termination === undefined || source.kind === "api")
  );
}
