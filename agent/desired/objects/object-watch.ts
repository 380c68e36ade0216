import { isLoggedBySessionPool, type KubeError } from "../../../kube/error.ts";
import type { ConfigMap, Secret } from "../../../proto/kubernetes/gen/types.ts";
import { createOutageLog } from "../outage-log.ts";
import {
  labelOf,
  type ObjectSource,
  type ObjectSourceOptions,
  resourceOf,
  toReferencedObject,
  WAIT_FOR_FIRST_READ_MS,
} from "./object-source.ts";

/**
 * Uses one watch per object: the node authorizer lets a node read single objects only, those that its pods refer to.
 */
export function createObjectWatch(options: ObjectSourceOptions): ObjectSource {
  const { kube, clock, log, reference, onObject, onTimeout } = options;
  const { namespace, name } = reference;
  const label = labelOf(reference);
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
    // A watch delivers each change by itself.
    isRecent: () => true,
    refresh() {},
    invalidate() {},
    retryAfterOutage() {},
  };
}
