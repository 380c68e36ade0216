import { joinWithAnd } from "../../../proto/join-with-and.ts";
import { allContainers, containerNamed, statusNamed } from "../../../proto/kubernetes/containers.ts";
import type { ContainerState, Pod } from "../../../proto/kubernetes/gen/types.ts";

/** That the pod has no such container, and which ones it has. */
export function unknownContainerText({ metadata, spec }: Pod, container: string): string {
  const names = allContainers(spec).map(({ name }) => name);
  return `container ${JSON.stringify(container)} not found in pod ${JSON.stringify(metadata.name)}; it has ${joinWithAnd(names)}`;
}

/** Why no command can be executed in the container: it is unknown, waits, or has ended. Takes a pod with its status. */
export function notRunningText(pod: Pod, container: string): string {
  if (containerNamed(pod, container) === undefined) return unknownContainerText(pod, container);
  const what = `container ${JSON.stringify(container)} of pod ${JSON.stringify(pod.metadata.name)} does not run`;
  return [what, reasonText(statusNamed(pod.status, container)?.state)].filter((part) => part !== "").join(": ");
}

function reasonText({ waiting, terminated }: ContainerState = {}): string {
  return terminated === undefined ? (waiting?.reason ?? "") : `it has ended with exit code ${terminated.exitCode}`;
}
