import type { SandboxId } from "../../../proto/ids.ts";
import { isSidecar, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { healthOf, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";

/*
 * Init containers run one after the other, each to its end; a sidecar has had its turn as soon as it has started, and stays. App containers
 * begin when all have had their turn. A new sandbox begins from the first again.
 *
 *   init 1 ──exit 0──► sidecar 2 ──starts──► init 3 ──exit 0──► app containers, all at once
 *                         └──────────────────────────────────────► restarted whenever it ends
 *
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/
 */

/** Whether all init containers have had their turn in this sandbox. It is never taken back: an app container that exists proves it. */
export function isInitialized(pod: Pod, observed: ObservedPod, sandboxId: SandboxId | undefined): boolean {
  const { initContainers = [], containers } = pod.spec;
  if (initContainers.length === 0) return true;
  if (containers.some(({ name }) => instanceIn(observed, name, sandboxId) !== undefined)) return true;
  return turnOf(pod, observed, sandboxId) === initContainers.length;
}

/** Whether an init container has had its turn, since one behind it has begun, whatever is left of it. */
export function hasHadItsTurn(
  pod: Pod,
  observed: ObservedPod,
  sandboxId: SandboxId | undefined,
  { name }: Pick<Container, "name">,
): boolean {
  const place = (pod.spec.initContainers ?? []).findIndex((container) => container.name === name);
  return place >= 0 && (isInitialized(pod, observed, sandboxId) || place < turnOf(pod, observed, sandboxId));
}

/** The containers that should run now, or have run, in their order: those behind them are not begun yet. */
export function containersInTurn(
  pod: Pod,
  observed: ObservedPod,
  sandboxId: SandboxId | undefined,
): readonly Container[] {
  const { initContainers = [], containers } = pod.spec;
  if (isInitialized(pod, observed, sandboxId)) return [...sidecarsOf(pod.spec), ...containers];
  const turn = turnOf(pod, observed, sandboxId);
  return initContainers.slice(0, turn + 1).filter((container, index) => index === turn || isSidecar(container));
}

/**
 * The ephemeral containers that are not begun yet: their turn is when they are added, whatever the others do, and there is no second one,
 * in a new sandbox neither.
 */
export function ephemeralInTurn({ spec }: Pod, { containers }: ObservedPod): readonly Container[] {
  const hasRun = ({ name, state }: ObservedContainer, of: Container) =>
    name === of.name && (state === "running" || state === "exited");
  return (spec.ephemeralContainers ?? []).filter((each) => !containers.some((instance) => hasRun(instance, each)));
}

/**
 * The index of the init container whose turn it is. The last that has begun decides: those before it have had theirs, whatever is
 * left of them.
 */
function turnOf({ spec }: Pod, observed: ObservedPod, sandboxId: SandboxId | undefined): number {
  const { initContainers = [] } = spec;
  const last = initContainers.findLastIndex(({ name }) => instanceIn(observed, name, sandboxId) !== undefined);
  const container = initContainers[last];
  if (container === undefined) return 0;
  const instance = instanceIn(observed, container.name, sandboxId);
  return instance !== undefined && isDone(container, instance, observed) ? last + 1 : last;
}

function isDone(container: Container, instance: ObservedContainer, observed: ObservedPod): boolean {
  if (isSidecar(container)) return healthOf(observed, instance)?.isStarted === true;
  return instance.state === "exited" && instance.exitCode === 0;
}

function instanceIn(
  { containers }: ObservedPod,
  name: string,
  sandboxId: SandboxId | undefined,
): ObservedContainer | undefined {
  return containers.find((container) => container.name === name && container.sandboxId === sandboxId);
}
