import { lastingContainers } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStateTerminated, ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { newestOf, type ObservedPod } from "../pod/observed.ts";

/** What Kubernetes says of the last instance of a container that was removed so that all of its pod begin anew. */
export const removedToRestart: ContainerStateTerminated = {
  exitCode: 137,
  reason: "RestartingAllContainers",
  message: "The container is removed because RestartAllContainers in place",
};

/** Whether nothing of the pod has begun again since all its containers were removed. */
export function isCleared({ spec }: Pod, observed: ObservedPod): boolean {
  return observed.clearedAttempts.size > 0 && !lastingContainers(spec).some(({ name }) => newestOf(observed, name));
}

/** Whether it is told of a container that it was removed so, and nothing that came after it. */
export function isToldCleared({ state, lastState }: ContainerStatus): boolean {
  const hasRunSince = state?.running !== undefined || state?.terminated !== undefined;
  return !hasRunSince && lastState?.terminated?.reason === removedToRestart.reason;
}
