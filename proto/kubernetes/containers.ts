import type { Container, Pod, PodSpec } from "./gen/types.ts";

/** Init containers and app containers, in the order in which a pod begins them. Their names are unique among all of them. */
export function allContainers({ initContainers = [], containers }: PodSpec): readonly Container[] {
  return initContainers.length === 0 ? containers : [...initContainers, ...containers];
}

/** The container of that name, whichever kind it is. */
export function containerNamed({ spec }: Pick<Pod, "spec">, name: string): Container | undefined {
  return allContainers(spec).find((container) => container.name === name);
}

export function isInitContainer({ spec }: Pick<Pod, "spec">, name: string): boolean {
  return (spec.initContainers ?? []).some((container) => container.name === name);
}

/**
 * The init containers that stay: they begin in their turn among the init containers, and run until the app containers have ended.
 * https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
 */
export function sidecarsOf({ initContainers = [] }: PodSpec): readonly Container[] {
  return initContainers.filter(isSidecar);
}

/** Of an init container: whether it stays. */
export function isSidecar({ restartPolicy }: Pick<Container, "restartPolicy">): boolean {
  return restartPolicy === "Always";
}
