import { allContainers } from "./containers.ts";
import type { ConfigMapProjection, Container, Pod, Volume } from "./gen/types.ts";

/** A reference of a pod to a Secret or a ConfigMap, which is always in the pod's namespace. */
export interface Reference {
  /** As in the API server's messages: `secret "x" not found`. */
  readonly kind: "secret" | "configmap";
  readonly namespace: string;
  readonly name: string;
}

/** The part of a Secret or ConfigMap that pods use. The values of a Secret are in base64. */
export interface ReferencedObject {
  readonly uid: string;
  /** The resourceVersion. */
  readonly version: string;
  /** The type of a Secret, such as `kubernetes.io/dockerconfigjson`. */
  readonly type: string;
  readonly data: Readonly<Record<string, string>>;
  /** The binary values of a ConfigMap, in base64; left out if there are none. */
  readonly binaryData?: Readonly<Record<string, string>>;
}

/** Whether the object has a value of this key, text or binary. */
export function hasKey({ data, binaryData = {} }: Pick<ReferencedObject, "data" | "binaryData">, key: string): boolean {
  return Object.hasOwn(data, key) || Object.hasOwn(binaryData, key);
}

/** The known objects by {@link referenceKey}. A missing entry has not been read yet. */
export type ReferencedObjects = ReadonlyMap<string, ReferencedObject | "absent">;

/** For example `secret shop/login`: equal for two references to the same object. */
export function referenceKey({ kind, namespace, name }: Reference): string {
  return `${kind} ${namespace}/${name}`;
}

/** The references in the environment of a container, optional or not. */
export function environmentReferences(pod: Pod, { env = [], envFrom = [] }: Container): readonly Reference[] {
  const refer = (kind: Reference["kind"], reference: { readonly name?: string } | undefined) =>
    reference === undefined ? [] : [referenceOf(pod, kind, reference)];
  return [
    ...envFrom.flatMap(({ configMapRef, secretRef }) => [
      ...refer("configmap", configMapRef),
      ...refer("secret", secretRef),
    ]),
    ...env.flatMap(({ valueFrom }) => [
      ...refer("configmap", valueFrom?.configMapKeyRef),
      ...refer("secret", valueFrom?.secretKeyRef),
    ]),
  ];
}

/** The pod's imagePullSecrets. Entries without a name, which the API accepts, are skipped. */
export function pullSecretReferences(pod: Pod): readonly Reference[] {
  return (pod.spec.imagePullSecrets ?? []).filter(({ name }) => name).map((each) => referenceOf(pod, "secret", each));
}

/** A source of a volume's files: an object, and what the volume needs of it. */
export interface VolumeReference extends Reference {
  /** The volume has as content what there is of the object and its keys. */
  readonly isOptional: boolean;
  /** The keys that it names; none if its content is all of them. */
  readonly keys: readonly string[];
}

/** The references of a volume to Secrets and ConfigMaps, optional or not, in the order of its sources. */
export function volumeReferences(pod: Pod, { configMap, secret, projected }: Volume): readonly VolumeReference[] {
  const refer = (kind: Reference["kind"], source: ConfigMapProjection | undefined) =>
    source === undefined ? [] : [volumeReferenceOf(pod, kind, source)];
  if (configMap !== undefined) return refer("configmap", configMap);
  if (secret !== undefined) return refer("secret", { ...secret, name: secret.secretName ?? "" });
  return (projected?.sources ?? []).flatMap((source) => [
    ...refer("secret", source.secret),
    ...refer("configmap", source.configMap),
  ]);
}

function volumeReferenceOf(
  pod: Pod,
  kind: Reference["kind"],
  { name = "", optional = false, items = [] }: ConfigMapProjection,
): VolumeReference {
  return { ...referenceOf(pod, kind, { name }), isOptional: optional, keys: items.map(({ key }) => key) };
}

/** All references of the pod, each once. */
export function referencesOf(pod: Pod): ReadonlyMap<string, Reference> {
  const ofContainers = allContainers(pod.spec).flatMap((container) => environmentReferences(pod, container));
  const ofVolumes = (pod.spec.volumes ?? []).flatMap((volume) => volumeReferences(pod, volume));
  return new Map(
    [...ofContainers, ...pullSecretReferences(pod), ...ofVolumes].map((each) => [referenceKey(each), each]),
  );
}

/** Resolves a name in the pod spec to a reference in the pod's namespace. */
export function referenceOf(
  { metadata }: Pod,
  kind: Reference["kind"],
  { name = "" }: { readonly name?: string },
): Reference {
  return { kind, namespace: metadata.namespace ?? "default", name };
}
