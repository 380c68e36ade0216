import { containerNamed } from "../../proto/kubernetes/containers.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";

/**
 * What a stop of a container with a `preStop` hook says of it; without any grace there is no time for a hook.
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 */
export function preStopOf(
  pod: Pod | undefined,
  container: string,
  gracePeriodSeconds: number,
): { readonly preStop?: true } {
  const hook = pod && containerNamed(pod, container)?.lifecycle?.preStop;
  return hook === undefined || gracePeriodSeconds <= 0 ? {} : { preStop: true };
}
