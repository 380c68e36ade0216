import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { isLoggedBySessionPool, type KubeError } from "../../../kube/error.ts";
import { configMaps, type Resource, secrets } from "../../../kube/resource.ts";
import type { ConfigMap, Secret } from "../../../proto/kubernetes/gen/types.ts";
import type { Reference, ReferencedObject } from "../../../proto/kubernetes/references.ts";
import { createOutageLog } from "../outage-log.ts";

/** Watches one Secret or ConfigMap, which is kept in memory only. */
export interface ObjectWatch {
  /** Runs the watch until `stop`, or until the object turns out to be immutable; never rejects. Called once. */
  run(): Promise<void>;
  /** Ends the watch; no callback is called afterwards. */
  stop(): void;
}

export interface ObjectWatchOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly clock: Clock;
  readonly log: Log;
  readonly reference: Reference;
  /** The object was read or has changed. The callbacks may not throw. */
  readonly onObject: (object: ReferencedObject | "absent") => void;
  /** The first read took too long: pods must not wait for the object any longer. */
  readonly onTimeout: () => void;
}

/** The kubelet's value. */
const WAIT_FOR_FIRST_READ_MS = 1_000;

/**
 * Uses one watch per object: the node authorizer lets a node read single objects only, those that its pods refer to.
 */
export function createObjectWatch(options: ObjectWatchOptions): ObjectWatch {
  const { kube, clock, log, reference, onObject, onTimeout } = options;
  const { namespace, name } = reference;
  const label = `the ${reference.kind} ${namespace}/${name}`;
  const outageLog = createOutageLog(log, {}, `${label} is read from the API server`);
  const stopping = new AbortController();
  /** The version that the users were notified of last. */
  let lastVersion: string | undefined;
  let isTimedOut = false;
  let lastError: KubeError | undefined;
  const cancelTimeout = clock.wakeAt(clock.now() + WAIT_FOR_FIRST_READ_MS, () => {
    isTimedOut = true;
    logOutage();
    onTimeout();
  });

  /** After the first read the object suffices, and the connection logs its own outages. */
  function logOutage(): void {
    if (!isTimedOut || lastVersion !== undefined || lastError === undefined || isLoggedBySessionPool(lastError)) return;
    outageLog.report(`${label} cannot be read from the API server: ${lastError.message}`);
  }

  function handleObject(object: Secret | ConfigMap | undefined): void {
    const now = object === undefined ? "absent" : `version ${object.metadata.resourceVersion}`;
    if (now === lastVersion) return;
    lastVersion = now;
    cancelTimeout();
    outageLog.clear();
    // An immutable object needs no watch.
    if (object?.immutable === true) stopping.abort();
    onObject(object === undefined ? "absent" : toReferencedObject(object));
  }

  const isReferenced = ({ metadata }: Secret | ConfigMap) => metadata.namespace === namespace && metadata.name === name;
  return {
    run: () =>
      kube.listAndWatch(
        resourceOf(reference),
        { fieldSelector: `metadata.name=${name}` },
        {
          onReplaced: (objects) => handleObject(objects.find(isReferenced)),
          onChanged(kind, object) {
            if (isReferenced(object)) handleObject(kind === "deleted" ? undefined : object);
          },
          onOutage(error) {
            lastError = error;
            logOutage();
          },
          onRecovered() {
            // The watch delivers missed changes, or a new list.
            lastError = undefined;
          },
        },
        stopping.signal,
      ),
    stop() {
      cancelTimeout();
      stopping.abort();
    },
  };
}

function resourceOf({ kind, namespace }: Reference): Resource<Secret | ConfigMap> {
  return kind === "secret" ? secrets(namespace) : configMaps(namespace);
}

/** Reduces an object to what pods use. The object may be malformed. */
function toReferencedObject(object: Secret | ConfigMap): ReferencedObject {
  const values = Object.entries(object.data ?? {}).filter(([, value]) => typeof value === "string");
  const type = "type" in object && typeof object.type === "string" ? object.type : "";
  return { uid: object.metadata.uid ?? "", type, data: Object.fromEntries(values) };
}
