import type { Pod } from "../gen/types.ts";
import { required } from "../validation/field-error.ts";
import { type Decoded, decodeLenient } from "./lenient-decode.ts";

/**
 * Decodes a pod that an API server sent. Returns the pod, or the reason why it cannot be used: a field cannot be
 * decoded, or a mandatory one is missing. The server has validated the values. Removes `managedFields`. Never throws.
 */
export function decodeApiPod(received: Pod): Decoded<Pod> {
  const decoded = decodeLenient("Pod", withoutManagedFields(received));
  if (decoded.problem !== undefined) return decoded;
  const missing = missingField(received, decoded.object);
  return missing === undefined ? decoded : { problem: required(missing) };
}

/** The first mandatory field that the pod lacks. */
function missingField(received: Pod, { metadata, spec }: Pod): string | undefined {
  const missingName = (["uid", "name", "namespace"] as const).find((field) => !metadata[field]);
  if (missingName !== undefined) return `metadata.${missingName}`;
  if (!Array.isArray(received.spec?.containers)) return "spec.containers";
  const lists = { containers: spec.containers, initContainers: spec.initContainers ?? [] };
  return Object.entries(lists)
    .flatMap(([list, containers]) =>
      containers.map(({ name }, index) => ({ name, field: `spec.${list}[${index}].name` })),
    )
    .find(({ name }) => name === "")?.field;
}

/** The agent does not use managedFields, which are often larger than the pod. */
function withoutManagedFields(pod: Pod): Pod {
  // A response may lack metadata, whatever its type says.
  const { managedFields: _, ...metadata } = (pod.metadata as Pod["metadata"] | undefined) ?? {};
  return { ...pod, metadata };
}
