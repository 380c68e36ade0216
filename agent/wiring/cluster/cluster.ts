import type { EventSource } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KeyPairs } from "../../../host/key-pairs.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Node, Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Config } from "../../config/config.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import { duplicateNameEvent, invalidPodEvent } from "../../decide/events/pod-events.ts";
import { pullSecretEvents } from "../../decide/events/pull-secret-events.ts";
import { recordOf } from "../../decide/pod/action.ts";
import type { ActionFinished, ActionStarted } from "../../decide/pod/action-call.ts";
import { fullNameOf, type SourceKind } from "../../decide/pod/desired.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import { mirrorOwnerOf } from "../../decide/sources/mirror.ts";
import { type ApiPodListener, watchApiPods } from "../../desired/api/api-pods.ts";
import { createServiceAccounts, type ServiceAccounts } from "../../desired/credentials/service-accounts.ts";
import type { DesiredPods } from "../../desired/pods.ts";
import type { DecidedStatus } from "../../loop/sync-subscriber.ts";
import { createPodEventRecorder, type PodEventRecorder } from "../../report/events/pod-event-recorder.ts";
import type { EventRecorder } from "../../report/events/recorder.ts";
import { createMirrorPods, createStaticPodChanges, type MirrorPods } from "../../report/pod/mirror.ts";
import type { MirrorNetworkStatus } from "../../report/pod/mirror-network-status.ts";
import { createPodStatusReporter, type PodStatusReporter } from "../../report/pod/status-reporter.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import { type ClusterObjects, type ClusterObjectsOptions, createClusterObjects } from "./cluster-objects.ts";
import { createDnsEvents } from "./dns-events.ts";

export interface ClusterSyncOptions {
  /** Records the events of the node and of its pods. */
  readonly recorder: EventRecorder;
  readonly kube: KubeClient;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly nodeObject: NodeObjectReader;
  readonly keyPairs: KeyPairs;
  readonly certificateGates: Config["certificateGates"];
  /** Called with each mirror pod of this node, as the API server has it, and when it is deleted. */
  readonly onMirror: MirrorNetworkStatus["onMirror"];
}

/** Reads this machine's Node object. */
export interface NodeObjectReader {
  /** The last known object: undefined if there is none, `unknown` before the first read. */
  latest(): Node | undefined | "unknown";
  /**
   * Gets the object from the API server. Returns true if `latest` is up to date now, or if another request would not
   * help; false if the API server does not respond. Never rejects.
   */
  refresh(): Promise<boolean>;
}

/** What the agent uses of its cluster: first what exists without its pods, then what follows them. */
export interface ClusterAccess {
  readonly nodeObject: NodeObjectReader;
  readonly serviceAccounts: ServiceAccounts;
  /** Creates and connects the components that talk to the API server about pods. The agent calls it once. */
  readonly createSync: (deps: ClusterSyncDeps) => ClusterSync;
}

export function createClusterAccess(options: ClusterSyncOptions): ClusterAccess {
  return {
    nodeObject: options.nodeObject,
    serviceAccounts: createServiceAccounts(options),
    createSync: (deps) => createClusterSync(options, deps),
  };
}

/** Events of pods, `namespace/name`, that no action causes: a probe result, a long pull. */
export type PodEventSource = EventSource<[uid: PodUid, pod: string, event: PodEvent]>;

/** All pods of one kind of source that do not start because another pod of that source has their name. */
export type DuplicateNameSource = EventSource<[kind: SourceKind, duplicates: readonly Pod[]]>;

/** A status that the API server has accepted, `waitedMs` after it began to differ; the pod as it answered. */
export type StatusSavedSource = EventSource<[uid: PodUid, pod: Pod, waitedMs: number]>;

/** What the cluster's components need from the others. */
export interface ClusterSyncDeps {
  readonly desired: DesiredPods;
  readonly podEvents: PodEventSource;
  readonly duplicateNames: DuplicateNameSource;
  /** Every source of pods is ready. */
  readonly sourcesReady: EventSource;
  /** The API server has accepted a status. */
  readonly onStatusSaved: StatusSavedSource["emit"];
  /** An image's size by the runtime; undefined if it is unknown. */
  readonly imageSizeBytes: (image: string) => Promise<number | undefined>;
  /** Whether pods need credentials for images that are present already (KEP-2535). */
  readonly isImageAccessVerified: boolean;
  /** What the watches of the objects that pods depend on need. */
  readonly objectDeps: Pick<
    ClusterObjectsOptions,
    "root" | "wakeAll" | "wake" | "onReferenceChanged" | "keepsReferencedObjects" | "changeDetection"
  > & {
    /** The node facts for messages to the runtime; throws `TranslateError` if they cannot be read. */
    readonly facts: () => NodeFacts;
  };
}

/** Syncs this node's pods with the API server: receives the desired pods, and sends status, mirror pods and events. */
export interface ClusterSync {
  /** Runs the watches and the senders until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  report(decided: Omit<DecidedStatus, "uid" | "blockedReason">): void;
  /**
   * Resolves when the final status of a terminating pod is saved, so that its containers may be removed from the node.
   * Never rejects.
   */
  ensureFinalStatusSaved(uid: PodUid): Promise<void>;
  onActionStarted(started: ActionStarted): void;
  onActionFinished(finished: ActionFinished): void;
  /** Records an event of the pod `namespace/name` that no action causes: a probe result, a long pull. */
  recordEvent(uid: PodUid, pod: string, event: PodEvent): void;
  onPodFinished(uid: PodUid): void;
  /** Receives the changed Node object of this machine; undefined if there is none any more. */
  onNodeChanged(node: Node | undefined): void;
  /** The cluster's objects that pods depend on. */
  readonly objects: Pick<ClusterObjects, "settings" | "facts" | "keptReferences">;
  /** Resolves when nothing is being sent. */
  settled(): Promise<void>;
}

function createClusterSync(
  options: ClusterSyncOptions,
  { desired, imageSizeBytes, isImageAccessVerified, objectDeps, ...sources }: ClusterSyncDeps,
): ClusterSync {
  const { recorder } = options;
  const podOf = (uid: PodUid) => {
    const desiredPod = desired.get(uid);
    return desiredPod === "unknown" ? undefined : desiredPod?.pod;
  };
  const events = createPodEventRecorder({ recorder, imageSizeBytes, isImageAccessVerified, podOf });
  const statusReporter = createPodStatusReporter({
    ...options,
    saveFinalStatus: desired.saveFinalStatus,
    onSaved: sources.onStatusSaved,
  });
  const mirrors = createMirrorPods({
    ...options,
    desired: desired.all,
    areSourcesReady: desired.areAllSourcesReady,
    onCreated: statusReporter.onObserved,
  });
  const objects = createClusterObjects({
    ...options,
    ...objectDeps,
    desired,
    recordEvent: events.recordEvent,
  });
  const dns = createDnsEvents({ recorder, nodeName: options.nodeName, podOf, facts: objectDeps.facts });
  const staticPodChanges = createStaticPodChanges();
  sources.podEvents.subscribe(events.recordEvent);
  sources.duplicateNames.subscribe(createDuplicateNameEvents(events));
  sources.sourcesReady.subscribe(mirrors.reconcile);
  const podListener = createPodListener({ ...options, statusReporter, mirrors, events, objects, desired });

  return {
    async run(signal) {
      // The API server may reject what we send while its watches continue.
      options.kube.subscribeToRecovery(podListener.onRecovered, signal);
      await Promise.all([
        watchApiPods({ ...options, applyUpdate: desired.applyApiUpdate, listener: podListener }, signal),
        objects.run(signal),
      ]);
      for (const component of [statusReporter, mirrors, recorder]) component.stop();
    },
    ensureFinalStatusSaved: statusReporter.ensureFinalStatusSaved,
    report({ desired: desiredPod, status, stage, outcome, unusableImages }) {
      events.onStatus(desiredPod, status, outcome, unusableImages);
      statusReporter.report(desiredPod, status, stage);
      if (staticPodChanges.hasChanged(desiredPod)) mirrors.reconcile();
      objects.onPodSynced(desiredPod.uid);
    },
    onActionStarted(started) {
      if (recordOf(started.action).uses?.includes("services")) objects.markServicesUsed();
      for (const event of pullSecretEvents(started, podOf(started.uid), objects.facts().referencedObjects))
        events.recordEvent(started.uid, started.pod, event);
      events.onActionStarted(started, dns(started));
    },
    onActionFinished: events.onActionFinished,
    recordEvent: events.recordEvent,
    onPodFinished(uid) {
      events.onPodRemoved(uid);
      recorder.forget(uid);
      statusReporter.onPodRemoved(uid);
      staticPodChanges.forget(uid);
      mirrors.reconcile();
    },
    onNodeChanged(node) {
      mirrors.setNodeUid(mirrorOwnerOf(node));
      objects.onNodeChanged(node);
      desired.admitPending();
    },
    objects,
    async settled() {
      await Promise.all([statusReporter.settled(), mirrors.settled(), recorder.settled(), objects.settled()]);
    },
  };
}

interface PodListenerDeps {
  readonly statusReporter: PodStatusReporter;
  readonly mirrors: MirrorPods;
  readonly recorder: EventRecorder;
  readonly events: Pick<PodEventRecorder, "recordEvent">;
  readonly objects: Pick<ClusterObjects, "onApiSynced">;
  readonly desired: Pick<DesiredPods, "admitPending">;
  readonly onMirror: MirrorNetworkStatus["onMirror"];
}

/** Passes the pods as the API server has them to every component that needs them. */
function createPodListener({
  statusReporter,
  mirrors,
  recorder,
  events,
  objects,
  desired,
  onMirror,
}: PodListenerDeps): ApiPodListener {
  return {
    onObserved(pod, snapshot) {
      statusReporter.onObserved(pod, snapshot);
      mirrors.onObserved(pod, snapshot);
      if (mirroredUid(pod) !== undefined) onMirror(pod, "observed");
    },
    onDeleted(pod) {
      statusReporter.onDeleted(pod);
      mirrors.onDeleted(pod);
      if (mirroredUid(pod) !== undefined) onMirror(pod, "deleted");
    },
    onUnreadable({ metadata: { uid, namespace, name } }, problem) {
      events.recordEvent(uid as PodUid, `${namespace}/${name}`, invalidPodEvent(problem));
    },
    onListed() {
      objects.onApiSynced();
      mirrors.onListed();
    },
    onRecovered() {
      statusReporter.onRecovered();
      mirrors.onRecovered();
      recorder.onRecovered();
      desired.admitPending();
    },
  };
}

/** Records one event for each pod with a duplicate name, once for as long as the duplicate exists. */
function createDuplicateNameEvents({
  recordEvent,
}: Pick<PodEventRecorder, "recordEvent">): DuplicateNameSource["emit"] {
  const reported = new Map<SourceKind, ReadonlySet<string | undefined>>();
  return (kind, duplicates) => {
    const before = reported.get(kind);
    reported.set(kind, new Set(duplicates.map(({ metadata }) => metadata.uid)));
    for (const pod of duplicates)
      if (before?.has(pod.metadata.uid) !== true)
        recordEvent(pod.metadata.uid as PodUid, fullNameOf(pod), duplicateNameEvent(pod, kind));
  };
}
