import type { Pod } from "./gen/types.ts";

/** The two classes that every cluster has; a pod that no API server has seen may name them. */
const BUILT_IN: Readonly<Record<string, number>> = {
  "system-node-critical": 2_000_001_000,
  "system-cluster-critical": 2_000_000_000,
};

/** The pod's priority, from `spec.priority` or from a built-in class by name. */
export function priorityOf({ spec: { priority, priorityClassName = "" } }: Pod): number {
  return priority ?? BUILT_IN[priorityClassName] ?? 0;
}

const CRITICAL_PRIORITY = 2_000_000_000;

/** Pods that must run, whatever else does; static ones are, whatever they say. Rule: the kubelet's IsCriticalPod. */
export function isCritical(pod: Pod): boolean {
  const source = pod.metadata.annotations?.["kubernetes.io/config.source"] ?? "api";
  return source !== "api" || priorityOf(pod) >= CRITICAL_PRIORITY;
}

/** Pods without which the node is none: the kernel spares them, as it spares Guaranteed ones. */
export function isNodeCritical(pod: Pod): boolean {
  return priorityOf(pod) >= (BUILT_IN["system-node-critical"] ?? Number.POSITIVE_INFINITY);
}
