import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  environmentReferences,
  pullSecretReferences,
  type Reference,
  referenceKey,
} from "../../../proto/kubernetes/references.ts";
import type { PodSettings } from "../settings.ts";
import type { DesiredPodView } from "./desired.ts";

/*
 * The prerequisites of each step of a pod's start. A missing prerequisite is no failure, so there is no back-off: its
 * arrival wakes the pods.
 */

/** Why no container of the pod may be created yet: its environment would lack Services for its whole life. */
export function waitingForServices({ source }: DesiredPodView, { cluster }: PodSettings): string | undefined {
  if (source.kind !== "api" || cluster === undefined || cluster.areServicesRead) return undefined;
  return "services have not yet been read at least once, cannot construct envvars";
}

/** Why the pod's sandbox may not be run yet: the RuntimeClasses were not read. */
export function waitingForRuntimeClass({ pod }: DesiredPodView, { cluster }: PodSettings): string | undefined {
  const { runtimeClassName = "" } = pod.spec;
  if (runtimeClassName === "" || cluster === undefined || cluster.areRuntimeClassesRead) return undefined;
  return `failed to lookup RuntimeClass ${runtimeClassName}: RuntimeClasses have not yet been read at least once`;
}

/**
 * Whether a Secret or ConfigMap of the container's environment is still being read. If the read fails, the creation
 * reports it.
 */
export function isWaitingForEnvironment(pod: Pod, container: Container, settings: PodSettings): boolean {
  return isAnyUnsettled(environmentReferences(pod, container), settings);
}

/** Whether an `imagePullSecret` of the pod is still being read. If the read fails, the image is pulled without it. */
export function isWaitingForPullSecrets(pod: Pod, settings: PodSettings): boolean {
  return isAnyUnsettled(pullSecretReferences(pod), settings);
}

function isAnyUnsettled(references: readonly Reference[], { cluster }: PodSettings): boolean {
  return cluster !== undefined && references.some((each) => !cluster.settledReferences.has(referenceKey(each)));
}

/** The kubelet's message prefix for a pod that waits for the network. */
export const NETWORK_NOT_READY = "network is not ready: ";

/** Why the pod's sandbox may not be run yet: the runtime has no pod network. Pods with host networking need none. */
export function waitingForNetwork({ pod }: DesiredPodView, { networkProblem }: PodSettings): string | undefined {
  const isWaiting = networkProblem !== undefined && pod.spec.hostNetwork !== true;
  return isWaiting ? `${NETWORK_NOT_READY}${networkProblem}` : undefined;
}
