import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { refusalOf, unsupported, unsupportedFeatures } from "../admission/unsupported-features.ts";
import { isOutdated } from "../container/container-hash.ts";
import { isForgotten } from "../container/missing-containers.ts";
import { shouldRestart } from "../container/restart.ts";
import { restartAskedAt } from "../container/restart-all.ts";
import { hasItsLastSandbox, sandboxNeed } from "../container/sandbox.ts";
import type { Settings } from "../settings.ts";
import { isTerminal } from "../sources/api-pod.ts";
import { type DesiredNow, type DesiredPod, type Rejection, startTimeOf } from "./desired.ts";
import type { Outcome } from "./memory.ts";
import { type ExitedContainer, mayRun, newestOf, type ObservedPod } from "./observed.ts";

/** Whether the pod has come to its end by itself, and how. Undefined while it still has something to do. */
export function outcomeOf(
  desired: DesiredNow,
  observed: ObservedPod,
  { cluster, allowedUnsafeSysctls }: Pick<Settings, "cluster" | "allowedUnsafeSysctls">,
  now: number,
): Outcome | undefined {
  const { pod, source, admission } = desired;
  const isOfApi = source.kind === "api";
  const told = isOfApi ? toldOutcome(pod, now) : undefined;
  if (told !== undefined) return told;
  const isInCluster = isOfApi || cluster !== undefined;
  const features = unsupportedFeatures(pod, { isOfApi, isInCluster, isJudged: admission !== undefined });
  if (features.length > 0) return rejected(unsupported(features), now);
  const refusal = refusalOf(pod, allowedUnsafeSysctls);
  if (refusal !== undefined) return rejected(refusal, now);
  if (admission?.kind === "rejected") return rejected(admission, now);
  const deadline = deadlineOf(desired);
  if (deadline !== undefined && deadline <= now)
    return {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "Pod was active on the node longer than the specified deadline",
      at: now,
    };
  const outcome = outcomeOfContainers(pod, observed, now);
  return outcome !== undefined && mayBeKnownBetter(desired, observed, now) ? undefined : outcome;
}

/**
 * An outcome is for good: none is drawn from an end that the runtime has made up, which the API server may have been told as it was, before that
 * was heard. Where the pod's sandbox is gone too, nothing of it goes on meanwhile.
 */
function mayBeKnownBetter({ pod, isUnheard }: DesiredNow, observed: ObservedPod, now: number): boolean {
  return (
    isUnheard === true && observed.containers.some(isForgotten) && sandboxNeed(pod, observed, now).kind === "ready"
  );
}

/** Before the message of a pod that was rejected: the kubelet's, and all that tells of it to an agent that comes later. */
export const REJECTED = "Pod was rejected: ";

function rejected({ reason, message }: Rejection, now: number): Outcome {
  return { phase: "Failed", reason, message: `${REJECTED}${message}`, isRejection: true, at: now };
}

/** The end that the API server knows of, whoever told it: a pod that has ended there never starts again. */
function toldOutcome({ status }: Pod, now: number): Outcome | undefined {
  if (status === undefined || !isTerminal(status)) return undefined;
  const { reason, message } = status;
  return {
    phase: status.phase === "Succeeded" ? "Succeeded" : "Failed",
    ...(reason ? { reason } : {}),
    ...(message ? { message } : {}),
    ...(message?.startsWith(REJECTED) && { isRejection: true }),
    at: now,
  };
}

/** When `activeDeadlineSeconds` ends the pod, counted from `status.startTime`; epoch milliseconds. */
export function deadlineOf(desired: DesiredPod): number | undefined {
  const { activeDeadlineSeconds } = desired.pod.spec;
  return activeDeadlineSeconds === undefined ? undefined : startTimeOf(desired) + activeDeadlineSeconds * 1000;
}

function outcomeOfContainers(pod: Pod, seen: ObservedPod, now: number): Outcome | undefined {
  const observed = withoutEndsForRestart(pod, seen);
  const exits = pod.spec.containers.map((container) => finalExitOf(pod, container, observed));
  const areAllDone = exits.every((exit) => exit !== undefined);
  const failed = areAllDone ? undefined : failedInitOf(pod, observed);
  if (failed !== undefined) return { phase: "Failed", why: `its init container ${failed} has failed`, at: now };
  if (!areAllDone && !isBeyondRepair(pod, observed, now)) return undefined;
  const haveAllSucceeded = exits.every((exit) => exit?.exitCode === 0);
  return { phase: haveAllSucceeded ? "Succeeded" : "Failed", at: now };
}

/** What was ended so that all of the pod begin anew has not come to its end. */
function withoutEndsForRestart(pod: Pod, observed: ObservedPod): ObservedPod {
  const asked = restartAskedAt(pod, observed);
  if (asked === undefined) return observed;
  const containers = observed.containers.filter((each) => each.state !== "exited" || each.finishedAt < asked);
  return { ...observed, containers };
}

/** The exit of a container that will not run again: not by its policy, and not because it is to become another one. */
function finalExitOf(pod: Pod, container: Container, observed: ObservedPod): ExitedContainer | undefined {
  const newest = newestOf(observed, container.name);
  if (newest?.state !== "exited" || isOutdated(container, newest)) return undefined;
  return shouldRestart(pod, container, newest) ? undefined : newest;
}

/** The init container that has failed for good, where nothing of what it was to prepare has begun in this sandbox. */
function failedInitOf({ spec, ...pod }: Pod, observed: ObservedPod): string | undefined {
  const [sandbox] = observed.sandboxes;
  const hasBegun = spec.containers.some(({ name }) => {
    const newest = newestOf(observed, name);
    return newest !== undefined && newest.sandboxId === sandbox?.id;
  });
  if (hasBegun) return undefined;
  const failed = (spec.initContainers ?? []).find((container) => {
    if (isSidecar(container)) return false;
    const newest = newestOf(observed, container.name);
    return newest?.state === "exited" && newest.exitCode !== 0 && !shouldRestart({ ...pod, spec }, container, newest);
  });
  return failed?.name;
}

/** Nothing of the pod runs any more, and it gets no sandbox in which it could. */
function isBeyondRepair(pod: Pod, observed: ObservedPod, now: number): boolean {
  if (!hasItsLastSandbox(pod, observed)) return false;
  return sandboxNeed(pod, observed, now).kind === "create" && !observed.containers.some(mayRun);
}
