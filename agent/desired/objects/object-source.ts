import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { configMaps, type Resource, secrets } from "../../../kube/resource.ts";
import type { ConfigMap, Secret } from "../../../proto/kubernetes/gen/types.ts";
import type { Reference, ReferencedObject } from "../../../proto/kubernetes/references.ts";

/** Follows one Secret or ConfigMap, which is kept in memory only. */
export interface ObjectSource {
  /** Follows the object until `stop`, or until nothing about it can change any more; never rejects. Called once. */
  run(): Promise<void>;
  /** No callback is called afterwards. */
  stop(): void;
  /** Whether a container may start with what is known. If not, `refresh` reads the object, and a callback follows. */
  isRecent(): boolean;
  /** Reads the object again if what is known is too old for a container that starts now. */
  refresh(): void;
  /** Another pod refers to the object from now on: what was read before is too old. */
  invalidate(): void;
  /** The API server serves us again: a failed read is repeated now. */
  retryAfterOutage(): void;
}

export interface ObjectSourceOptions {
  readonly kube: Pick<KubeClient, "get" | "listAndWatch" | "subscribeToRecovery">;
  readonly clock: Clock;
  readonly log: Log;
  readonly reference: Reference;
  /** The object was read or has changed. The callbacks may not throw. */
  readonly onObject: (object: ReferencedObject | "absent") => void;
  /**
   * The first read took too long, or has failed for a reason that users know from the kubelet: pods must not wait for the
   * object any longer.
   */
  readonly onTimeout: (failure?: string) => void;
}

/** The kubelet's value. */
export const WAIT_FOR_FIRST_READ_MS = 1_000;

export function resourceOf({ kind, namespace }: Reference): Resource<Secret | ConfigMap> {
  return kind === "secret" ? secrets(namespace) : configMaps(namespace);
}

/** `the secret shop/login`, for messages. */
export const labelOf = ({ kind, namespace, name }: Reference): string => `the ${kind} ${namespace}/${name}`;

/** Reduces an object to what pods use. The object may be malformed. */
export function toReferencedObject(object: Secret | ConfigMap): ReferencedObject {
  const { uid = "", resourceVersion = "" } = object.metadata;
  const type = "type" in object && typeof object.type === "string" ? object.type : "";
  const binaryData = "binaryData" in object ? textsOf(object.binaryData) : {};
  return {
    uid,
    version: resourceVersion,
    type,
    data: textsOf(object.data),
    ...(Object.keys(binaryData).length > 0 && { binaryData }),
  };
}

const textsOf = (values: Readonly<Record<string, string>> | undefined): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(values ?? {}).filter(([, value]) => typeof value === "string"));
