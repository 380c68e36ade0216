import type { Container, ContainerStatus, Pod, PodPhase, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { formatResourceList, type ResourceQuantities } from "../../../proto/kubernetes/resource-list.ts";

/**
 * `allocatedResources` and `resources` of the pod itself: the sums of what its containers run with, or of the spec where
 * they do not run yet. Like the kubelet's, `resources` has CPU and memory only once the pod has started, which are what
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
    const { allocatedResources: requests = {}, resources: { limits = {} } = {} } = status;
    return { ...container, resources: { requests, limits } };
  };
  const { initContainers = [], containers } = spec;
  const running = { ...spec, initContainers: initContainers.map(withOwn), containers: containers.map(withOwn) };
  const shown = (quantities: ResourceQuantities): ResourceQuantities =>
    phase === "Pending" ? quantities : new Map([...quantities].filter(([name]) => name === "cpu" || name === "memory"));
  const sum = podRequests(running);
  const [all, requests, limits] = [sum, shown(sum), shown(podLimits(running))].map(formatResourceList);
  const isSet = (list: object | undefined) => Object.keys(list ?? {}).length > 0;
  return {
    ...(all && isSet(all) && { allocatedResources: all }),
    ...((isSet(requests) || isSet(limits)) && {
      resources: { ...(requests && isSet(requests) && { requests }), ...(limits && isSet(limits) && { limits }) },
    }),
  };
}
