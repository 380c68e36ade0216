import type { Pod } from "../gen/types.ts";
import { required } from "../validation/field-error.ts";
import { readTold, type Told } from "./lenient-decode.ts";

/**
 * The pod that an API server tells of, or what keeps it from being one: that it cannot be read, or lacks what every pod has. Whether its
 * values make sense the server has checked. Who set which field is left out. Total.
 */
export function readToldPod(told: Pod): Told<Pod> {
  const read = readTold("Pod", withoutManagedFields(told));
  if (read.problem !== undefined) return read;
  const missing = missingField(told, read.object);
  return missing === undefined ? read : { problem: required(missing) };
}

/** Of what every pod has, and what nothing can be done without, the first that this one lacks. */
function missingField(told: Pod, { metadata, spec }: Pod): string | undefined {
  const nameless = (["uid", "name", "namespace"] as const).find((field) => !metadata[field]);
  if (nameless !== undefined) return `metadata.${nameless}`;
  if (!Array.isArray(told.spec?.containers)) return "spec.containers";
  const lists = { containers: spec.containers, initContainers: spec.initContainers ?? [] };
  return Object.entries(lists)
    .flatMap(([list, containers]) =>
      containers.map(({ name }, index) => ({ name, field: `spec.${list}[${index}].name` })),
    )
    .find(({ name }) => name === "")?.field;
}

/** They are of use to nobody here, and often larger than the pod. */
function withoutManagedFields(pod: Pod): Pod {
  // An answer need not have any metadata, whatever its type says.
  const { managedFields: _, ...metadata } = (pod.metadata as Pod["metadata"] | undefined) ?? {};
  return { ...pod, metadata };
}
