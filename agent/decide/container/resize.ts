import type { ContainerId } from "../../../proto/ids.ts";
import { lastingContainers, statusOfInstance } from "../../../proto/kubernetes/containers.ts";
import type {
  Container,
  ContainerStatus,
  Pod,
  PodCondition,
  PodStatus,
  ResourceRequirements,
} from "../../../proto/kubernetes/gen/types.ts";
import { compareQuantities, parseQuantity } from "../../../proto/kubernetes/quantity.ts";
import { newestOf, type ObservedPod } from "../pod/observed.ts";

/*
 * The resources of a pod that runs may be changed in the API (KEP-1287, subresource `resize`). Berth changes none in place: an instance
 * keeps what it was made with, and what the API shows of it is that. The next instance is made with what is asked for then.
 */

type Resources = Pick<ContainerStatus, "allocatedResources" | "resources">;

/**
 * What an instance was made with: what the API server was told of this very one, and of one of which it has heard nothing, what the pod
 * asks for.
 */
export function resourcesOfInstance({ status }: Pod, { resources }: Container, id: ContainerId): Resources {
  const told = statusOfInstance(status, id);
  if (told !== undefined) {
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
      const told = newest?.state === "running" ? statusOfInstance(pod.status, newest.id) : undefined;
      if (told === undefined) return false;
      const isSame =
        isSameAmount(told.allocatedResources, resources?.requests) &&
        isSameAmount(told.resources?.limits, resources?.limits);
      return !isSame;
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

/** Whether two lists say the same, however they write it: `100m` and `0.1`. */
function isSameAmount(a: Amounts = {}, b: Amounts = {}): boolean {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => {
    const [left, right] = [a[name], b[name]];
    if (left === undefined || right === undefined) return left === right;
    return compareQuantities(parseQuantity(left), parseQuantity(right)) === 0;
  });
}
