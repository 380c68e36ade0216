import type { ContainerId } from "../ids.ts";
import type { Container, ContainerStatus, EphemeralContainer, Pod, PodSpec, PodStatus } from "./gen/types.ts";

/**
 * Init containers and app containers, in the order in which a pod begins them, and the ephemeral ones, which are added while it runs.
 * Their names are unique among all of them.
 */
export function allContainers({
  initContainers = [],
  containers,
  ephemeralContainers = [],
}: PodSpec): readonly (Container & Pick<EphemeralContainer, "targetContainerName">)[] {
  const areAllOfApp = initContainers.length + ephemeralContainers.length === 0;
  return areAllOfApp ? containers : [...initContainers, ...containers, ...ephemeralContainers];
}

/** Init containers and app containers: those that a pod has for its whole life. */
export function lastingContainers({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return [...initContainers, ...containers];
}

/** The container of that name, whichever kind it is. */
export function containerNamed(
  { spec }: Pick<Pod, "spec">,
  name: string,
): ReturnType<typeof allContainers>[number] | undefined {
  return allContainers(spec).find((container) => container.name === name);
}

/** True for an init container of the pod, sidecars among them. */
export function isInitContainer({ spec }: Pick<Pod, "spec">, name: string): boolean {
  return (spec.initContainers ?? []).some((container) => container.name === name);
}

/**
 * True for a container that somebody has added to the running pod, to look into it: it runs once, and the pod lives and ends without it.
 * https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/
 */
export function isEphemeral({ spec }: Pick<Pod, "spec">, name: string): boolean {
  return (spec.ephemeralContainers ?? []).some((container) => container.name === name);
}

/**
 * The init containers that stay: they begin in their turn among the init containers, and run until the app containers have ended.
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
 */
export function sidecarsOf({ initContainers = [] }: PodSpec): readonly Container[] {
  return initContainers.filter(isSidecar);
}

/** True for an init container that runs to its end, before others begin; false for sidecars and app containers. */
export function runsToItsEnd(pod: Pick<Pod, "spec">, container: Pick<Container, "name" | "restartPolicy">): boolean {
  return isInitContainer(pod, container.name) && !isSidecar(container);
}

/** What is told of all containers of those kinds, in the order of {@link allContainers}. */
export function allContainerStatuses(status: PodStatus | undefined): readonly ContainerStatus[] {
  return [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
    ...(status?.ephemeralContainerStatuses ?? []),
  ];
}

/** What is told of the container of that name, whichever kind it is. */
export function statusNamed(status: PodStatus | undefined, name: string): ContainerStatus | undefined {
  return allContainerStatuses(status).find((each) => each.name === name);
}

/** What is told of that very instance, whichever runtime it is said to be of. */
export function statusOfInstance(status: PodStatus | undefined, id: ContainerId): ContainerStatus | undefined {
  return allContainerStatuses(status).find(({ containerID = "" }) => containerID.endsWith(`://${id}`));
}

/** Of an init container: whether it stays. */
export function isSidecar({ restartPolicy }: Pick<Container, "restartPolicy">): boolean {
  return restartPolicy === "Always";
}
