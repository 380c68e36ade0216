import { isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ExitedContainer } from "../pod/observed.ts";
import { type PreviousStatus, previousStatusOfInstance } from "../status/previous-status.ts";
import { isOutdated } from "./container-hash.ts";

/**
 * Whether an exited container was stopped because its image changed: then it is created again, whatever its policy. A
 * container that had ended by itself before the change is left to its policy, as with the kubelet, which compares the
 * image of running containers only. The pod's status tells the two apart, for a later agent too: it shows `terminated` for
 * an instance that ended before the change, and still `running` for one that was stopped for it (`statusOfReplaced`).
 */
export function isReplaced(
  pod: Pod,
  previousStatus: PreviousStatus,
  container: Container,
  exited: ExitedContainer,
): boolean {
  if (isRunToCompletion(pod, container) || !isOutdated(container, exited)) return false;
  return previousStatusOfInstance(previousStatus, exited.id)?.state?.terminated === undefined;
}
