import { type Reference, type ReferencedObject, referenceKey } from "../../proto/kubernetes/references.ts";
import type { ClusterFacts } from "./node-facts.ts";

/**
 * The Secret or ConfigMap that a pod refers to; undefined if the reference is optional and the object does not exist.
 * Throws `toError(message)`, in the kubelet's words because users search for them, when a required object does not exist,
 * or when the object cannot be read, or has not been read yet.
 */
export function findReferencedObject(
  { referencedObjects, referenceFailures }: Pick<ClusterFacts, "referencedObjects" | "referenceFailures">,
  reference: Reference,
  isOptional: boolean,
  toError: (message: string) => Error,
): ReferencedObject | undefined {
  const { kind, name } = reference;
  const key = referenceKey(reference);
  const known = referencedObjects.get(key);
  if (known === undefined)
    throw toError(referenceFailures?.get(key) ?? `failed to sync ${kind} cache: timed out waiting for the condition`);
  if (known !== "absent") return known;
  if (isOptional) return undefined;
  throw toError(`${kind} "${name}" not found`);
}
