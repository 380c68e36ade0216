import type {
  ConfigMap,
  Event,
  Lease,
  Node,
  ObjectMeta,
  Pod,
  RuntimeClass,
  Secret,
  Service,
  ServiceAccount,
} from "../proto/kubernetes/gen/types.ts";

/** What every object of the API has. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

declare const objects: unique symbol;

/** A collection of the API, such as the pods of one namespace. */
export interface Resource<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** Left out for what has no namespace, and for all namespaces at once. */
  readonly namespace?: string;
  /** Known to the compiler only: what kind of object this is a collection of. */
  readonly [objects]?: T;
}

/** Which objects of a collection; everything if both are left out. */
export interface Selector {
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

export const nodes: Resource<Node> = core("nodes");
export const runtimeClasses: Resource<RuntimeClass> = {
  group: "node.k8s.io",
  version: "v1",
  plural: "runtimeclasses",
};
/** Of all namespaces if none is given; so with the others that take one. */
export const pods = (namespace?: string): Resource<Pod> => core("pods", namespace);
export const services = (namespace?: string): Resource<Service> => core("services", namespace);
export const events = (namespace: string): Resource<Event> => core("events", namespace);
export const secrets = (namespace: string): Resource<Secret> => core("secrets", namespace);
export const serviceAccounts = (namespace: string): Resource<ServiceAccount> => core("serviceaccounts", namespace);
export const configMaps = (namespace: string): Resource<ConfigMap> => core("configmaps", namespace);
export const leases = (namespace: string): Resource<Lease> => ({
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  namespace,
});

function core(plural: string, namespace?: string): Resource<never> {
  return { group: "", version: "v1", plural, ...(namespace !== undefined && { namespace }) };
}

/** The path of a collection, of one object in it, or of a part of that object such as its `status`. */
export function pathOf({ group, version, plural, namespace }: Resource, name?: string, subresource?: string): string {
  const parts = [
    ...(group === "" ? ["api"] : ["apis", group]),
    version,
    ...(namespace === undefined ? [] : ["namespaces", namespace]),
    plural,
    ...(name === undefined ? [] : [name]),
    ...(subresource === undefined ? [] : [subresource]),
  ];
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}
