import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { compareQuantities, ZERO } from "../../../proto/kubernetes/values/quantity.ts";
import { qosClassOf } from "../status/qos.ts";
import { type PodAllocation, withAllocated } from "./allocation.ts";

/** A pod whose spec requests other resources than are allocated to it. */
export interface QueuedResize {
  readonly pod: Pod;
  readonly allocation: PodAllocation;
}

/**
 * The order in which pending resizes are decided: those that request no more than before, which make room; then by
 * priority; then Guaranteed pods before others; then those that have been pending longest, new ones last. Equals keep
 * their order. Rule: the kubelet's sortPendingResizes.
 */
export function byResizeOrder(a: QueuedResize, b: QueuedResize): number {
  const keys = [keyOf(a), keyOf(b)] as const;
  const index = keys[0].findIndex((value, at) => value !== keys[1][at]);
  return index === -1 ? 0 : (keys[0][index] ?? 0) < (keys[1][index] ?? 0) ? -1 : 1;
}

/** Smaller values come first. */
function keyOf(queued: QueuedResize): readonly number[] {
  const { pod, allocation } = queued;
  return [
    increasesRequests(queued) ? 1 : 0,
    -(pod.spec.priority ?? 0),
    qosClassOf(pod) === "Guaranteed" ? 0 : 1,
    allocation.pending?.since ?? Number.POSITIVE_INFINITY,
  ];
}

function increasesRequests({ pod, allocation: { allocated } }: QueuedResize): boolean {
  const [before, after] = [podRequests(withAllocated(pod, allocated).spec), podRequests(pod.spec)];
  return ["cpu", "memory"].some(
    (resource) => compareQuantities(after.get(resource) ?? ZERO, before.get(resource) ?? ZERO) > 0,
  );
}

const FIRST_RETRY_MS = 30_000;
const RETRY_MS = 180_000;

/**
 * When a deferred resize is decided again although nothing on the node has changed: 30 seconds after the agent has
 * started or its sources became ready, then every 3 minutes. It is also decided whenever a pod ends, shrinks, is removed
 * or added. Times are epoch milliseconds; `lastTriedAt` is undefined before the first try of this agent.
 */
export function resizeRetryAt(readySince: number, lastTriedAt: number | undefined): number {
  return lastTriedAt === undefined ? readySince + FIRST_RETRY_MS : lastTriedAt + RETRY_MS;
}
