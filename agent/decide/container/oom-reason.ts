import { statusOfInstance } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ExitedContainer, ObservedContainer, ObservedPod } from "../pod/observed.ts";

/** What the kernel kills for its memory ends so, as all that is killed; why tells the runtime's status alone. */
export const SIGKILLED = 137;
const OF_MEMORY = "OOMKilled";

/** Whether the runtime may still hear that memory was the reason of an end. */
export function awaitsReason(container: ObservedContainer): container is ExitedContainer {
  return container.state === "exited" && container.exitCode === SIGKILLED && container.reason !== OF_MEMORY;
}

/**
 * The last word on a pod, and in it that memory was the reason where the runtime has heard of that since: it is told of an end and of
 * what the kernel killed for its memory by two ways. Nothing else changes the last word. The same object where nothing is to be added.
 */
export function withLateReasons(last: PodStatus, { containers }: Pick<ObservedPod, "containers">): PodStatus {
  const killed = containers.filter((each) => each.state === "exited" && each.reason === OF_MEMORY);
  const late = new Set(killed.map(({ id }) => statusOfInstance(last, id)).filter(isToldWithout));
  if (late.size === 0) return last;
  const told = (statuses: readonly ContainerStatus[] | undefined) =>
    statuses?.map((status) =>
      late.has(status)
        ? { ...status, state: { terminated: { ...status.state?.terminated, reason: OF_MEMORY } } }
        : status,
    );
  return { ...last, ...Object.fromEntries(LISTS.filter((list) => last[list]).map((list) => [list, told(last[list])])) };
}

const LISTS = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] as const;

function isToldWithout(status: ContainerStatus | undefined): status is ContainerStatus {
  const { reason, exitCode } = status?.state?.terminated ?? {};
  return reason === "Error" && exitCode === SIGKILLED;
}
