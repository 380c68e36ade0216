import { allContainers } from "./containers.ts";
import type { Container, Pod } from "./gen/types.ts";

/** A Secret or a ConfigMap that a pod refers to; it is always one of its own namespace. */
export interface Reference {
  /** As the API server words it: `secret "x" not found`. */
  readonly kind: "secret" | "configmap";
  readonly namespace: string;
  readonly name: string;
}

/** As much of the object as pods are told, the values of a Secret in base64. */
export interface Referent {
  readonly uid: string;
  /** Of a Secret, such as `kubernetes.io/dockerconfigjson`. */
  readonly type: string;
  readonly data: Readonly<Record<string, string>>;
}

/** What is known of the objects that pods refer to, by {@link referenceKey}; what is missing was not read yet. */
export type Referents = ReadonlyMap<string, Referent | "absent">;

/** `secret shop/login`: equal for two references to the same object. */
export function referenceKey({ kind, namespace, name }: Reference): string {
  return `${kind} ${namespace}/${name}`;
}

/** What the environment of a container is made of, optional or not. */
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

/** The Secrets by which images of the pod are pulled. One without a name, which the API lets through, is none. */
export function pullSecretReferences(pod: Pod): readonly Reference[] {
  return (pod.spec.imagePullSecrets ?? []).filter(({ name }) => name).map((each) => referenceOf(pod, "secret", each));
}

/** Everything that the pod refers to, each once. */
export function referencesOf(pod: Pod): ReadonlyMap<string, Reference> {
  const ofContainers = allContainers(pod.spec).flatMap((container) => environmentReferences(pod, container));
  return new Map([...ofContainers, ...pullSecretReferences(pod)].map((each) => [referenceKey(each), each]));
}

/** What a reference in the pod, by a name alone, refers to: it is always in the namespace of the pod. */
export function referenceOf(
  { metadata }: Pod,
  kind: Reference["kind"],
  { name = "" }: { readonly name?: string },
): Reference {
  return { kind, namespace: metadata.namespace ?? "default", name };
}
