import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { PodMemory } from "./memory.ts";
import type { ExitedContainer, ObservedPod } from "./observed.ts";

/**
 * Adds, for each container that is known to have run and of which the runtime shows nothing, the exit that nobody saw, as the
 * kubelet words it: code 137, `ContainerStatusUnknown`. So a container that was lost counts as ended, not as never begun: a pod
 * that must not restart does not run its work twice.
 */
export function withLostContainers(pod: Pod, observed: ObservedPod, memory: PodMemory): ObservedPod {
  const shown = new Set(observed.containers.filter(({ state }) => state !== "created").map(({ name }) => name));
  const lost = pod.spec.containers
    .filter(({ name }) => !shown.has(name))
    .flatMap(({ name, image = "" }): readonly ExitedContainer[] => {
      const attempt = Math.max(observed.loggedAttempts.get(name) ?? -1, memory.attempts.get(name) ?? -1);
      return attempt < 0 ? [] : [{ ...unseenExit, name, image, attempt }];
    });
  return lost.length === 0 ? observed : { ...observed, containers: [...observed.containers, ...lost] };
}

/** True for an exit that was not observed but concluded: there is nothing of it to be removed. */
export function isConcluded({ id }: { readonly id: ContainerId }): boolean {
  return id === unseenExit.id;
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
