import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod.ts";

/** Who asks for a pod: a manifest of this node, or the API server. */
export type DesiredSource = StaticPodSource | { readonly kind: "api" };

export type SourceKind = DesiredSource["kind"];

/** A pod that somebody wants on this node, or wanted until a moment ago. */
export interface DesiredPod {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly source: DesiredSource;
  /** When this node first took it; epoch milliseconds. */
  readonly acceptedAt: number;
  /** When the earlier pod of its name was gone, if it had to wait for one; epoch milliseconds. */
  readonly heldUntil?: number;
  /** Grows when a pod that carries a uid of its own becomes another one under it. */
  readonly revision: number;
  /** Present once the pod has to end; it never goes away again, and its grace only ever shrinks. */
  readonly termination?: Termination;
  /** What the node answers to the pod, unless that is that it takes it. Taken, as rejected, is for good. */
  readonly admission?: Admission;
  /** What it had of the node is there for others: it has ended, or its source does not have it any more. */
  readonly isPlaceFree?: true;
  /** The last word on a pod that has ended, kept because the API server could not be told it yet. */
  readonly lastStatus?: PodStatus;
}

/** `awaited`: the node has not answered yet. */
export type Admission = { readonly kind: "awaited" } | ({ readonly kind: "rejected" } & Rejection);

/** Why a node does not take a pod, in the kubelet's words. */
export interface Rejection {
  readonly reason: string;
  readonly message: string;
}

/** A desired pod as a decision sees it. */
export interface DesiredNow extends DesiredPod {
  /** An earlier pod of the same namespace and name that still has to end first. */
  readonly waitsFor?: PodUid;
  /** The API server, whose pod it is, has not said yet what it knows of it: this agent has only what was recorded when it was taken. */
  readonly isUnheard?: true;
}

export interface Termination {
  readonly requestedAt: number;
  readonly gracePeriodSeconds: number;
  /** A clause that fits behind "stop container a within 30s: …". */
  readonly why: string;
}

/** When the node began with the pod, as `status.startTime` says; epoch milliseconds. Time that it was held is no part of its life. */
export function startTimeOf({ acceptedAt, heldUntil }: DesiredPod): number {
  return heldUntil ?? acceptedAt;
}

/** When the grace is over; epoch milliseconds. */
export function dueOf({ requestedAt, gracePeriodSeconds }: Termination): number {
  return requestedAt + gracePeriodSeconds * 1000;
}

/** The pod's grace period in seconds; the API's default where it says none. */
export function gracePeriodOf({ spec }: Pod): number {
  return spec.terminationGracePeriodSeconds ?? 30;
}

/** `namespace/name`: what a user calls the pod; unique among pods that run, not over time. */
export function fullNameOf({ metadata: { namespace = "default", name = "" } }: Pod): string {
  return `${namespace}/${name}`;
}
