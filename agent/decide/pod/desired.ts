import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod-origin.ts";
import type { PodAllocation } from "../resize/allocation.ts";

/** Where a pod comes from: a manifest of this node, or the API server. */
export type DesiredSource = StaticPodSource | { readonly kind: "api" };

export type SourceKind = DesiredSource["kind"];

/** A pod that a source wants on this node, or wanted until it was terminated. */
export interface DesiredPod {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly source: DesiredSource;
  /** When this node first accepted it; epoch milliseconds. */
  readonly acceptedAt: number;
  /** When its predecessor of the same name was gone, if it had to wait for one; epoch milliseconds. */
  readonly heldUntil?: number;
  /** Incremented when a manifest with a uid of its own changes under that uid. */
  readonly revision: number;
  /** Set once the pod has to terminate. It is never withdrawn, and its grace period only shrinks. */
  readonly termination?: Termination;
  /** Set once the node itself ends the pod, which its source still wants. It is never withdrawn. */
  readonly terminationRequest?: DatedTerminationRequest;
  /** The admission result; absent once the node has admitted the pod. Both results are final. */
  readonly admission?: Admission;
  /** Its resources on the node are released: it has ended, or its source does not have it any more. */
  readonly hasReleasedResources?: true;
  /** An earlier agent admitted it, and no status was decided since: whether it has ended is not known yet. */
  readonly isRestored?: true;
  /**
   * What the node has allocated to it. Absent for a pod that is not admitted, and for a static pod: its manifest cannot be
   * resized, but is another pod when it changes.
   */
  readonly allocation?: PodAllocation;
  /** The final status of a pod, kept while the API server could not be updated. */
  readonly lastStatus?: PodStatus;
}

/** `awaited`: the pod waits for admission. */
export type Admission = { readonly kind: "awaited" } | ({ readonly kind: "rejected" } & Rejection);

/** Why the node rejects a pod, in the kubelet's words. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** A desired pod with what a decision has to know besides. Its spec has the resources that are allocated to it. */
export interface DesiredPodView extends DesiredPod {
  /** An earlier pod of the same namespace and name that has to end first. */
  readonly predecessorUid?: PodUid;
  /**
   * A pod of the API that no list or watch event has confirmed since the agent started: only its checkpoint is known.
   */
  readonly isUnconfirmed?: true;
}

export interface Termination {
  readonly requestedAt: number;
  readonly gracePeriodSeconds: number;
  /** A clause that fits behind "stop container a within 30s: …". */
  readonly why: string;
}

/**
 * The node's own request to end a pod: eviction, preemption, shutdown. The pod fails with this reason and message, and
 * stays Failed until its source deletes it.
 */
export interface TerminationRequest {
  /** `status.reason`, and the reason of the event. */
  readonly reason: string;
  /** `status.message`, and the message of the event. */
  readonly message: string;
  /** The condition `DisruptionTarget`; without it the pod does not get the condition. */
  readonly disruption?: Disruption;
  /** An upper bound: the pod's own grace period applies if it ends sooner. */
  readonly gracePeriodSeconds: number;
}

export type DatedTerminationRequest = TerminationRequest & Pick<Termination, "requestedAt">;

/** Reason and message of a condition `DisruptionTarget` that is True. */
export interface Disruption {
  readonly reason: string;
  readonly message: string;
}

/**
 * Whether the pod may still start containers, which may need the Secrets and ConfigMaps that it refers to. Static pods
 * may not refer to API objects.
 */
export function needsReferencedObjects(desired: DesiredPod): boolean {
  const { source, termination, terminationRequest, admission, hasReleasedResources, isRestored } = desired;
  const mustEnd = termination !== undefined || terminationRequest !== undefined;
  const mayStart = admission === undefined && !mustEnd && hasReleasedResources !== true;
  return source.kind === "api" && mayStart && isRestored !== true;
}

/** `status.startTime` in epoch milliseconds. Time spent waiting for a predecessor does not count. */
export function startTimeOf({ acceptedAt, heldUntil }: DesiredPod): number {
  return heldUntil ?? acceptedAt;
}

/** When the grace period ends; epoch milliseconds. */
export function graceEndsAt({
  requestedAt,
  gracePeriodSeconds,
}: Pick<Termination, "requestedAt" | "gracePeriodSeconds">): number {
  return requestedAt + gracePeriodSeconds * 1000;
}

/** The pod's grace period in seconds; the API's default if the spec has none. */
export function gracePeriodOf({ spec }: Pod): number {
  return spec.terminationGracePeriodSeconds ?? 30;
}

/** The kubelet's minimum for each end but a deletion by force. */
export const MIN_GRACE_SECONDS = 1;

/** The grace period of a pod that ends without a request of its own, in seconds: calculateEffectiveGracePeriod. */
export const effectiveGracePeriodOf = (pod: Pod): number => Math.max(MIN_GRACE_SECONDS, gracePeriodOf(pod));

/** `namespace/name`, as users name the pod: unique among the pods of a node at one time, not over time. */
export function fullNameOf({ metadata: { namespace = "default", name = "" } }: Pod): string {
  return `${namespace}/${name}`;
}
