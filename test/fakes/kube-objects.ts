import { qosClassOf } from "../../agent/decide/status/qos.ts";
import type { Clock } from "../../host/clock.ts";
import { errorOfStatus, type KubeError } from "../../kube/error.ts";
import type { KubeObject, Selector } from "../../kube/resource.ts";
import type { KubeList } from "../../kube/watch/list.ts";
import { defaultPod } from "../../proto/kubernetes/defaults/pod.ts";
import type { ObjectMeta, Pod } from "../../proto/kubernetes/gen/types.ts";
import { formatTime, parseTime } from "../../proto/kubernetes/values/time.ts";
import { matchesTarget, type RequestTarget } from "./kube-request-target.ts";

/** Identifies one object: resource, namespace and name. */
export type ObjectKey = Pick<RequestTarget, "resource" | "namespace"> & { readonly name: string };

/** A stored object, with the fields that the server fills in. */
export interface StoredObject extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly spec?: unknown;
  readonly status?: unknown;
}

export interface StoredChange {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: string;
  readonly version: number;
  readonly object: StoredObject;
  readonly before: StoredObject | undefined;
}

interface ResourceKind {
  readonly kind: string;
  readonly apiVersion: string;
  readonly isNamespaced: boolean;
  /** The resource has a status subresource. */
  readonly hasStatusSubresource?: boolean;
  /** PUT on a missing object creates it. */
  readonly allowsCreateOnUpdate?: boolean;
  /** PUT needs a resourceVersion. */
  readonly requiresResourceVersion?: boolean;
}

const KINDS: Readonly<Record<string, ResourceKind>> = {
  "clustertrustbundles.certificates.k8s.io": {
    kind: "ClusterTrustBundle",
    apiVersion: "certificates.k8s.io/v1beta1",
    isNamespaced: false,
  },
  configmaps: { kind: "ConfigMap", apiVersion: "v1", isNamespaced: true },
  events: { kind: "Event", apiVersion: "v1", isNamespaced: true, allowsCreateOnUpdate: true },
  "leases.coordination.k8s.io": {
    kind: "Lease",
    apiVersion: "coordination.k8s.io/v1",
    isNamespaced: true,
    allowsCreateOnUpdate: true,
    requiresResourceVersion: true,
  },
  namespaces: { kind: "Namespace", apiVersion: "v1", isNamespaced: false },
  nodes: { kind: "Node", apiVersion: "v1", isNamespaced: false, hasStatusSubresource: true },
  // As if a claim had no status subresource: tests write the status that the controller would write.
  persistentvolumeclaims: { kind: "PersistentVolumeClaim", apiVersion: "v1", isNamespaced: true },
  persistentvolumes: { kind: "PersistentVolume", apiVersion: "v1", isNamespaced: false },
  "podcertificaterequests.certificates.k8s.io": {
    kind: "PodCertificateRequest",
    apiVersion: "certificates.k8s.io/v1beta1",
    isNamespaced: true,
    hasStatusSubresource: true,
  },
  pods: { kind: "Pod", apiVersion: "v1", isNamespaced: true, hasStatusSubresource: true },
  "runtimeclasses.node.k8s.io": { kind: "RuntimeClass", apiVersion: "node.k8s.io/v1", isNamespaced: false },
  secrets: { kind: "Secret", apiVersion: "v1", isNamespaced: true },
  serviceaccounts: { kind: "ServiceAccount", apiVersion: "v1", isNamespaced: true },
  services: { kind: "Service", apiVersion: "v1", isNamespaced: true, hasStatusSubresource: true },
};

export interface Deletion {
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** The objects of a cluster, changed by the API server's rules, and the history of all changes. */
export class FakeObjects {
  readonly history: StoredChange[] = [];
  /** Resources that this server does not serve: `clustertrustbundles.certificates.k8s.io`. */
  readonly unserved = new Set<string>();
  version = 0;
  readonly #objects = new Map<string, StoredObject>();
  readonly #clock: Pick<Clock, "now">;
  readonly #onChange: (change: StoredChange) => void;
  #uids = 0;

  constructor(clock: Pick<Clock, "now">, onChange: (change: StoredChange) => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Takes a snapshot of all objects, versions and history; the returned function restores it. */
  takeSnapshot(): () => void {
    const [objects, version, length] = [[...this.#objects], this.version, this.history.length];
    return () => {
      this.#objects.clear();
      for (const [key, object] of objects) this.#objects.set(key, object);
      this.version = version;
      this.history.length = length;
    };
  }

  kindOf(resource: string): ResourceKind {
    const kind = KINDS[resource];
    if (kind === undefined || this.unserved.has(resource))
      throw statusError(404, "NotFound", "the server could not find the requested resource");
    return kind;
  }

  /** The plural names of the resources of a group version, such as `certificates.k8s.io/v1beta1`. */
  servedNames(groupVersion: string): readonly string[] {
    return Object.entries(KINDS).flatMap(([resource, { apiVersion }]) =>
      apiVersion === groupVersion && !this.unserved.has(resource) ? (resource.split(".")[0] ?? []) : [],
    );
  }

  /** The objects that match the target and the selector, ordered by name, and the version of that state. */
  select(target: RequestTarget, selector: Selector): KubeList<StoredObject> {
    const keys = [...this.#objects.keys()].filter((key) => key.startsWith(`${target.resource}/`)).toSorted();
    const all = keys.flatMap((key) => this.#objects.get(key) ?? []);
    const items = all.filter((object) => matchesTarget(target, selector, object));
    return { items, resourceVersion: String(this.version) };
  }

  get(key: ObjectKey): StoredObject {
    const object = this.#objects.get(storageKeyOf(key));
    if (object === undefined) throw statusError(404, "NotFound", `${key.resource} "${key.name}" not found`);
    return object;
  }

  create(resource: string, namespace: string | undefined, given: KubeObject): StoredObject {
    const { kind, apiVersion } = this.kindOf(resource);
    const { generateName } = given.metadata;
    const name =
      given.metadata.name ?? (generateName && `${generateName}${(++this.#uids).toString(36).padStart(5, "x")}`);
    if (!name) throw invalid(resource, "", "metadata.name", "name or generateName is required");
    const key = { resource, namespace, name };
    const namespaceObject = this.#objects.get(
      storageKeyOf({ resource: "namespaces", namespace: undefined, name: namespace ?? "" }),
    );
    if (namespaceObject?.metadata.deletionTimestamp !== undefined)
      throw statusError(403, "Forbidden", `namespace ${namespace} is being terminated`, "metadata.namespace");
    if (this.#objects.has(storageKeyOf(key)))
      throw statusError(409, "AlreadyExists", `${resource} "${name}" already exists`);
    const { deletionTimestamp: _, deletionGracePeriodSeconds: __, ...metadata } = given.metadata;
    const object = {
      kind,
      apiVersion,
      ...given,
      metadata: {
        ...metadata,
        name,
        ...(namespace !== undefined && { namespace }),
        uid: `00000000-0000-4000-8000-${String(++this.#uids).padStart(12, "0")}`,
        creationTimestamp: formatTime(this.#clock.now()),
      },
    };
    return this.#store(key, "ADDED", resource === "pods" ? newPod(object as unknown as Pod) : object, undefined);
  }

  /** Replaces an object, or the part of it that `subresource` names, with the body that a client sent. */
  update(key: ObjectKey, given: KubeObject, subresource?: string): StoredObject {
    const { hasStatusSubresource, allowsCreateOnUpdate, requiresResourceVersion } = this.kindOf(key.resource);
    const { uid, resourceVersion } = given.metadata;
    const before = allowsCreateOnUpdate ? this.#objects.get(storageKeyOf(key)) : this.get(key);
    const foundUid = before?.metadata.uid ?? "";
    if (uid !== undefined && uid !== foundUid)
      throw statusError(
        409,
        "Conflict",
        `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${foundUid}`,
      );
    if (before === undefined) return this.create(key.resource, key.namespace, given);
    if (requiresResourceVersion && !resourceVersion)
      throw invalid(key.resource, key.name, "metadata.resourceVersion", "must be specified for an update");
    this.#compareVersions(key, before, resourceVersion);
    const metadata = { ...given.metadata, ...immutableMetadata(before) };
    if (subresource === "status") {
      const ownerReferences = before.metadata.ownerReferences;
      const changed = { ...metadata, ...(ownerReferences ? { ownerReferences } : {}) };
      return this.#change(key, before, { ...before, metadata: changed, status: (given as StoredObject).status });
    }
    const status = hasStatusSubresource ? { status: before.status } : {};
    return this.#change(key, before, {
      kind: before.kind,
      apiVersion: before.apiVersion,
      ...given,
      metadata,
      ...status,
    });
  }

  /** Replaces an object with the result of `apply`. */
  patch(key: ObjectKey, apply: (before: StoredObject) => unknown, subresource?: string): StoredObject {
    const before = this.get(key);
    const patched = apply(before) as KubeObject;
    if (patched.metadata.uid !== before.metadata.uid)
      throw invalid(key.resource, key.name, "metadata.uid", "field is immutable");
    return this.update(key, patched, subresource);
  }

  /** Binds a pod to a node, as the scheduler does. */
  bind(key: ObjectKey, nodeName: string): StoredObject {
    const before = this.get(key) as unknown as StoredObject & Pod;
    if (before.spec.nodeName !== undefined)
      throw statusError(409, "Conflict", `pod ${key.name} is already assigned to node "${before.spec.nodeName}"`);
    const scheduled = { type: "PodScheduled", status: "True", lastTransitionTime: formatTime(this.#clock.now()) };
    const others = (before.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
    const status = { ...before.status, conditions: [...others, scheduled] };
    return this.#store(
      key,
      "MODIFIED",
      { ...before, spec: { ...before.spec, nodeName }, status } as KubeObject,
      before,
    );
  }

  /**
   * Marks an object as terminating, shortens its grace period, or removes it. Returns its current or its last state.
   */
  delete(key: ObjectKey, { gracePeriodSeconds, preconditions = {} }: Deletion): StoredObject {
    const before = this.get(key);
    if (preconditions.uid !== undefined && preconditions.uid !== before.metadata.uid)
      throw statusError(409, "Conflict", `the UID in the precondition (${preconditions.uid}) does not match`);
    this.#compareVersions(key, before, preconditions.resourceVersion);
    const isPod = key.resource === "pods";
    const grace = isPod ? gracePeriodOf(before as unknown as Pod, gracePeriodSeconds) : 0;
    if (before.metadata.deletionTimestamp !== undefined) {
      const left = before.metadata.deletionGracePeriodSeconds ?? 0;
      // A second deletion can only shorten the grace period, and only if it names one.
      if (left === 0 || gracePeriodSeconds === undefined || grace >= left) return this.#removeIfFree(key, before);
    }
    // The namespace controller removes a namespace once it is empty; there is none here, so it stays terminating.
    if (key.resource === "namespaces") return this.#markDeleted(key, before, 0);
    // Objects without graceful deletion and without finalizers go at once; a pod is first updated to a grace period of
    // 0.
    if (!isPod && !before.metadata.finalizers?.length) return this.#remove(key, before);
    return this.#removeIfFree(key, this.#markDeleted(key, before, grace));
  }

  #markDeleted(key: ObjectKey, before: StoredObject, grace: number): StoredObject {
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, generation } = before.metadata;
    const now = this.#clock.now();
    const deletionRequestedAt =
      deletionTimestamp === undefined ? now : parseTime(deletionTimestamp) - deletionGracePeriodSeconds * 1000;
    const isFirst = deletionTimestamp === undefined && generation !== undefined;
    return this.#store(
      key,
      "MODIFIED",
      {
        ...before,
        metadata: {
          ...before.metadata,
          deletionTimestamp: formatTime(Math.max(now, deletionRequestedAt + grace * 1000)),
          deletionGracePeriodSeconds: grace,
          ...(isFirst && { generation: generation + 1 }),
        },
      },
      before,
    );
  }

  #change(key: ObjectKey, before: StoredObject, given: unknown): StoredObject {
    const next = JSON.parse(JSON.stringify(given)) as StoredObject;
    const isOtherSpec = !Bun.deepEquals(next.spec, before.spec);
    const generation = before.metadata.generation;
    const metadata = {
      ...next.metadata,
      ...(generation !== undefined && isOtherSpec && { generation: generation + 1 }),
    };
    // An update without a change is not written and causes no watch event.
    if (Bun.deepEquals(sorted({ ...next, metadata }), sorted(before))) return before;
    const wasTerminating =
      before.metadata.deletionTimestamp !== undefined && !before.metadata.deletionGracePeriodSeconds;
    if (wasTerminating && !metadata.finalizers?.length) return this.#remove(key, { ...next, metadata });
    return this.#store(key, "MODIFIED", { ...next, metadata }, before);
  }

  #removeIfFree(key: ObjectKey, object: StoredObject): StoredObject {
    const { deletionGracePeriodSeconds, finalizers } = object.metadata;
    return deletionGracePeriodSeconds || finalizers?.length ? object : this.#remove(key, object);
  }

  #remove(key: ObjectKey, object: StoredObject): StoredObject {
    const before = this.#objects.get(storageKeyOf(key));
    const removed = this.#store(key, "DELETED", object, before);
    this.#objects.delete(storageKeyOf(key));
    return removed;
  }

  #compareVersions({ resource, name }: ObjectKey, before: StoredObject, resourceVersion: string | undefined): void {
    if (resourceVersion && resourceVersion !== before.metadata.resourceVersion)
      throw statusError(
        409,
        "Conflict",
        `Operation cannot be fulfilled on ${resource} "${name}": the object has been modified`,
      );
  }

  #store(
    key: ObjectKey,
    type: StoredChange["type"],
    given: KubeObject,
    before: StoredObject | undefined,
  ): StoredObject {
    const version = ++this.version;
    const text = JSON.stringify({ ...given, metadata: { ...given.metadata, resourceVersion: String(version) } });
    const object = JSON.parse(text) as StoredObject;
    this.#objects.set(storageKeyOf(key), object);
    const change = { type, resource: key.resource, version, object, before };
    this.history.push(change);
    this.#onChange(change);
    return object;
  }
}

const storageKeyOf = ({ resource, namespace = "", name }: ObjectKey) => `${resource}/${namespace}/${name}`;

/** The metadata that no client can change. */
function immutableMetadata({ metadata }: StoredObject): ObjectMeta {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation } =
    metadata;
  const fields = { name, namespace, uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation };
  // An undefined value here overrides the client's value, and the JSON copy then drops it.
  return { ...(fields as ObjectMeta), resourceVersion: metadata.resourceVersion };
}

/** Rule: podStrategy.PrepareForCreate, and defaulting. */
function newPod(pod: Pod): Pod {
  const filled = defaultPod(pod);
  return {
    ...filled,
    metadata: { ...filled.metadata, generation: 1 },
    status: { phase: "Pending", qosClass: qosClassOf(filled) },
  };
}

/** Rule: podStrategy.CheckGracefulDelete. */
function gracePeriodOf({ spec, status }: Pod, requested = spec.terminationGracePeriodSeconds ?? 0): number {
  const isOver = status?.phase === "Failed" || status?.phase === "Succeeded";
  if (!spec.nodeName || isOver) return 0;
  return requested < 0 ? 1 : requested;
}

/** Sorts the keys at every level: a different order of fields is not a change. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, field]) => [key, sorted(field)]);
}

export function statusError(code: number, reason: string, message: string, field?: string): KubeError {
  return errorOfStatus("the fake", code, { code, reason, message, details: { causes: field ? [{ field }] : [] } });
}

const invalid = (resource: string, name: string, field: string, why: string) =>
  statusError(422, "Invalid", `${resource} "${name}" is invalid: ${field}: ${why}`, field);
