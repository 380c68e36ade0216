import { decodeBase64 } from "../../../proto/base64.ts";
import type { EnvFromSource, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Reference, type Referent, referenceKey, referenceOf } from "../../../proto/kubernetes/references.ts";
import { fromUtf8 } from "../../../proto/utf8.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";

/** What a value of a Secret or a ConfigMap is read from. */
export interface ReferenceScene {
  readonly pod: Pod;
  readonly facts: Pick<NodeFacts, "cluster">;
}

type ValueFrom = NonNullable<EnvVar["valueFrom"]>;

/**
 * The variables of a whole Secret or ConfigMap, in the order of their names; none where it is optional and is not there. Throws
 * `TranslateError` in the kubelet's words where it is needed, and is not there or was not read.
 */
export function variablesOf(scene: ReferenceScene, source: EnvFromSource): readonly (readonly [string, string])[] {
  const { configMapRef, secretRef, prefix = "" } = source;
  const [kind, reference] =
    configMapRef === undefined ? (["secret", secretRef] as const) : (["configmap", configMapRef] as const);
  if (reference === undefined) return [];
  const whole = referenceOf(scene.pod, kind, reference);
  const referent = referentOf(scene, whole, reference.optional === true);
  return Object.keys(referent?.data ?? {})
    .toSorted()
    .map((key) => [`${prefix}${key}`, valueAt(whole, referent, key) ?? ""]);
}

/**
 * The value of one key; undefined where it is optional and is not there. Throws `TranslateError` in the kubelet's words where it is
 * needed, and is not there or was not read.
 */
export function referencedValue(
  scene: ReferenceScene,
  { configMapKeyRef, secretKeyRef }: ValueFrom,
): string | undefined {
  const [kind, selector] =
    configMapKeyRef === undefined ? (["secret", secretKeyRef] as const) : (["configmap", configMapKeyRef] as const);
  if (selector === undefined) return undefined;
  const isOptional = selector.optional === true;
  const reference = referenceOf(scene.pod, kind, selector);
  const referent = referentOf(scene, reference, isOptional);
  const value = valueAt(reference, referent, selector.key);
  if (value === undefined && !isOptional)
    throw configError(`couldn't find key ${selector.key} in ${wordOf(kind)} ${reference.namespace}/${reference.name}`);
  return value;
}

/** The words are the kubelet's, which is what users search for. */
function referentOf({ facts }: ReferenceScene, reference: Reference, isOptional: boolean): Referent | undefined {
  const { kind, namespace, name } = reference;
  if (facts.cluster === undefined)
    throw configError(
      `couldn't get ${kind === "secret" ? kind : "configMap"} ${namespace}/${name}, no kubeClient defined`,
    );
  const known = facts.cluster.referents.get(referenceKey(reference));
  if (known === undefined) throw configError(`failed to sync ${kind} cache: timed out waiting for the condition`);
  if (known !== "absent") return known;
  if (isOptional) return undefined;
  throw configError(`${kind} "${name}" not found`);
}

/** Never says in an error what the value is. */
function valueAt(reference: Reference, referent: Referent | undefined, key: string): string | undefined {
  if (referent === undefined || !Object.hasOwn(referent.data, key)) return undefined;
  const { kind, namespace, name } = reference;
  const where = `key ${key} of ${wordOf(kind)} ${namespace}/${name}`;
  const text = referent.data[key] ?? "";
  const bytes = kind === "secret" ? decodeBase64(text) : undefined;
  if (kind === "secret" && bytes === undefined) throw configError(`${where}: its value is not base64`);
  const value = bytes === undefined ? text : fromUtf8(bytes);
  if (value.includes("\0")) throw configError(`${where}: its value has a null byte, which no variable can have`);
  return value;
}

function wordOf(kind: Reference["kind"]): string {
  return kind === "secret" ? "Secret" : "ConfigMap";
}

function configError(message: string): TranslateError {
  return new TranslateError("CreateContainerConfigError", message);
}
