import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { allContainerStatuses, statusNamed } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod, Time } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/time.ts";
import type { PodMemory } from "../pod/memory.ts";
import {
  type ContainerExit,
  type ExitedContainer,
  newestOf,
  type ObservedContainer,
  type ObservedPod,
} from "../pod/observed.ts";
import { isToldCleared } from "./removed-for-restart.ts";

/**
 * Adds, for each app or ephemeral container that is known to have run and of which the runtime shows nothing, the exit that nobody saw, as the
 * kubelet words it: code 137, `ContainerStatusUnknown`. So a container that was lost counts as ended, not as never begun: a pod
 * that must not restart does not run its work twice. An exit that the API server was told of is that exit. What an init container
 * has done is proved by those that came after it. An instance that is created has not ended, though a start that was cut short
 * together with the agent leaves a log of it: what was lost came before it.
 */
export function withLostContainers(pod: Pod, observed: ObservedPod, memory: PodMemory): ObservedPod {
  const shown = new Set(observed.containers.filter(({ state }) => state !== "created").map(({ name }) => name));
  const { containers, ephemeralContainers = [] } = pod.spec;
  const lost = [...containers, ...ephemeralContainers]
    .filter(({ name }) => !shown.has(name))
    .flatMap(({ name, image = "" }): readonly ExitedContainer[] => {
      const told = statusNamed(pod.status, name);
      const known = Math.max(observed.loggedAttempts.get(name) ?? -1, memory.attempts.get(name) ?? -1);
      const newest = Math.max(known, toldAttempt(told));
      // What was removed to begin anew is not missed.
      if (newest <= (observed.clearedAttempts.get(name) ?? -1)) return [];
      const attempt = Math.min(newest, (newestOf(observed, name)?.attempt ?? Number.POSITIVE_INFINITY) - 1);
      if (told?.state?.terminated && told.restartCount === attempt) return [exitAsTold(told, image)];
      // What the API server was told of the end before a created instance is more than anybody knows here.
      const isTold = told?.lastState?.terminated !== undefined && told.restartCount > attempt;
      return attempt < 0 || isTold ? [] : [{ ...unseenExit, name, image, attempt }];
    });
  return lost.length === 0 ? observed : { ...observed, containers: [...observed.containers, ...lost] };
}

/**
 * The ends that the API server was told of, where the runtime has made others up since: a containerd that was killed before it had written an
 * end down tells of 255, `Unknown`. Work of which everybody can see that it has succeeded is not done again.
 */
export function withToldEnds({ status }: Pod, observed: ObservedPod): ObservedPod {
  if (!observed.containers.some(isForgotten)) return observed;
  const ends = allContainerStatuses(status).flatMap(({ state, lastState }) => [
    state?.terminated,
    lastState?.terminated,
  ]);
  const containers = observed.containers.map((container) => {
    const told = ends.find((end) => end?.containerID?.endsWith(`//${container.id}`));
    return isForgotten(container) && told !== undefined ? { ...container, ...exitOf(told) } : container;
  });
  return { ...observed, containers };
}

/** Whether the runtime has made up how it ended, since it was killed before it had written it down. */
export function isForgotten(container: ObservedContainer): container is ExitedContainer {
  return container.state === "exited" && container.reason === "Unknown";
}

/** The last instance that the API server knows to have run. */
function toldAttempt(told: ContainerStatus | undefined): number {
  if (told === undefined) return -1;
  const hasRun = told.state?.running ?? told.state?.terminated ?? told.lastState?.terminated;
  // Of what was removed to begin anew the next instance is told already.
  return hasRun ? told.restartCount - (isToldCleared(told) ? 1 : 0) : -1;
}

/** True for an exit that was not observed but concluded: there is nothing of it to be removed. */
export function isConcluded({ id }: { readonly id: ContainerId }): boolean {
  return id === unseenExit.id;
}

/** What the API server shows of a container that has ended; undefined for all others. */
export function toldExit({ status }: Pod, name: string): ContainerStatus | undefined {
  const told = statusNamed(status, name);
  return told?.state?.terminated && told;
}

function exitAsTold({ name, restartCount, state }: ContainerStatus, image: string): ExitedContainer {
  return { ...unseenExit, name, image, attempt: restartCount, ...exitOf(state?.terminated ?? { exitCode: 137 }) };
}

function exitOf({ exitCode, reason = "", message = "", ...times }: ContainerStateTerminated): ContainerExit {
  return { exitCode, reason, message, startedAt: epochOf(times.startedAt), finishedAt: epochOf(times.finishedAt) };
}

/** 0 where nobody knows. */
function epochOf(time: Time | undefined | null): number {
  if (time === undefined || time === null) return 0;
  try {
    return parseTime(time);
  } catch {
    // Whatever it is, it tells no time.
    return 0;
  }
}

const unseenExit = {
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
