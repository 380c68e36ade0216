import { quoteGo } from "../../../proto/go-quote.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import type { ContainerStatus, PodStatus } from "../../../proto/kubernetes/gen/types.ts";

/** The instance of a container whose log a client gets, or why there is none. */
export type LoggedInstance =
  | { readonly id: ContainerId /** As in the API: with the runtime's name. */; readonly fullId: string }
  | { readonly problem: string };

/**
 * Selects the instance by the pod's status: the one that runs, else the last one; with `previous` the one before. Rule:
 * kubelet validateContainerLogStatus.
 */
export function instanceWithLogs(
  podName: string,
  podStatus: PodStatus | undefined,
  container: string,
  previous: boolean,
): LoggedInstance {
  const { containerStatuses = [], initContainerStatuses = [], ephemeralContainerStatuses = [] } = podStatus ?? {};
  const status = [containerStatuses, initContainerStatuses, ephemeralContainerStatuses]
    .map((statuses) => statuses.find(({ name }) => name === container))
    .find((found) => found !== undefined);
  const what = `container ${quoteGo(container)} in pod ${quoteGo(podName)}`;
  if (status === undefined) return { problem: `${what} is not available` };
  const lastId = status.lastState?.terminated?.containerID;
  if (previous) return instanceOf(lastId, `previous terminated ${what} not found`);
  const { running, terminated } = status.state ?? {};
  if (running !== undefined) return instanceOf(status.containerID, `${what} is waiting to start - no logs yet`);
  if (terminated !== undefined) return instanceOf(terminated.containerID || lastId, `${what} is terminated`);
  if (status.lastState?.terminated !== undefined) return instanceOf(lastId, `${what} is terminated`);
  return { problem: `${what} is waiting to start${waitingText(status)}` };
}

function instanceOf(fullId: string | undefined, problem: string): LoggedInstance {
  if (fullId === undefined || fullId === "") return { problem };
  return { id: fullId.slice(fullId.indexOf("://") < 0 ? 0 : fullId.indexOf("://") + 3) as ContainerId, fullId };
}

const TEXTS: Readonly<Record<string, string>> = {
  ErrImagePull: "image can't be pulled",
  ImagePullBackOff: "trying and failing to pull image",
};

function waitingText({ state }: ContainerStatus): string {
  if (state?.waiting === undefined) return " - no logs yet";
  const { reason = "" } = state.waiting;
  return `: ${TEXTS[reason] ?? reason}`;
}
