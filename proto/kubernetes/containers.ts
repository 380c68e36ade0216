import type { ContainerId } from "../ids.ts";
import type { Container, ContainerStatus, EphemeralContainer, Pod, PodSpec, PodStatus } from "./gen/types.ts";

/**
 * Init containers and app containers in their start order, then ephemeral containers, which are added to a running pod.
 * Names are unique among all of them.
 */
export function allContainers({
  initContainers = [],
  containers,
  ephemeralContainers = [],
}: PodSpec): readonly (Container & Pick<EphemeralContainer, "targetContainerName">)[] {
  const hasOnlyAppContainers = initContainers.length + ephemeralContainers.length === 0;
  return hasOnlyAppContainers ? containers : [...initContainers, ...containers, ...ephemeralContainers];
}

/** Init containers and app containers, which a pod has from the start. */
export function nonEphemeralContainers({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}

/** The container of that name, of any kind. */
export function containerNamed(
  { spec }: Pick<Pod, "spec">,
  name: string,
): ReturnType<typeof allContainers>[number] | undefined {
  return allContainers(spec).find((container) => container.name === name);
}

/** Whether the name is that of an init container, including sidecars. */
export function isInitContainer({ spec }: Pick<Pod, "spec">, name: string): boolean {
  return (spec.initContainers ?? []).some((container) => container.name === name);
}

/**
 * Whether the name is that of an ephemeral container, which a user adds to a running pod for debugging. It never
 * restarts, and the pod's phase ignores it.
 * https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/
 */
export function isEphemeral({ spec }: Pick<Pod, "spec">, name: string): boolean {
  return (spec.ephemeralContainers ?? []).some((container) => container.name === name);
}

/**
 * The sidecars: init containers that start in their order and keep running until the app containers have exited.
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
 */
export function sidecarsOf({ initContainers = [] }: PodSpec): readonly Container[] {
  return initContainers.filter(isSidecar);
}

/** Whether the container is an init container that must complete before later containers start. False for sidecars. */
export function isRunToCompletion(
  pod: Pick<Pod, "spec">,
  container: Pick<Container, "name" | "restartPolicy">,
): boolean {
  return isInitContainer(pod, container.name) && !isSidecar(container);
}

/** The statuses of all containers, in the order of {@link allContainers}. */
export function allContainerStatuses(status: PodStatus | undefined): readonly ContainerStatus[] {
  return [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
    ...(status?.ephemeralContainerStatuses ?? []),
  ];
}

/** The status of the container of that name, of any kind. */
export function statusNamed(status: PodStatus | undefined, name: string): ContainerStatus | undefined {
  return allContainerStatuses(status).find((each) => each.name === name);
}

/** The status of exactly this instance, whatever runtime prefix its id has. */
export function statusOfInstance(status: PodStatus | undefined, id: ContainerId): ContainerStatus | undefined {
  return allContainerStatuses(status).find(({ containerID = "" }) => containerID.endsWith(`://${id}`));
}

/** Whether an init container is a sidecar. */
export function isSidecar({ restartPolicy }: Pick<Container, "restartPolicy">): boolean {
  return restartPolicy === "Always";
}
