import type { Pod } from "../gen/types.ts";
import { validateContainers } from "./containers.ts";
import type { FieldError } from "./field-error.ts";
import { validateMetadata } from "./metadata.ts";
import { validatePodSpec } from "./pod-spec.ts";
import { validatePodSecurity } from "./security.ts";
import { validateVolumes } from "./volumes.ts";

/**
 * Validates a pod that did not come from an API server. Returns all errors; empty for a valid pod. The pod must have
 * been decoded (decodeStrict) and defaulted (defaultPod or staticPod).
 *
 * Fields and reasons are the API server's. Not checked, since they affect no container of this node: affinity, topology
 * spread, scheduling and resource claims, Windows options, and the requirements of single storage systems. Rule: core
 * validation, ValidatePodCreate.
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
