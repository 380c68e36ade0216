import type { Container, ContainerStatus, Pod, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { formatResourceList, type ResourceQuantities } from "../../../proto/kubernetes/resource-list.ts";

/**
 * `allocatedResources` and `resources` of the pod itself, whose spec has what is allocated to it: the sum of that, and of
 * what its containers run with. Like the kubelet's, `resources` has CPU and memory only once the pod has started, which are what
 * a pod's cgroup limits. Rule: convertToAPIPodLevelResourcesStatus.
 */
export function podResources(
  { spec }: Pod,
  phase: PodPhase,
  statuses: readonly ContainerStatus[],
): Pick<PodStatus, "allocatedResources" | "resources"> {
  const withOwn = (container: Container): Container => {
    const status = statuses.find(({ name }) => name === container.name);
    if (status?.containerID === undefined) return container;
    const { requests = {}, limits = {} } = status.resources ?? {};
    return { ...container, resources: { requests, limits } };
  };
  const { initContainers = [], containers } = spec;
  const running = { ...spec, initContainers: initContainers.map(withOwn), containers: containers.map(withOwn) };
  const shown = (quantities: ResourceQuantities): ResourceQuantities =>
    phase === "Pending" ? quantities : new Map([...quantities].filter(([name]) => name === "cpu" || name === "memory"));
  const actual = [shown(podRequests(running)), shown(podLimits(running))];
  const [all, requests, limits] = [podRequests(spec), ...actual].map(formatResourceList);
  const isSet = (list: object | undefined) => Object.keys(list ?? {}).length > 0;
  return {
    ...(all && isSet(all) && { allocatedResources: all }),
    ...((isSet(requests) || isSet(limits)) && {
      resources: { ...(requests && isSet(requests) && { requests }), ...(limits && isSet(limits) && { limits }) },
    }),
  };
}
