import type { EventType } from "../../../proto/kubernetes/gen/types.ts";

/** An Event about a pod, with the kubelet's reasons and messages. */
export interface PodEvent {
  readonly type: EventType;
  readonly reason: string;
  readonly message: string;
  /** The container that it is about; absent for the pod itself. */
  readonly container?: string;
}

export function normal(reason: string, message: string, container?: string): PodEvent {
  return { type: "Normal", reason, message, ...(container === undefined ? {} : { container }) };
}

export function warning(reason: string, message: string, container?: string): PodEvent {
  return { type: "Warning", reason, message, ...(container === undefined ? {} : { container }) };
}

export const SANDBOX_CHANGED = "SandboxChanged";

/** Recorded once per sandbox replacement, with its first action. */
export function sandboxChangedEvents(): readonly PodEvent[] {
  return [normal(SANDBOX_CHANGED, "Pod sandbox changed, it will be killed and re-created.")];
}

/** `what` is the kubelet's name of the step, `target` the container's name or the pod's uid. */
export function killFailedEvent(what: string, target: string, reason: string, message: string): PodEvent {
  const why = `failed to "${what}" for "${target}" with ${reason}: ${JSON.stringify(message)}`;
  return warning("FailedKillPod", `error killing pod: ${why}`);
}
