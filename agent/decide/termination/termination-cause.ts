import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  type DesiredPodView,
  effectiveGracePeriodOf,
  graceEndsAt,
  MIN_GRACE_SECONDS,
  type Termination,
} from "../pod/desired.ts";
import type { PodOutcome } from "../pod/memory.ts";

/** Why and when a pod ends: its grace period counts from `requestedAt`. */
export type TerminationCause = Completed | Removed;

export type Completed = Termination & { readonly kind: "ended"; readonly pod: Pod; readonly outcome: PodOutcome };

export type Removed =
  /** It may have completed before. */
  | (Termination & { readonly kind: "removed"; readonly pod: Pod; readonly outcome: PodOutcome | undefined })
  /** Found on the node without a source: its spec, and with it its sidecars and hooks, is unknown. */
  | (Termination & { readonly kind: "orphaned" });

/**
 * Why the pod has to end, if it has to. A completed pod may be removed as well, and the node itself may end both; the
 * grace period then ends at the earliest of these times.
 */
export function terminationCauseOf(
  { pod, termination, terminationRequest }: DesiredPodView,
  outcome: PodOutcome | undefined,
): TerminationCause | undefined {
  const completion = outcome && { requestedAt: outcome.at, gracePeriodSeconds: effectiveGracePeriodOf(pod) };
  const all: readonly (GracePeriod | undefined)[] = [termination, completion, terminationRequest];
  if (termination !== undefined)
    return { ...earliest(all, termination), kind: "removed", why: termination.why, pod, outcome };
  if (outcome === undefined || completion === undefined) return undefined;
  const why = outcome.message ?? outcome.why ?? "all its containers are done";
  return { ...earliest(all, completion), kind: "ended", why, pod, outcome };
}

type GracePeriod = Pick<Termination, "requestedAt" | "gracePeriodSeconds">;

/** The grace period that ends first. */
function earliest(all: readonly (GracePeriod | undefined)[], first: GracePeriod): GracePeriod {
  const { requestedAt, gracePeriodSeconds } = all.reduce<GracePeriod>(
    (earlier, each) => (each !== undefined && graceEndsAt(each) < graceEndsAt(earlier) ? each : earlier),
    first,
  );
  return { requestedAt, gracePeriodSeconds };
}

/** A pod without a source gets the kubelet's grace period of one second. */
export function orphanTermination(orphanedAt: number): TerminationCause {
  return {
    kind: "orphaned",
    requestedAt: orphanedAt,
    gracePeriodSeconds: MIN_GRACE_SECONDS,
    why: "no source asks for this pod",
  };
}
