import type { ClusterTrustBundle, PodCertificateRequest } from "../proto/kubernetes/certificates.ts";
import type {
  ConfigMap,
  Event,
  Lease,
  Node,
  ObjectMeta,
  PersistentVolume,
  PersistentVolumeClaim,
  Pod,
  RuntimeClass,
  Secret,
  Service,
  ServiceAccount,
} from "../proto/kubernetes/gen/types.ts";
import type { NetworkAttachmentDefinition } from "../proto/kubernetes/network-attachments.ts";

/** The fields that every API object has. */
export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

declare const objects: unique symbol;

/** A resource of the API (GVR), optionally within one namespace. */
export interface Resource<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  /** Left out for cluster-scoped resources, and for all namespaces at once. */
  readonly namespace?: string;
  /** Exists for the compiler only: the type of the objects. */
  readonly [objects]?: T;
}

/** The objects of a collection to select; all if both are left out. */
export interface Selector {
  readonly fieldSelector?: string;
  readonly labelSelector?: string;
}

export const nodes: Resource<Node> = coreResource("nodes");
export const runtimeClasses: Resource<RuntimeClass> = {
  group: "node.k8s.io",
  version: "v1",
  plural: "runtimeclasses",
};
/** All namespaces if none is given; the same holds for the functions below. */
export const pods = (namespace?: string): Resource<Pod> => coreResource("pods", namespace);
export const services = (namespace?: string): Resource<Service> => coreResource("services", namespace);
export const events = (namespace: string): Resource<Event> => coreResource("events", namespace);
export const secrets = (namespace: string): Resource<Secret> => coreResource("secrets", namespace);
export const serviceAccounts = (namespace: string): Resource<ServiceAccount> =>
  coreResource("serviceaccounts", namespace);
export const configMaps = (namespace: string): Resource<ConfigMap> => coreResource("configmaps", namespace);
export const persistentVolumes: Resource<PersistentVolume> = coreResource("persistentvolumes");
export const persistentVolumeClaims = (namespace: string): Resource<PersistentVolumeClaim> =>
  coreResource("persistentvolumeclaims", namespace);
export const leases = (namespace: string): Resource<Lease> => ({
  group: "coordination.k8s.io",
  version: "v1",
  plural: "leases",
  namespace,
});

/** Served only where its custom resource definition is installed. */
export const networkAttachmentDefinitions = (namespace: string): Resource<NetworkAttachmentDefinition> => ({
  group: "k8s.cni.cncf.io",
  version: "v1",
  plural: "network-attachment-definitions",
  namespace,
});

/** Served only where `--runtime-config` turns the version on. */
export const clusterTrustBundles = (version: "v1beta1" | "v1alpha1"): Resource<ClusterTrustBundle> => ({
  group: "certificates.k8s.io",
  version,
  plural: "clustertrustbundles",
});

export const podCertificateRequests = (namespace?: string): Resource<PodCertificateRequest> => ({
  group: "certificates.k8s.io",
  version: "v1beta1",
  plural: "podcertificaterequests",
  ...(namespace !== undefined && { namespace }),
});

function coreResource(plural: string, namespace?: string): Resource<never> {
  return { group: "", version: "v1", plural, ...(namespace !== undefined && { namespace }) };
}

/** The URL path of a collection, of one object in it, or of a subresource such as `status`. */
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
