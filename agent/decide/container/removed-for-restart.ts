import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { newestInstanceOf, type ObservedPod } from "../pod/observed.ts";

/** What Kubernetes reports as the last exit of a container that `RestartAllContainers` has removed. */
export const removedForRestart: ContainerStateTerminated = {
  exitCode: 137,
  reason: "RestartingAllContainers",
  message: "The container is removed because RestartAllContainers in place",
};

/** Whether `RestartAllContainers` has removed all containers of the pod and none was created since. */
export function isRemovedForRestart({ spec }: Pod, observed: ObservedPod): boolean {
  return (
    observed.removedAttempts.size > 0 &&
    !nonEphemeralContainers(spec).some(({ name }) => newestInstanceOf(observed, name))
  );
}

/** Whether a container's status reports its removal by `RestartAllContainers` and no later instance. */
export function isReportedRemovedForRestart({ state, lastState }: ContainerStatus): boolean {
  const hasRunSince = state?.running !== undefined || state?.terminated !== undefined;
  return !hasRunSince && lastState?.terminated?.reason === removedForRestart.reason;
}
