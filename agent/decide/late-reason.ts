import type { ContainerStatus, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { ObservedPod } from "./observed.ts";

/**
 * The last word on a pod, and in it that memory was the reason where the runtime has heard of that since: it is told of an end and of
 * what the kernel killed for its memory by two ways. Nothing else changes the last word. The same object where nothing is to be added.
 */
export function withLateReasons(last: PodStatus, { containers }: Pick<ObservedPod, "containers">): PodStatus {
  const killed = containers.filter((each) => each.state === "exited" && each.reason === "OOMKilled");
  const isLate = ({ state }: ContainerStatus) => {
    const { reason, exitCode, containerID = "" } = state?.terminated ?? {};
    return reason === "Error" && exitCode === SIGKILLED && killed.some(({ id }) => containerID.endsWith(`//${id}`));
  };
  const late = LISTS.filter((list) => last[list]?.some(isLate));
  if (late.length === 0) return last;
  const told = (status: ContainerStatus): ContainerStatus =>
    isLate(status) && status.state?.terminated
      ? { ...status, state: { terminated: { ...status.state.terminated, reason: "OOMKilled" } } }
      : status;
  return { ...last, ...Object.fromEntries(late.map((list) => [list, last[list]?.map(told)])) };
}

const LISTS = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] as const;
const SIGKILLED = 137;
