import { allContainerStatuses, lastingContainers } from "../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerStatus,
  Pod,
  PodCondition,
  PodStatus,
  ResourceRequirements,
} from "../../proto/kubernetes/gen/types.ts";
import { compareQuantities, parseQuantity } from "../../proto/kubernetes/quantity.ts";
import { newestOf, type ObservedPod } from "./observed.ts";

/*
 * The resources of a pod that runs may be changed in the API (KEP-1287, subresource `resize`). Berth changes none in place: an instance
 * keeps what it was made with, and what the API shows of it is that. The next instance is made with what is asked for then.
 */

type Resources = Pick<ContainerStatus, "allocatedResources" | "resources">;

/**
 * What an instance was made with: what the API server was told of this very one, and of one of which it has heard nothing, what the pod
 * asks for. `containerId` is that of the status, `containerd://…`.
 */
export function resourcesOfInstance({ status }: Pod, { name, resources }: Container, containerId: string): Resources {
  const told = allContainerStatuses(status).find((each) => each.name === name);
  if (told?.containerID === containerId) {
    const { allocatedResources, resources: known } = told;
    return { ...(allocatedResources && { allocatedResources }), ...(known && { resources: known }) };
  }
  if (resources === undefined) return {};
  return { ...(resources.requests && { allocatedResources: resources.requests }), resources };
}

/** The containers that run with other resources than the pod asks for now. */
export function awaitingResize(pod: Pod, observed: ObservedPod): readonly string[] {
  return lastingContainers(pod.spec)
    .filter(({ name, resources }) => {
      const newest = newestOf(observed, name);
      const told = allContainerStatuses(pod.status).find((each) => each.name === name);
      if (newest?.state !== "running" || told?.containerID?.endsWith(`//${newest.id}`) !== true) return false;
      return !isSameAmount(told.allocatedResources, resources?.requests) || !isSameLimit(told.resources, resources);
    })
    .map(({ name }) => name);
}

/** What users see of a change that waits for the next instance. */
export function resizeMessage(containers: readonly string[]): string {
  return `This node does not resize containers in place: [${containers.join(" ")}] keep what they were made with until they are made anew`;
}

/** What is told of such a change when it is noticed, in the kubelet's form; undefined: nothing new. */
export function resizeNews({ spec }: Pod, before: PodStatus | undefined, after: PodStatus): string | undefined {
  const pending = pendingIn(after);
  if (pending === undefined || pendingIn(before)?.observedGeneration === pending.observedGeneration) return undefined;
  const { reason, observedGeneration = 0, message } = pending;
  const summary = ({ name, resources: { limits, requests, claims } = {} }: Container) => ({
    name,
    // In Go's order.
    resources: { limits, requests, claims },
  });
  const asked = {
    ...(spec.initContainers && { initContainers: spec.initContainers.map(summary) }),
    containers: spec.containers.map(summary),
    generation: observedGeneration,
    error: message,
  };
  return `Pod resize ${reason}: ${JSON.stringify(asked)}`;
}

function pendingIn(status: PodStatus | undefined): PodCondition | undefined {
  return status?.conditions?.find(({ type, status: is }) => type === "PodResizePending" && is === "True");
}

type Amounts = ResourceRequirements["requests"];

function isSameLimit(a: ResourceRequirements | undefined, b: ResourceRequirements | undefined): boolean {
  return isSameAmount(a?.limits, b?.limits);
}

/** Whether two lists say the same, however they write it: `100m` and `0.1`. */
function isSameAmount(a: Amounts = {}, b: Amounts = {}): boolean {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => {
    const [left, right] = [a[name], b[name]];
    if (left === undefined || right === undefined) return left === right;
    return compareQuantities(parseQuantity(left), parseQuantity(right)) === 0;
  });
}
