import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodMemory } from "../pod/memory.ts";
import {
  type ContainerExit,
  type ExitedContainer,
  newestInstanceOf,
  type ObservedContainer,
  type ObservedPod,
} from "../pod/observed.ts";
import { type PreviousStatus, toEpochMs } from "../status/previous-status.ts";
import { isReportedRemovedForRestart } from "./removed-for-restart.ts";

/**
 * Adds a synthetic exit for each app or ephemeral container that is known to have run and that the runtime does not
 * show, as the kubelet reports it: code 137, `ContainerStatusUnknown`. So a missing container counts as ended, not as
 * never started, and a pod that must not restart does not run its work twice. If the pod's status already has the exit,
 * that one is used. Init containers need none: the containers behind them prove that they succeeded. A created instance
 * has not ended, although a start that was interrupted by the agent's death leaves a log file of it: the missing
 * instance is an earlier one.
 */
export function withMissingContainers(
  pod: Pod,
  previousStatus: PreviousStatus,
  observed: ObservedPod,
  memory: PodMemory,
): ObservedPod {
  const observedNames = new Set(observed.containers.filter(({ state }) => state !== "created").map(({ name }) => name));
  const { containers, ephemeralContainers = [] } = pod.spec;
  const missing = [...containers, ...ephemeralContainers]
    .filter(({ name }) => !observedNames.has(name))
    .flatMap(({ name, image = "" }): readonly ExitedContainer[] => {
      const reported = previousStatus.containers.get(name);
      const startedAttempt = Math.max(observed.loggedAttempts.get(name) ?? -1, memory.startedAttempts.get(name) ?? -1);
      const newest = Math.max(startedAttempt, reportedAttempt(reported));
      // Removed by RestartAllContainers: not missing.
      if (newest <= (observed.removedAttempts.get(name) ?? -1)) return [];
      const attempt = Math.min(newest, (newestInstanceOf(observed, name)?.attempt ?? Number.POSITIVE_INFINITY) - 1);
      if (reported?.state?.terminated && reported.restartCount === attempt) return [exitedFromStatus(reported, image)];
      // The status already reports the exit before a created instance, which is more than this agent knows.
      const isReported = reported?.lastState?.terminated !== undefined && reported.restartCount > attempt;
      return attempt < 0 || isReported ? [] : [{ ...inferredExit, name, image, attempt }];
    });
  return missing.length === 0 ? observed : { ...observed, containers: [...observed.containers, ...missing] };
}

/**
 * Replaces synthetic exits of the runtime by the real ones in the pod's status: containerd reports 255, `Unknown`, if
 * it was killed before it recorded an exit. Work that is reported as succeeded must not run again.
 */
export function withReportedExits({ containers: reported }: PreviousStatus, observed: ObservedPod): ObservedPod {
  if (!observed.containers.some(isUnknownExit)) return observed;
  const reportedExits = [...reported.values()].flatMap(({ state, lastState }) => [
    state?.terminated,
    lastState?.terminated,
  ]);
  const containers = observed.containers.map((container) => {
    const exit = reportedExits.find((end) => end?.containerID?.endsWith(`//${container.id}`));
    return isUnknownExit(container) && exit !== undefined ? { ...container, ...exitOf(exit) } : container;
  });
  return { ...observed, containers };
}

/** Whether the runtime made up this exit, because it was killed before it recorded the real one. */
export function isUnknownExit(container: ObservedContainer): container is ExitedContainer {
  return container.state === "exited" && container.reason === "Unknown";
}

/** The last attempt that the pod's status reports as having run; -1 if none. */
function reportedAttempt(reported: ContainerStatus | undefined): number {
  if (reported === undefined) return -1;
  const hasRun = reported.state?.running ?? reported.state?.terminated ?? reported.lastState?.terminated;
  // For a container removed by RestartAllContainers the reported restartCount is already that of the next instance.
  return hasRun ? reported.restartCount - (isReportedRemovedForRestart(reported) ? 1 : 0) : -1;
}

/** True for an exit that was inferred, not observed: there is no instance to remove. */
export function isInferredExit({ id }: { readonly id: ContainerId }): boolean {
  return id === inferredExit.id;
}

/** The reported status of a container that has ended; undefined for all others. */
export function reportedExit({ containers }: PreviousStatus, name: string): ContainerStatus | undefined {
  const reported = containers.get(name);
  return reported?.state?.terminated && reported;
}

function exitedFromStatus({ name, restartCount, state }: ContainerStatus, image: string): ExitedContainer {
  return { ...inferredExit, name, image, attempt: restartCount, ...exitOf(state?.terminated ?? { exitCode: 137 }) };
}

function exitOf({ exitCode, reason = "", message = "", ...times }: ContainerStateTerminated): ContainerExit {
  const startedAt = toEpochMs(times.startedAt) ?? 0;
  return { exitCode, reason, message, startedAt, finishedAt: toEpochMs(times.finishedAt) ?? 0 };
}

const inferredExit = {
  id: "" as ContainerId,
  sandboxId: "" as SandboxId,
  createdAt: 0,
  imageRef: "",
  hash: undefined,
  crashes: 0,
  state: "exited",
  startedAt: 0,
  finishedAt: 0,
  exitCode: 137,
  reason: "ContainerStatusUnknown",
  message: "The container could not be located when the pod was deleted.  The container used to be Running",
} as const;
