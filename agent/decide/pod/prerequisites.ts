import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  environmentReferences,
  pullSecretReferences,
  type Reference,
  referenceKey,
} from "../../../proto/kubernetes/references.ts";
import type { Settings } from "../settings.ts";
import type { DesiredNow } from "./desired.ts";

/*
 * What has to be there before a step of a pod's start. Nothing has failed yet, so nothing is tried again after a while:
 * whoever brings it wakes the pods.
 */

/** Why no container of the pod may be created yet: what it would be told of Services, it would keep for life. */
export function awaitsServices({ source }: DesiredNow, { cluster }: Settings): string | undefined {
  if (source.kind !== "api" || cluster === undefined || cluster.areServicesRead) return undefined;
  return "services have not yet been read at least once, cannot construct envvars";
}

/** Why the pod's sandbox may not be run yet. */
export function awaitsRuntimeClass({ pod }: DesiredNow, { cluster }: Settings): string | undefined {
  const { runtimeClassName = "" } = pod.spec;
  if (runtimeClassName === "" || cluster === undefined || cluster.areRuntimeClassesRead) return undefined;
  return `failed to lookup RuntimeClass ${runtimeClassName}: RuntimeClasses have not yet been read at least once`;
}

/** Whether the environment of the container may be read in a moment. Where it cannot, the creation fails, and says why. */
export function awaitsEnvironment(pod: Pod, container: Container, settings: Settings): boolean {
  return isAnyAwaited(environmentReferences(pod, container), settings);
}

/** Whether Secrets by which images of the pod are pulled may be read in a moment. Where they cannot, the pull is tried without. */
export function awaitsPullSecrets(pod: Pod, settings: Settings): boolean {
  return isAnyAwaited(pullSecretReferences(pod), settings);
}

function isAnyAwaited(references: readonly Reference[], { cluster }: Settings): boolean {
  return cluster !== undefined && references.some((each) => !cluster.answeredReferences.has(referenceKey(each)));
}

/** What is told of a pod that waits for the network, in the kubelet's words. */
export const NETWORK_IS_NOT_READY = "network is not ready: ";

/** Why the pod's sandbox may not be run yet: the runtime has no network for it. Pods on the node's own need none. */
export function awaitsNetwork({ pod }: DesiredNow, { cluster }: Settings): string | undefined {
  const problem = cluster?.networkProblem;
  return problem === undefined || pod.spec.hostNetwork === true ? undefined : `${NETWORK_IS_NOT_READY}${problem}`;
}
