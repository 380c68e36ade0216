import type { Pod } from "./gen/types.ts";
import { sourceAnnotation } from "./well-known-names.ts";

/** The lowest priority of critical pods: that of `system-cluster-critical`. Rule: SystemCriticalPriority. */
export const CRITICAL_PRIORITY = 2_000_000_000;

/** The two built-in PriorityClasses of every cluster. Static pods may name them too. */
const BUILT_IN_CLASSES: Readonly<Record<string, number>> = {
  "system-node-critical": 2_000_001_000,
  "system-cluster-critical": CRITICAL_PRIORITY,
};

/** The pod's priority, from `spec.priority` or from a built-in class by name. */
export function priorityOf({ spec: { priority, priorityClassName = "" } }: Pod): number {
  return priority ?? BUILT_IN_CLASSES[priorityClassName] ?? 0;
}

/** Whether a pod is critical: static, or with a critical priority. Rule: the kubelet's IsCriticalPod. */
export function isCritical(pod: Pod): boolean {
  const source = pod.metadata.annotations?.[sourceAnnotation] ?? "api";
  return source !== "api" || priorityOf(pod) >= CRITICAL_PRIORITY;
}

/** Whether the node depends on the pod. The OOM killer spares it like a Guaranteed pod. */
export function isNodeCritical(pod: Pod): boolean {
  return priorityOf(pod) >= (BUILT_IN_CLASSES["system-node-critical"] ?? Number.POSITIVE_INFINITY);
}
