import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { needsReferencedObjects } from "../../decide/pod/desired.ts";
import type { ClusterSettings } from "../../decide/settings.ts";
import { createRuntimeClasses } from "../../desired/objects/runtime-classes.ts";
import { createReferencedObjectCache } from "../../desired/objects/secrets-and-configmaps.ts";
import { createServices } from "../../desired/objects/services.ts";
import type { DesiredPods } from "../../desired/pods.ts";
import type { ClusterFacts } from "../../translate/node-facts.ts";

export interface ClusterObjectsOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly clock: Clock;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  readonly desired: Pick<DesiredPods, "all" | "subscribe">;
  /** Syncs every pod. */
  readonly wakeAll: () => void;
  /** A Secret or ConfigMap that the pod refers to, with this `referenceKey`, was read or has changed. */
  readonly onReferenceChanged: (uid: PodUid, key: string) => void;
  /** Why the runtime's network is not ready. The caller wakes the pods when that changes. */
  readonly networkProblem: () => string | undefined;
}

/**
 * The cluster's objects that pods depend on: Services, RuntimeClasses, Secrets and ConfigMaps. Which ones are watched
 * follows from the desired pods.
 */
export interface ClusterObjects {
  /** Which objects are read, for decisions. */
  settings(): ClusterSettings;
  /** The objects themselves, for messages to the runtime. */
  facts(): ClusterFacts;
  /** A container is being created with variables of the current Services, which it keeps for life: saves them. */
  markServicesUsed(): void;
  /** The API server has listed this node's pods, so its Services will be read, too. */
  onApiSynced(): void;
  /** Runs the watches until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export function createClusterObjects(options: ClusterObjectsOptions): ClusterObjects {
  const { kube, clock, log, root, desired, wakeAll, onReferenceChanged, networkProblem } = options;
  let isApiSynced = false;
  const services = createServices({
    kube,
    clock,
    log,
    root,
    namespaces: () => new Set(desired.all().map(({ pod }) => pod.metadata.namespace ?? "default")),
    isApiSynced: () => isApiSynced,
    onAvailable: wakeAll,
  });
  const runtimeClasses = createRuntimeClasses({ kube, log, onSynced: wakeAll });
  const referencedObjects = createReferencedObjectCache({ kube, clock, log, onChange: onReferenceChanged });
  desired.subscribe({
    onPodUpdated(desiredPod) {
      const { uid, pod } = desiredPod;
      if (pod.spec.runtimeClassName) runtimeClasses.startWatch();
      if (needsReferencedObjects(desiredPod)) referencedObjects.retain(uid, pod);
      else referencedObjects.release(uid);
    },
    onPodRemoved: referencedObjects.release,
  });
  return {
    settings: () => ({
      areServicesRead: services.canStartPods(),
      areRuntimeClassesRead: runtimeClasses.handlers() !== undefined,
      settledReferences: referencedObjects.settledKeys(),
      networkProblem: networkProblem(),
    }),
    facts: () => ({
      services: services.latest(),
      runtimeHandlers: runtimeClasses.handlers(),
      referencedObjects: referencedObjects.latest(),
    }),
    markServicesUsed: services.markUsed,
    onApiSynced() {
      isApiSynced = true;
    },
    async run(signal) {
      await Promise.all([services.run(signal), runtimeClasses.run(signal), referencedObjects.run(signal)]);
    },
    settled: services.settled,
  };
}
