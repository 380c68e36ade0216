import type { ContainerId } from "../../../proto/ids.ts";
import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, ContainerStatus, Pod, PodCondition, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { compareQuantities, parseQuantity } from "../../../proto/kubernetes/values/quantity.ts";
import { newestInstanceOf, type ObservedPod } from "../pod/observed.ts";
import { type PreviousStatus, previousStatusOfInstance } from "../status/previous-status.ts";

/*
 * The API allows to change the resources of a running pod (KEP-1287, subresource `resize`). Berth changes none in
 * place: an instance keeps the resources that it was created with, and its status reports those. The next instance is
 * created with the new ones.
 */

type Resources = Pick<ContainerStatus, "allocatedResources" | "resources">;

/**
 * The resources that an instance was created with: those reported for this very instance, or, if nothing is reported
 * for it yet, those in the pod's spec.
 */
export function resourcesOfInstance(
  previousStatus: PreviousStatus,
  { resources }: Container,
  id: ContainerId,
): Resources {
  const reported = previousStatusOfInstance(previousStatus, id);
  if (reported !== undefined) {
    const { allocatedResources, resources: reportedResources } = reported;
    return {
      ...(allocatedResources && { allocatedResources }),
      ...(reportedResources && { resources: reportedResources }),
    };
  }
  if (resources === undefined) return {};
  return { ...(resources.requests && { allocatedResources: resources.requests }), resources };
}

/** The containers that run with other resources than the spec now requests. */
export function containersAwaitingResize(
  { spec }: Pod,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
): readonly string[] {
  return nonEphemeralContainers(spec)
    .filter(({ name, resources }) => {
      const newest = newestInstanceOf(observed, name);
      const reported = newest?.state === "running" ? previousStatusOfInstance(previousStatus, newest.id) : undefined;
      if (reported === undefined) return false;
      const isSame =
        areSameAmounts(reported.allocatedResources, resources?.requests) &&
        areSameAmounts(reported.resources?.limits, resources?.limits);
      return !isSame;
    })
    .map(({ name }) => name);
}

/** The message of the condition `PodResizePending`. */
export function resizeMessage(containers: readonly string[]): string {
  return `This node does not resize containers in place: [${containers.join(" ")}] keep their resources until they are re-created`;
}

/** The kubelet's event message for a resize that has just become pending; undefined if there is none. */
export function resizeEventMessage({ spec }: Pod, before: PodStatus | undefined, after: PodStatus): string | undefined {
  const pending = pendingResizeCondition(after);
  if (pending === undefined || pendingResizeCondition(before)?.observedGeneration === pending.observedGeneration)
    return undefined;
  const { reason, observedGeneration = 0, message } = pending;
  const summary = ({ name, resources: { limits, requests, claims } = {} }: Container) => ({
    name,
    // The field order of the kubelet's Go struct.
    resources: { limits, requests, claims },
  });
  const details = {
    ...(spec.initContainers && { initContainers: spec.initContainers.map(summary) }),
    containers: spec.containers.map(summary),
    generation: observedGeneration,
    error: message,
  };
  return `Pod resize ${reason}: ${JSON.stringify(details)}`;
}

function pendingResizeCondition(status: PodStatus | undefined): PodCondition | undefined {
  return status?.conditions?.find(({ type, status: is }) => type === "PodResizePending" && is === "True");
}

/** Whether two resource lists are equal, whatever their notation: `100m` and `0.1`. */
function areSameAmounts(a: ResourceList = {}, b: ResourceList = {}): boolean {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => {
    const [left, right] = [a[name], b[name]];
    if (left === undefined || right === undefined) return left === right;
    return compareQuantities(parseQuantity(left), parseQuantity(right)) === 0;
  });
}
