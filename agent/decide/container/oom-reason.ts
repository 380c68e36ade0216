import { statusOfInstance } from "../../../proto/kubernetes/containers.ts";
import type { ContainerStatus, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ExitedContainer, ObservedContainer, ObservedPod } from "../pod/observed.ts";

/** The exit code of any SIGKILL; only the runtime's reason shows that the OOM killer sent it. */
export const SIGKILL_EXIT_CODE = 137;
const OOM_KILLED = "OOMKilled";

/** Whether the runtime may still report that the OOM killer caused this exit. */
export function mayBecomeOomKilled(container: ObservedContainer): container is ExitedContainer {
  return container.state === "exited" && container.exitCode === SIGKILL_EXIT_CODE && container.reason !== OOM_KILLED;
}

/**
 * The final status of a pod, with the reason `OOMKilled` added where the runtime has reported it since: containerd
 * receives exits and OOM events separately, in any order. Nothing else changes a final status. Returns the same object
 * if there is nothing to add.
 */
export function withOomReasons(last: PodStatus, { containers }: Pick<ObservedPod, "containers">): PodStatus {
  const killed = containers.filter((each) => each.state === "exited" && each.reason === OOM_KILLED);
  const oomKilled = new Set(killed.map(({ id }) => statusOfInstance(last, id)).filter(isReportedWithoutReason));
  if (oomKilled.size === 0) return last;
  const withReason = (statuses: readonly ContainerStatus[] | undefined) =>
    statuses?.map((status) =>
      oomKilled.has(status)
        ? { ...status, state: { terminated: { ...status.state?.terminated, reason: OOM_KILLED } } }
        : status,
    );
  return {
    ...last,
    ...Object.fromEntries(STATUS_LISTS.filter((list) => last[list]).map((list) => [list, withReason(last[list])])),
  };
}

const STATUS_LISTS = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] as const;

function isReportedWithoutReason(status: ContainerStatus | undefined): status is ContainerStatus {
  const { reason, exitCode } = status?.state?.terminated ?? {};
  return reason === "Error" && exitCode === SIGKILL_EXIT_CODE;
}
