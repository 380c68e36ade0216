import { goJson } from "../../../proto/go-json.ts";
import type { Container, Pod, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { normal, type PodEvent, warning } from "../events/pod-event.ts";
import type { PendingResize } from "./allocation.ts";

/*
 * The Events of a resize. Each message is a sentence and the resources of all containers as JSON, as the kubelet's events/
 * resize.go writes it. `pod` has the resources that the event is about: the allocated ones, or those that are pending.
 */

export function resizeStarted(pod: Pod, generation: number): PodEvent {
  return normal("ResizeStarted", `Pod resize started: ${resourceSummary(pod, generation)}`);
}

export function resizeCompleted(pod: Pod, generation: number): PodEvent {
  return normal("ResizeCompleted", `Pod resize completed: ${resourceSummary(pod, generation)}`);
}

export function resizeFailed(pod: Pod, generation: number, error: string): PodEvent {
  return warning("ResizeError", `Pod resize error: ${resourceSummary(pod, generation, error)}`);
}

/** `ResizeDeferred` or `ResizeInfeasible`. */
export function resizePending(
  pod: Pod,
  { reason, message, generation }: Pick<PendingResize, "reason" | "message" | "generation">,
): PodEvent {
  const eventReason = reason === "Deferred" ? "ResizeDeferred" : "ResizeInfeasible";
  return warning(eventReason, `Pod resize ${reason}: ${resourceSummary(pod, generation, message)}`);
}

function resourceSummary({ spec }: Pod, generation: number, error?: string): string {
  const { initContainers = [], containers } = spec;
  return goJson({
    ...(initContainers.length > 0 && { initContainers: initContainers.map(summaryOf) }),
    containers: containers.map(summaryOf),
    generation,
    ...(error && { error }),
  });
}

/** The field order of the kubelet's Go struct. The resources of the pod itself are not among them. */
function summaryOf({ name, resources: { limits, requests, claims } = {} }: Container): {
  readonly name: string;
  readonly resources: ResourceRequirements;
} {
  return {
    name,
    resources: {
      ...(limits && { limits: sorted(limits) }),
      ...(requests && { requests: sorted(requests) }),
      ...(claims && { claims }),
    },
  };
}

/** Go writes the keys of a map in their order. */
function sorted(list: ResourceList): ResourceList {
  return Object.fromEntries(Object.entries(list).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
