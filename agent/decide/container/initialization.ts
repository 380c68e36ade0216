import type { SandboxId } from "../../../proto/ids.ts";
import { isSidecar, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { healthOf, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";

/*
 * Init containers run one after the other, each to completion; a sidecar counts as done once it has started, and keeps
 * running. App containers start when all init containers are done. A new sandbox starts again with the first.
 *
 *   init 1 ──exit 0──► sidecar 2 ──starts──► init 3 ──exit 0──► app containers, all at once
 *                         └──────────────────────────────────────► restarted whenever it ends
 *
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/
 */

/**
 * Whether all init containers are done in this sandbox. An existing app container proves it, so it is never withdrawn.
 */
export function isInitialized(pod: Pod, observed: ObservedPod, sandboxId: SandboxId | undefined): boolean {
  const { initContainers = [], containers } = pod.spec;
  if (initContainers.length === 0) return true;
  if (containers.some(({ name }) => instanceInSandbox(observed, name, sandboxId) !== undefined)) return true;
  return currentInitIndex(pod, observed, sandboxId) === initContainers.length;
}

/** Whether an init container is done because a later container was created, even if no instance of it is left. */
export function isInitStepDone(
  pod: Pod,
  observed: ObservedPod,
  sandboxId: SandboxId | undefined,
  { name }: Pick<Container, "name">,
): boolean {
  const position = (pod.spec.initContainers ?? []).findIndex((container) => container.name === name);
  return (
    position >= 0 && (isInitialized(pod, observed, sandboxId) || position < currentInitIndex(pod, observed, sandboxId))
  );
}

/** The containers that should run now or have run, in order; those behind them must not be started yet. */
export function startableContainers(
  pod: Pod,
  observed: ObservedPod,
  sandboxId: SandboxId | undefined,
): readonly Container[] {
  const { initContainers = [], containers } = pod.spec;
  if (isInitialized(pod, observed, sandboxId)) return [...sidecarsOf(pod.spec), ...containers];
  const current = currentInitIndex(pod, observed, sandboxId);
  return initContainers.slice(0, current + 1).filter((container, index) => index === current || isSidecar(container));
}

/**
 * The ephemeral containers that have not run yet. They start when they are added, whatever state the others are in, and
 * never a second time, not even in a new sandbox.
 */
export function startableEphemeralContainers({ spec }: Pod, { containers }: ObservedPod): readonly Container[] {
  const hasRun = ({ name, state }: ObservedContainer, of: Container) =>
    name === of.name && (state === "running" || state === "exited");
  return (spec.ephemeralContainers ?? []).filter((each) => !containers.some((instance) => hasRun(instance, each)));
}

/**
 * The index of the init container that should run now. The last one with an instance decides: all before it are done,
 * even if no instance of them is left.
 */
function currentInitIndex({ spec }: Pod, observed: ObservedPod, sandboxId: SandboxId | undefined): number {
  const { initContainers = [] } = spec;
  const last = initContainers.findLastIndex(({ name }) => instanceInSandbox(observed, name, sandboxId) !== undefined);
  const container = initContainers[last];
  if (container === undefined) return 0;
  const instance = instanceInSandbox(observed, container.name, sandboxId);
  return instance !== undefined && isInitContainerDone(container, instance, observed) ? last + 1 : last;
}

function isInitContainerDone(container: Container, instance: ObservedContainer, observed: ObservedPod): boolean {
  if (isSidecar(container)) return healthOf(observed, instance)?.isStarted === true;
  return instance.state === "exited" && instance.exitCode === 0;
}

function instanceInSandbox(
  { containers }: ObservedPod,
  name: string,
  sandboxId: SandboxId | undefined,
): ObservedContainer | undefined {
  return containers.find((container) => container.name === name && container.sandboxId === sandboxId);
}
