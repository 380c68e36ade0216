import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { environmentReferences, type Reference, referenceKey } from "../../proto/kubernetes/references.ts";
import type { DesiredNow } from "./desired.ts";
import type { Settings } from "./settings.ts";

/*
 * What has to be read of the cluster before a step of a pod's start. Nothing has failed yet, so nothing is tried again after a while:
 * whoever reads it wakes the pods.
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

function isAnyAwaited(references: readonly Reference[], { cluster }: Settings): boolean {
  return cluster !== undefined && references.some((each) => !cluster.answeredReferences.has(referenceKey(each)));
}
