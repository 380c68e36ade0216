import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import { isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ExitedContainer } from "../pod/observed.ts";
import { requiresRestart } from "../resize/resize-steps.ts";
import { type PreviousStatus, previousStatusOfInstance } from "../status/previous-status.ts";
import { isOutdated } from "./container-hash.ts";

/**
 * Whether an exited container was stopped because its image changed, or for a resize that restarts it: then it is created
 * again, whatever its policy. A container that had ended by itself before the change is left to its policy, as with the
 * kubelet, which compares running containers only. The pod's status tells the two apart, for a later agent too: it shows
 * `terminated` for an instance that ended before the change, and still `running` for one that was stopped for it
 * (`statusOfReplaced`).
 */
export function isReplaced(
  pod: Pod,
  previousStatus: PreviousStatus,
  container: Container,
  exited: ExitedContainer,
): boolean {
  if (isRunToCompletion(pod, container)) return false;
  const { state } = previousStatusOfInstance(previousStatus, exited.id) ?? {};
  if (isOutdated(container, exited)) return state?.terminated === undefined;
  return isRestartedByResize(pod, container, exited) && (state === undefined || state.running !== undefined);
}

/**
 * Whether the resize policy of a container restarts an instance that runs with other resources than are allocated to it.
 * An instance of another agent, which carries no amounts, does not.
 */
export function isRestartedByResize({ spec }: Pod, container: Container, { amounts }: ExitedContainer): boolean {
  const { resizePolicy = [], resources } = container;
  if (amounts === undefined || resizePolicy.length === 0) return false;
  return requiresRestart(container, amounts, containerAmounts(resources, spec.resources));
}
