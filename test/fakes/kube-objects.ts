import { qosClassOf } from "../../agent/decide/status/qos.ts";
import type { Clock } from "../../host/clock.ts";
import { errorOfStatus, type KubeError } from "../../kube/error.ts";
import type { KubeObject, Selector } from "../../kube/resource.ts";
import type { KubeList } from "../../kube/watch/list.ts";
import { defaultPod } from "../../proto/kubernetes/defaults/pod.ts";
import type { ObjectMeta, Pod } from "../../proto/kubernetes/gen/types.ts";
import { formatTime, parseTime } from "../../proto/kubernetes/time.ts";
import { isWithin, type Target } from "./kube-request-target.ts";

/** Where one object stands. */
export type Place = Pick<Target, "resource" | "namespace"> & { readonly name: string };

/** An object as it is stored: everything that the server itself fills in is there. */
export interface Stored extends KubeObject {
  readonly metadata: ObjectMeta & { readonly name: string; readonly uid: string; readonly resourceVersion: string };
  readonly spec?: unknown;
  readonly status?: unknown;
}

export interface Change {
  readonly type: "ADDED" | "MODIFIED" | "DELETED";
  readonly resource: string;
  readonly version: number;
  readonly object: Stored;
  readonly before: Stored | undefined;
}

interface Kind {
  readonly kind: string;
  readonly apiVersion: string;
  readonly isNamespaced: boolean;
  /** The status is a part that is written by itself. */
  readonly hasStatus?: boolean;
  /** An update of what is not there makes it. */
  readonly isMadeByUpdate?: boolean;
  /** An update has to say which version it changes. */
  readonly needsVersion?: boolean;
}

const KINDS: Readonly<Record<string, Kind>> = {
  configmaps: { kind: "ConfigMap", apiVersion: "v1", isNamespaced: true },
  events: { kind: "Event", apiVersion: "v1", isNamespaced: true, isMadeByUpdate: true },
  "leases.coordination.k8s.io": {
    kind: "Lease",
    apiVersion: "coordination.k8s.io/v1",
    isNamespaced: true,
    isMadeByUpdate: true,
    needsVersion: true,
  },
  namespaces: { kind: "Namespace", apiVersion: "v1", isNamespaced: false },
  nodes: { kind: "Node", apiVersion: "v1", isNamespaced: false, hasStatus: true },
  pods: { kind: "Pod", apiVersion: "v1", isNamespaced: true, hasStatus: true },
  "runtimeclasses.node.k8s.io": { kind: "RuntimeClass", apiVersion: "node.k8s.io/v1", isNamespaced: false },
  secrets: { kind: "Secret", apiVersion: "v1", isNamespaced: true },
  serviceaccounts: { kind: "ServiceAccount", apiVersion: "v1", isNamespaced: true },
  services: { kind: "Service", apiVersion: "v1", isNamespaced: true, hasStatus: true },
};

export interface Deletion {
  readonly gracePeriodSeconds?: number;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
}

/** The objects of a cluster, changed by an API server's rules, and every change there was. */
export class KubeObjects {
  readonly history: Change[] = [];
  version = 0;
  readonly #objects = new Map<string, Stored>();
  readonly #clock: Pick<Clock, "now">;
  readonly #changed: (change: Change) => void;
  #uids = 0;

  constructor(clock: Pick<Clock, "now">, changed: (change: Change) => void) {
    this.#clock = clock;
    this.#changed = changed;
  }

  /** Keeps everything as it is now; what is returned brings it back, version and all. */
  backup(): () => void {
    const [objects, version, length] = [[...this.#objects], this.version, this.history.length];
    return () => {
      this.#objects.clear();
      for (const [key, object] of objects) this.#objects.set(key, object);
      this.version = version;
      this.history.length = length;
    };
  }

  kindOf(resource: string): Kind {
    const kind = KINDS[resource];
    if (kind === undefined) throw refusal(404, "NotFound", "the server could not find the requested resource");
    return kind;
  }

  /** All that are asked for, in the order of their names, and the version of that state. */
  select(target: Target, selector: Selector): KubeList<Stored> {
    const keys = [...this.#objects.keys()].filter((key) => key.startsWith(`${target.resource}/`)).toSorted();
    const all = keys.flatMap((key) => this.#objects.get(key) ?? []);
    const items = all.filter((object) => isWithin(target, selector, object));
    return { items, resourceVersion: String(this.version) };
  }

  get(place: Place): Stored {
    const object = this.#objects.get(keyOf(place));
    if (object === undefined) throw refusal(404, "NotFound", `${place.resource} "${place.name}" not found`);
    return object;
  }

  create(resource: string, namespace: string | undefined, given: KubeObject): Stored {
    const { kind, apiVersion } = this.kindOf(resource);
    const { generateName } = given.metadata;
    const name =
      given.metadata.name ?? (generateName && `${generateName}${(++this.#uids).toString(36).padStart(5, "x")}`);
    if (!name) throw invalid(resource, "", "metadata.name", "name or generateName is required");
    const place = { resource, namespace, name };
    const home = this.#objects.get(keyOf({ resource: "namespaces", namespace: undefined, name: namespace ?? "" }));
    if (home?.metadata.deletionTimestamp !== undefined)
      throw refusal(403, "Forbidden", `namespace ${namespace} is being terminated`, "metadata.namespace");
    if (this.#objects.has(keyOf(place))) throw refusal(409, "AlreadyExists", `${resource} "${name}" already exists`);
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
    return this.#store(place, "ADDED", resource === "pods" ? newPod(object as unknown as Pod) : object, undefined);
  }

  /** Replaces an object, or the part of it that the subresource names. `given` has what a client sent. */
  update(place: Place, given: KubeObject, subresource?: string): Stored {
    const { hasStatus, isMadeByUpdate, needsVersion } = this.kindOf(place.resource);
    const { uid, resourceVersion } = given.metadata;
    const before = isMadeByUpdate ? this.#objects.get(keyOf(place)) : this.get(place);
    const found = before?.metadata.uid ?? "";
    if (uid !== undefined && uid !== found)
      throw refusal(409, "Conflict", `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${found}`);
    if (before === undefined) return this.create(place.resource, place.namespace, given);
    if (needsVersion && !resourceVersion)
      throw invalid(place.resource, place.name, "metadata.resourceVersion", "must be specified for an update");
    this.#compareVersions(place, before, resourceVersion);
    const metadata = { ...given.metadata, ...immutableMetadata(before) };
    if (subresource === "status") {
      const ownerReferences = before.metadata.ownerReferences;
      const changed = { ...metadata, ...(ownerReferences ? { ownerReferences } : {}) };
      return this.#change(place, before, { ...before, metadata: changed, status: (given as Stored).status });
    }
    const status = hasStatus ? { status: before.status } : {};
    return this.#change(place, before, {
      kind: before.kind,
      apiVersion: before.apiVersion,
      ...given,
      metadata,
      ...status,
    });
  }

  /** Changes an object by what `apply` makes of it. */
  patch(place: Place, apply: (before: Stored) => unknown, subresource?: string): Stored {
    const before = this.get(place);
    const patched = apply(before) as KubeObject;
    if (patched.metadata.uid !== before.metadata.uid)
      throw invalid(place.resource, place.name, "metadata.uid", "field is immutable");
    return this.update(place, patched, subresource);
  }

  /** Binds a pod to a node, as the scheduler does. */
  bind(place: Place, nodeName: string): Stored {
    const before = this.get(place) as unknown as Stored & Pod;
    if (before.spec.nodeName !== undefined)
      throw refusal(409, "Conflict", `pod ${place.name} is already assigned to node "${before.spec.nodeName}"`);
    const scheduled = { type: "PodScheduled", status: "True", lastTransitionTime: formatTime(this.#clock.now()) };
    const others = (before.status?.conditions ?? []).filter(({ type }) => type !== "PodScheduled");
    const status = { ...before.status, conditions: [...others, scheduled] };
    return this.#store(
      place,
      "MODIFIED",
      { ...before, spec: { ...before.spec, nodeName }, status } as KubeObject,
      before,
    );
  }

  /** Begins an end, or brings it nearer; the object as it is now, or as it was last. */
  delete(place: Place, { gracePeriodSeconds, preconditions = {} }: Deletion): Stored {
    const before = this.get(place);
    if (preconditions.uid !== undefined && preconditions.uid !== before.metadata.uid)
      throw refusal(409, "Conflict", `the UID in the precondition (${preconditions.uid}) does not match`);
    this.#compareVersions(place, before, preconditions.resourceVersion);
    const isPod = place.resource === "pods";
    const grace = isPod ? graceOf(before as unknown as Pod, gracePeriodSeconds) : 0;
    if (before.metadata.deletionTimestamp !== undefined) {
      const left = before.metadata.deletionGracePeriodSeconds ?? 0;
      // Only a shorter time counts, and only if somebody asks for it.
      if (left === 0 || gracePeriodSeconds === undefined || grace >= left) return this.#removeIfFree(place, before);
    }
    // A namespace ends when somebody has emptied it, which nobody does here.
    if (place.resource === "namespaces") return this.#mark(place, before, 0);
    // What is not ended with grace, and held by nobody, is just gone; pods are seen with a grace of 0 before.
    if (!isPod && !before.metadata.finalizers?.length) return this.#remove(place, before);
    return this.#removeIfFree(place, this.#mark(place, before, grace));
  }

  #mark(place: Place, before: Stored, grace: number): Stored {
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, generation } = before.metadata;
    const now = this.#clock.now();
    const began =
      deletionTimestamp === undefined ? now : parseTime(deletionTimestamp) - deletionGracePeriodSeconds * 1000;
    const isFirst = deletionTimestamp === undefined && generation !== undefined;
    return this.#store(
      place,
      "MODIFIED",
      {
        ...before,
        metadata: {
          ...before.metadata,
          deletionTimestamp: formatTime(Math.max(now, began + grace * 1000)),
          deletionGracePeriodSeconds: grace,
          ...(isFirst && { generation: generation + 1 }),
        },
      },
      before,
    );
  }

  #change(place: Place, before: Stored, given: unknown): Stored {
    const next = JSON.parse(JSON.stringify(given)) as Stored;
    const isOtherSpec = !Bun.deepEquals(next.spec, before.spec);
    const generation = before.metadata.generation;
    const metadata = {
      ...next.metadata,
      ...(generation !== undefined && isOtherSpec && { generation: generation + 1 }),
    };
    // What changes nothing is not written, and nobody hears of it.
    if (Bun.deepEquals(sorted({ ...next, metadata }), sorted(before))) return before;
    const wasEnding = before.metadata.deletionTimestamp !== undefined && !before.metadata.deletionGracePeriodSeconds;
    if (wasEnding && !metadata.finalizers?.length) return this.#remove(place, { ...next, metadata });
    return this.#store(place, "MODIFIED", { ...next, metadata }, before);
  }

  #removeIfFree(place: Place, object: Stored): Stored {
    const { deletionGracePeriodSeconds, finalizers } = object.metadata;
    return deletionGracePeriodSeconds || finalizers?.length ? object : this.#remove(place, object);
  }

  #remove(place: Place, object: Stored): Stored {
    const before = this.#objects.get(keyOf(place));
    const removed = this.#store(place, "DELETED", object, before);
    this.#objects.delete(keyOf(place));
    return removed;
  }

  #compareVersions({ resource, name }: Place, before: Stored, resourceVersion: string | undefined): void {
    if (resourceVersion && resourceVersion !== before.metadata.resourceVersion)
      throw refusal(
        409,
        "Conflict",
        `Operation cannot be fulfilled on ${resource} "${name}": the object has been modified`,
      );
  }

  #store(place: Place, type: Change["type"], given: KubeObject, before: Stored | undefined): Stored {
    const version = ++this.version;
    const text = JSON.stringify({ ...given, metadata: { ...given.metadata, resourceVersion: String(version) } });
    const object = JSON.parse(text) as Stored;
    this.#objects.set(keyOf(place), object);
    const change = { type, resource: place.resource, version, object, before };
    this.history.push(change);
    this.#changed(change);
    return object;
  }
}

const keyOf = ({ resource, namespace = "", name }: Place) => `${resource}/${namespace}/${name}`;

/** What no client can change. */
function immutableMetadata({ metadata }: Stored): ObjectMeta {
  const { name, namespace, uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation } =
    metadata;
  const fields = { name, namespace, uid, creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds, generation };
  // An undefined one takes a given one away; it does not survive the way through JSON.
  return { ...(fields as ObjectMeta), resourceVersion: metadata.resourceVersion };
}

/** Rule: podStrategy.PrepareForCreate, and the defaults. */
function newPod(pod: Pod): Pod {
  const filled = defaultPod(pod);
  return {
    ...filled,
    metadata: { ...filled.metadata, generation: 1 },
    status: { phase: "Pending", qosClass: qosClassOf(filled) },
  };
}

/** Rule: podStrategy.CheckGracefulDelete. */
function graceOf({ spec, status }: Pod, requested = spec.terminationGracePeriodSeconds ?? 0): number {
  const isOver = status?.phase === "Failed" || status?.phase === "Succeeded";
  if (!spec.nodeName || isOver) return 0;
  return requested < 0 ? 1 : requested;
}

/** The same fields in another order are the same. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, field]) => [key, sorted(field)]);
}

export function refusal(code: number, reason: string, message: string, field?: string): KubeError {
  return errorOfStatus("the fake", code, { code, reason, message, details: { causes: field ? [{ field }] : [] } });
}

const invalid = (resource: string, name: string, field: string, why: string) =>
  refusal(422, "Invalid", `${resource} "${name}" is invalid: ${field}: ${why}`, field);
