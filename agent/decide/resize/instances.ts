import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, Pod, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { newestInstanceOf, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";
import { type PreviousStatus, previousStatusOf, previousStatusOfInstance } from "../status/previous-status.ts";
import {
  type ActuatedInstance,
  allocationOf,
  areSameAmounts,
  type PodAllocation,
  resizableContainers,
  withAllocated,
} from "./allocation.ts";

/*
 * What each instance of a container runs with. It is created with what is allocated then, and says so in an annotation.
 * An update that the runtime has accepted later is in the pod's record.
 */

/** The pod with what its instances run with, where the record knows better than their annotations. */
export function withActuated(observed: ObservedPod, { actuated }: PodAllocation): ObservedPod {
  const updateOf = ({ id, name }: ObservedContainer) => (actuated[name]?.id === id ? actuated[name] : undefined);
  if (!observed.containers.some(updateOf)) return observed;
  const containers = observed.containers.map((each) => ({ ...each, ...pickAmounts(updateOf(each)) }));
  return { ...observed, containers };
}

const pickAmounts = (update: ActuatedInstance | undefined) => update && { amounts: update.amounts };

/**
 * The record of a pod that this agent did not admit: a kubelet, an earlier release, or an agent whose record is lost. It
 * has what its spec requests, unless its status shows that a resize was not accepted yet.
 */
export function adoptedAllocation(pod: Pod): PodAllocation {
  const { containers } = previousStatusOf(pod);
  const allocation = allocationOf(pod);
  const pending = nonEphemeralContainers(pod.spec).flatMap(({ name, resources }) => {
    const reported = reportedResources(containers.get(name));
    if (reported === undefined || areSameAmounts(reported.requests, resources?.requests)) return [];
    return [[name, reported] as const];
  });
  if (pending.length === 0) return allocation;
  const { allocated } = allocation;
  return {
    ...allocation,
    allocated: { ...allocated, containers: { ...allocated.containers, ...Object.fromEntries(pending) } },
  };
}

/**
 * The record with the running instances of another agent (a kubelet, an earlier release), which carry no annotation. They
 * run with what that agent has reported of them, or else with what is allocated now.
 */
export function withAdopted(
  pod: Pod,
  allocation: PodAllocation,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
): PodAllocation {
  const isUnrecorded = ({ state, amounts }: ObservedContainer) => state === "running" && amounts === undefined;
  if (!observed.containers.some(isUnrecorded)) return allocation;
  const { spec } = withAllocated(pod, allocation.allocated);
  const adopted = resizableContainers(spec).flatMap((container) => {
    const newest = newestInstanceOf(observed, container.name);
    if (newest === undefined || !isUnrecorded(newest)) return [];
    if (allocation.actuated[container.name]?.id === newest.id) return [];
    const { id } = newest;
    const resources = reportedResources(previousStatusOfInstance(previousStatus, id)) ?? container.resources;
    return [[container.name, { id, amounts: containerAmounts(resources, spec.resources) }] as const];
  });
  if (adopted.length === 0) return allocation;
  return { ...allocation, actuated: { ...allocation.actuated, ...Object.fromEntries(adopted) } };
}

/** `allocatedResources` has the requests as they were allocated, `resources` those that a runtime may have rounded. */
function reportedResources(status: ContainerStatus | undefined): ResourceRequirements | undefined {
  const { allocatedResources, resources } = status ?? {};
  if (resources === undefined) return undefined;
  const { limits } = resources;
  return { ...(allocatedResources && { requests: allocatedResources }), ...(limits && { limits }) };
}
