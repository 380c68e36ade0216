import type { Pod } from "../gen/types.ts";
import { validateContainers } from "./containers.ts";
import type { FieldError } from "./field-error.ts";
import { validateMetadata } from "./metadata.ts";
import { validatePodSpec } from "./pod-spec.ts";
import { validatePodSecurity } from "./security.ts";
import { validateVolumes } from "./volumes.ts";

/**
 * Everything that is wrong with a pod that no API server has seen; empty when nothing is. The pod has the right shape
 * (checkPodShape) and its defaults (defaultPod or staticPod).
 *
 * The fields and reasons are the API server's. Not checked, since they do not reach a container of this node: affinity,
 * topology spread, scheduling and resource claims, Windows options, and what single storage systems ask of their volumes.
 * Rule: core validation, ValidatePodCreate.
 */
export function validatePod(pod: Pod): readonly FieldError[] {
  return [
    ...validateMetadata(pod.metadata),
    ...validateVolumes(pod),
    ...validateContainers(pod.spec),
    ...validatePodSpec(pod.spec),
    ...validatePodSecurity(pod.spec),
  ];
}
