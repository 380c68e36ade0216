import { isSidecar } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  forbiddenSysctlRejection,
  unsupportedFeatures,
  unsupportedRejection,
} from "../admission/unsupported-features.ts";
import { isUnknownExit } from "../container/missing-containers.ts";
import { isReplaced } from "../container/replaced.ts";
import { shouldRestart } from "../container/restart.ts";
import { restartAllRequestedAt } from "../container/restart-all.ts";
import { cannotReplaceSandbox, sandboxNeed } from "../container/sandbox.ts";
import type { PodSettings } from "../settings.ts";
import type { PreviousStatus } from "../status/previous-status.ts";
import { type DesiredPod, type DesiredPodView, type Rejection, startTimeOf } from "./desired.ts";
import type { PodOutcome } from "./memory.ts";
import { type ExitedContainer, mayBeRunning, newestInstanceOf, type ObservedPod } from "./observed.ts";

/** How the pod completed; undefined while it still has something to run. */
export function outcomeOf(
  desired: DesiredPodView,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
  { cluster, allowedUnsafeSysctls }: Pick<PodSettings, "cluster" | "allowedUnsafeSysctls">,
  now: number,
): PodOutcome | undefined {
  const { pod, source, admission } = desired;
  const isApiPod = source.kind === "api";
  const reported = isApiPod ? reportedOutcome(previousStatus, now) : undefined;
  if (reported !== undefined) return reported;
  const isInCluster = isApiPod || cluster !== undefined;
  const features = unsupportedFeatures(pod, { isApiPod, isInCluster, isAdmissionChecked: admission !== undefined });
  if (features.length > 0) return rejectedOutcome(unsupportedRejection(features), now);
  const forbidden = forbiddenSysctlRejection(pod, allowedUnsafeSysctls);
  if (forbidden !== undefined) return rejectedOutcome(forbidden, now);
  if (admission?.kind === "rejected") return rejectedOutcome(admission, now);
  const deadline = activeDeadlineOf(desired) ?? Number.POSITIVE_INFINITY;
  const { requestedAt = Number.POSITIVE_INFINITY } = desired.terminationRequest ?? {};
  if (deadline <= now && deadline < requestedAt)
    return {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "Pod was active on the node longer than the specified deadline",
      at: now,
    };
  const outcome = outcomeOfContainers(pod, previousStatus, observed, now);
  const reliable = outcome !== undefined && mayHaveReportedExit(desired, observed, now) ? undefined : outcome;
  if (reliable !== undefined && haveExitedBefore(requestedAt, pod, observed)) return reliable;
  return requestedOutcome(desired) ?? reliable;
}

/** The outcome of a pod that the node itself ends. */
function requestedOutcome({ terminationRequest }: DesiredPod): PodOutcome | undefined {
  if (terminationRequest === undefined) return undefined;
  const { reason, message, disruption, requestedAt } = terminationRequest;
  return { phase: "Failed", reason, message, ...(disruption && { disruption }), at: requestedAt };
}

/**
 * Whether the containers that decide the pod's outcome had exited by themselves before that time: later exits are those
 * of containers that were stopped. An exit without a known time does not count.
 */
function haveExitedBefore(at: number, { spec }: Pod, observed: ObservedPod): boolean {
  if (at === Number.POSITIVE_INFINITY) return true;
  const deciding = [...(spec.initContainers ?? []).filter((each) => !isSidecar(each)), ...spec.containers];
  return deciding.every(({ name }) => {
    const newest = newestInstanceOf(observed, name);
    return newest?.state !== "exited" || (newest.finishedAt < at && !isUnknownExit(newest));
  });
}

/**
 * Outcomes are final. Do not derive one from a synthetic exit (255, `Unknown`) before the first API list: the real exit
 * may already be in the pod's status. Where the sandbox is gone too, nothing of the pod runs meanwhile.
 */
function mayHaveReportedExit({ pod, isUnconfirmed }: DesiredPodView, observed: ObservedPod, now: number): boolean {
  return (
    isUnconfirmed === true &&
    observed.containers.some(isUnknownExit) &&
    sandboxNeed(pod, observed, now).kind === "ready"
  );
}

/** The kubelet's prefix of the message of a rejected pod; by it a later agent recognises the rejection. */
export const REJECTED_PREFIX = "Pod was rejected: ";

function rejectedOutcome({ reason, message }: Rejection, now: number): PodOutcome {
  return { phase: "Failed", reason, message: `${REJECTED_PREFIX}${message}`, isRejection: true, at: now };
}

/** The terminal phase that the API server already has, from any writer: such a pod never starts again. */
function reportedOutcome({ completion }: PreviousStatus, now: number): PodOutcome | undefined {
  if (completion === undefined) return undefined;
  const { phase, reason, message } = completion;
  return {
    phase,
    ...(reason !== "" && { reason }),
    ...(message !== "" && { message }),
    ...(message.startsWith(REJECTED_PREFIX) && { isRejection: true }),
    why: `the API server reports it as ${phase}`,
    at: now,
  };
}

/** When `activeDeadlineSeconds` ends the pod, counted from `status.startTime`; epoch milliseconds. */
export function activeDeadlineOf(desired: DesiredPod): number | undefined {
  const { activeDeadlineSeconds } = desired.pod.spec;
  return activeDeadlineSeconds === undefined ? undefined : startTimeOf(desired) + activeDeadlineSeconds * 1000;
}

function outcomeOfContainers(
  pod: Pod,
  previousStatus: PreviousStatus,
  observedPod: ObservedPod,
  now: number,
): PodOutcome | undefined {
  const observed = withoutRestartAllExits(pod, observedPod);
  const exits = pod.spec.containers.map((container) => finalExitOf(pod, previousStatus, container, observed));
  const areAllDone = exits.every((exit) => exit !== undefined);
  const failed = areAllDone ? undefined : failedInitContainerOf(pod, observed);
  if (failed !== undefined) return { phase: "Failed", why: `its init container ${failed} has failed`, at: now };
  if (!areAllDone && !cannotRunAgain(pod, observed, now)) return undefined;
  const haveAllSucceeded = exits.every((exit) => exit?.exitCode === 0);
  return { phase: haveAllSucceeded ? "Succeeded" : "Failed", at: now };
}

/** Leaves out exits caused by `RestartAllContainers`: those containers have not completed. */
function withoutRestartAllExits(pod: Pod, observed: ObservedPod): ObservedPod {
  const requestedAt = restartAllRequestedAt(pod, observed);
  if (requestedAt === undefined) return observed;
  const containers = observed.containers.filter((each) => each.state !== "exited" || each.finishedAt < requestedAt);
  return { ...observed, containers };
}

/** The exit of a container that will not run again: its policy does not restart it, nor does a change of its image. */
function finalExitOf(
  pod: Pod,
  previousStatus: PreviousStatus,
  container: Container,
  observed: ObservedPod,
): ExitedContainer | undefined {
  const newest = newestInstanceOf(observed, container.name);
  if (newest?.state !== "exited" || isReplaced(pod, previousStatus, container, newest)) return undefined;
  return shouldRestart(pod, container, newest) ? undefined : newest;
}

/** The init container that has failed for good, if no app container has started in this sandbox. */
function failedInitContainerOf({ spec, ...pod }: Pod, observed: ObservedPod): string | undefined {
  const [sandbox] = observed.sandboxes;
  const hasAppContainer = spec.containers.some(({ name }) => {
    const newest = newestInstanceOf(observed, name);
    return newest !== undefined && newest.sandboxId === sandbox?.id;
  });
  if (hasAppContainer) return undefined;
  const failed = (spec.initContainers ?? []).find((container) => {
    if (isSidecar(container)) return false;
    const newest = newestInstanceOf(observed, container.name);
    return newest?.state === "exited" && newest.exitCode !== 0 && !shouldRestart({ ...pod, spec }, container, newest);
  });
  return failed?.name;
}

/** Whether nothing of the pod runs any more and it must not get another sandbox. */
function cannotRunAgain(pod: Pod, observed: ObservedPod, now: number): boolean {
  if (!cannotReplaceSandbox(pod, observed)) return false;
  return sandboxNeed(pod, observed, now).kind === "create" && !observed.containers.some(mayBeRunning);
}
