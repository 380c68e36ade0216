import {
  type DatedTerminationRequest,
  type DesiredPod,
  graceEndsAt,
  MIN_GRACE_SECONDS,
  type TerminationRequest,
} from "../pod/desired.ts";
import { previousStatusOf } from "../status/previous-status.ts";

/**
 * The pod with the node's request to end it; undefined if the request changes nothing, because the pod has ended
 * already or ends as soon. The first request sets reason, message, condition and time; a later one can only shorten the
 * grace period.
 */
export function withTerminationRequest(
  desired: DesiredPod,
  request: TerminationRequest,
  now: number,
): DesiredPod | undefined {
  if (hasEnded(desired)) return undefined;
  const { terminationRequest: first } = desired;
  const gracePeriodSeconds = Math.max(MIN_GRACE_SECONDS, request.gracePeriodSeconds);
  if (first === undefined)
    return { ...desired, terminationRequest: { ...request, requestedAt: now, gracePeriodSeconds } };
  const shorter = graceUntil(first, graceEndsAt({ requestedAt: now, gracePeriodSeconds }));
  if (shorter >= first.gracePeriodSeconds) return undefined;
  return { ...desired, terminationRequest: { ...first, gracePeriodSeconds: shorter } };
}

/** A pod that its source has removed may release its resources before its containers have stopped. */
function hasEnded({ pod, hasReleasedResources, termination }: DesiredPod): boolean {
  return previousStatusOf(pod).completion !== undefined || (hasReleasedResources === true && termination === undefined);
}

/** The grace period that counts from the first request and ends at `endsAt`. */
function graceUntil({ requestedAt }: DatedTerminationRequest, endsAt: number): number {
  return Math.max(MIN_GRACE_SECONDS, Math.ceil((endsAt - requestedAt) / 1000));
}
