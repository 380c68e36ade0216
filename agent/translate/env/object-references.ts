import { decodeBase64 } from "../../../proto/base64.ts";
import type { EnvFromSource, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Reference, type ReferencedObject, referenceOf } from "../../../proto/kubernetes/references.ts";
import { fromUtf8 } from "../../../proto/utf8.ts";
import type { NodeFacts } from "../node-facts.ts";
import { findReferencedObject } from "../referenced-object.ts";
import { configError } from "../translate-error.ts";

/** The pod, and the Secrets and ConfigMaps that the agent knows. */
export interface ReferenceInput {
  readonly pod: Pod;
  readonly facts: Pick<NodeFacts, "cluster">;
}

type ValueFrom = NonNullable<EnvVar["valueFrom"]>;

/**
 * The variables of one `envFrom` entry, sorted by key; empty when the reference is optional and the object does not
 * exist. Throws `TranslateError`, in the kubelet's wording, when a required object does not exist or has not been read
 * yet.
 */
export function variablesOf(input: ReferenceInput, source: EnvFromSource): readonly (readonly [string, string])[] {
  const { configMapRef, secretRef, prefix = "" } = source;
  const [kind, reference] =
    configMapRef === undefined ? (["secret", secretRef] as const) : (["configmap", configMapRef] as const);
  if (reference === undefined) return [];
  const target = referenceOf(input.pod, kind, reference);
  const object = findObject(input, target, reference.optional === true);
  return Object.keys(object?.data ?? {})
    .toSorted()
    .map((key) => [`${prefix}${key}`, dataValueOf(target, object, key) ?? ""]);
}

/**
 * The value of one `secretKeyRef` or `configMapKeyRef`; undefined when the reference is optional and the object or key
 * does not exist. Throws `TranslateError`, in the kubelet's wording, when a required one does not exist or has not been
 * read yet.
 */
export function referencedValue(
  input: ReferenceInput,
  { configMapKeyRef, secretKeyRef }: ValueFrom,
): string | undefined {
  const [kind, selector] =
    configMapKeyRef === undefined ? (["secret", secretKeyRef] as const) : (["configmap", configMapKeyRef] as const);
  if (selector === undefined) return undefined;
  const isOptional = selector.optional === true;
  const reference = referenceOf(input.pod, kind, selector);
  const object = findObject(input, reference, isOptional);
  const value = dataValueOf(reference, object, selector.key);
  if (value === undefined && !isOptional)
    throw configError(
      `couldn't find key ${selector.key} in ${kindName(kind)} ${reference.namespace}/${reference.name}`,
    );
  return value;
}

function findObject(
  { facts }: ReferenceInput,
  reference: Reference,
  isOptional: boolean,
): ReferencedObject | undefined {
  const { kind, namespace, name } = reference;
  if (facts.cluster === undefined)
    throw configError(
      `couldn't get ${kind === "secret" ? kind : "configMap"} ${namespace}/${name}, no kubeClient defined`,
    );
  return findReferencedObject(facts.cluster, reference, isOptional, configError);
}

/** Error messages never contain the value. */
function dataValueOf(reference: Reference, object: ReferencedObject | undefined, key: string): string | undefined {
  if (object === undefined || !Object.hasOwn(object.data, key)) return undefined;
  const { kind, namespace, name } = reference;
  const where = `key ${key} of ${kindName(kind)} ${namespace}/${name}`;
  const text = object.data[key] ?? "";
  const bytes = kind === "secret" ? decodeBase64(text) : undefined;
  if (kind === "secret" && bytes === undefined) throw configError(`${where}: its value is not base64`);
  const value = bytes === undefined ? text : fromUtf8(bytes);
  if (value.includes("\0")) throw configError(`${where}: its value has a null byte, which no variable can have`);
  return value;
}

function kindName(kind: Reference["kind"]): string {
  return kind === "secret" ? "Secret" : "ConfigMap";
}
