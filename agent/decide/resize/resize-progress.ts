import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../events/pod-event.ts";
import { type PodAllocation, resourcesOf, withAllocated } from "./allocation.ts";
import { resizeCompleted, resizeFailed, resizePending, resizeStarted } from "./resize-events.ts";
import type { ResizeVerdict } from "./resize-verdict.ts";

/** The record of a pod's resources, the same object if nothing has changed, and the Events of the change. */
export interface ResizeProgress {
  readonly allocation: PodAllocation;
  readonly events: readonly PodEvent[];
}

/**
 * The record after a verdict on what the spec requests. A resize that is accepted replaces an earlier one that is still
 * in progress, with its error. An event is recorded when the reason changes, or another spec gets the same one; a mere
 * change of the message changes the condition alone. Rule: the kubelet's handlePodResourcesResize.
 */
export function withVerdict(pod: Pod, allocation: PodAllocation, verdict: ResizeVerdict, now: number): ResizeProgress {
  const { pending: before, ...settled } = allocation;
  const { sandboxLimits } = allocation.started ?? {};
  const { generation = 0 } = pod.metadata;
  switch (verdict.kind) {
    case "wait":
      return { allocation, events: [] };
    case "none":
      return { allocation: before === undefined ? allocation : settled, events: [] };
    case "accepted":
      return {
        allocation: {
          ...settled,
          allocated: resourcesOf(pod.spec),
          started: { generation, since: now, ...(sandboxLimits && { sandboxLimits }) },
        },
        events: [resizeStarted(pod, generation)],
      };
    case "Deferred":
    case "Infeasible": {
      const { kind: reason, message } = verdict;
      const isSameReason = before?.reason === reason;
      const pending = { reason, message, generation, since: isSameReason ? before.since : now };
      const isNew = !isSameReason || before.generation !== generation;
      if (!isNew && before.message === message) return { allocation, events: [] };
      return { allocation: { ...settled, pending }, events: isNew ? [resizePending(pod, pending)] : [] };
    }
  }
}

/** How far the allocated resources are carried out. */
export type Actuation =
  | { readonly kind: "complete" | "inProgress" }
  | { readonly kind: "error"; readonly message: string };

/**
 * The record after a look at what is left to be done. An error stays until the resize is complete: a step that succeeds
 * after it does not clear it. The generation stays that of the spec that was accepted. Rule: the kubelet's SyncPod,
 * SetPodResizeInProgressCondition and ClearPodResizeInProgressCondition.
 */
export function withActuation(pod: Pod, allocation: PodAllocation, actuation: Actuation, now: number): ResizeProgress {
  const { started: before, ...settled } = allocation;
  const allocatedPod = () => withAllocated(pod, allocation.allocated);
  const generation = before?.generation ?? pod.metadata.generation ?? 0;
  switch (actuation.kind) {
    case "complete":
      if (before === undefined) return { allocation, events: [] };
      return { allocation: settled, events: [resizeCompleted(allocatedPod(), generation)] };
    case "inProgress":
      if (before !== undefined) return { allocation, events: [] };
      return { allocation: { ...settled, started: { generation, since: now } }, events: [] };
    case "error": {
      const { message: error } = actuation;
      if (before?.error === error) return { allocation, events: [] };
      const since = before?.error === undefined ? now : before.since;
      const events = [resizeFailed(allocatedPod(), generation, error)];
      return { allocation: { ...settled, started: { ...before, generation, error, since } }, events };
    }
  }
}

/** A condition of the pod whose status is True. */
export interface ResizeCondition {
  readonly type: "PodResizePending" | "PodResizeInProgress";
  readonly reason?: string;
  readonly message?: string;
  readonly observedGeneration: number;
  /** Its last transition; epoch milliseconds. */
  readonly since: number;
}

/** The conditions of a pod that has not ended, in the kubelet's order. A pod that has ended has neither. */
export function resizeConditions({ pending, started }: PodAllocation): readonly ResizeCondition[] {
  return [
    ...(pending === undefined
      ? []
      : [
          {
            type: "PodResizePending" as const,
            reason: pending.reason,
            message: pending.message,
            observedGeneration: pending.generation,
            since: pending.since,
          },
        ]),
    ...(started === undefined
      ? []
      : [
          {
            type: "PodResizeInProgress" as const,
            ...(started.error !== undefined && { reason: "Error", message: started.error }),
            observedGeneration: started.generation,
            since: started.since,
          },
        ]),
  ];
}
