import type { AwaitedCgroups } from "../../cgroups/awaited-cgroups.ts";
import type { PluginCallRecord } from "../../cni/plugin-calls.ts";
import type { Runtime } from "../../cri/runtime.ts";
import { createEventSource, type EventSource } from "../../host/async/event-source.ts";
import { createIdleTimer } from "../../host/async/idle-timer.ts";
import type { Clock } from "../../host/clock.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { NetworkFiles } from "../../host/fs/network-files.ts";
import type { NetworkMounts } from "../../host/fs/network-mounts.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";
import { toFailure } from "../act/failure-reasons.ts";
import type { CreateCredentialProviders } from "../act/images/credential-providers.ts";
import type { DockerConfigFiles } from "../act/images/docker-config.ts";
import { createProbeMarks } from "../act/probes/probe-marks.ts";
import type { NodeDirs } from "../act/volumes/pod-dirs.ts";
import type { AdmissionNode } from "../decide/admission/admission-node.ts";
import type { ImageVerificationSettings } from "../decide/admission/image-verification.ts";
import type { LogRotationSettings } from "../decide/logs/log-rotation.ts";
import { networkProblemOf } from "../decide/node/node-conditions.ts";
import type { PodSettings } from "../decide/settings.ts";
import type { DesiredPods } from "../desired/pods.ts";
import type { StaticKind } from "../desired/static/static-source.ts";
import { createLoop } from "../loop/loop.ts";
import type { RuntimeStatusReader } from "../observed/node/runtime-status.ts";
import { withRuntimeOutages } from "../observed/pods/runtime-outages.ts";
import { createNodeSummary, type NodeSummary } from "../report/local/node-summary.ts";
import { createPodReports, type PodReports } from "../report/local/pod-reports.ts";
import { type ContainerEnds, createContainerEnds } from "../serve/logs/container-ends.ts";
import type { KubeletMetrics } from "../serve/metrics/kubelet-metrics.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { IdPool } from "../translate/security/user-namespace-ids.ts";
import { createActPort } from "./act-port.ts";
import { createRun } from "./agent-run.ts";
import type { ClusterAccess, ClusterSync, PodEventSource, StatusSavedSource } from "./cluster/cluster.ts";
import type { ClusterObjectsOptions } from "./cluster/cluster-objects.ts";
import { createDesired } from "./desired-pods.ts";
import { createImageVerifier } from "./image-verifier.ts";
import { createLogWriters } from "./log-writers.ts";
import { createLoopRequests } from "./loop-requests.ts";
import { createNetworkAuditTimes } from "./network-audit-times.ts";
import { createPodMetrics, withRelistMetrics } from "./pod-metrics.ts";
import { createObservePort, createPodObservation, createProbes, imageSizeReader } from "./pod-observation.ts";
import { createSyncSubscribers } from "./sync-subscribers.ts";
import type { Traces } from "./traces.ts";

/** The adapters and settings of an agent. */
export interface AgentOptions {
  readonly runtime: Runtime;
  readonly runtimeStatus: RuntimeStatusReader;
  readonly clock: Clock;
  readonly log: Log;
  readonly disk: NodeDirs;
  readonly mounts: Mounts;
  readonly networkMounts: NetworkMounts;
  readonly networkFiles: NetworkFiles;
  /** Undefined where pods have no cgroups of their own (`cgroupsPerQOS: false`). */
  readonly cgroups: AwaitedCgroups | undefined;
  readonly facts: () => NodeFacts;
  /** The user ids of the node that pods with a user namespace get. */
  readonly idPool: IdPool;
  /** Without what comes from the runtime. */
  readonly settings: () => Omit<PodSettings, "runtimeName" | "networkProblem">;
  /**
   * The node as admission sees it, for the current Node object: undefined if there is none, `unknown` before the first
   * read.
   */
  readonly admissionNode: (node: Node | undefined | "unknown") => AdmissionNode;
  readonly sources: readonly PodSource[];
  /** The node's cluster; undefined on a standalone node. */
  readonly clusterAccess?: ClusterAccess;
  /**
   * No source is configured: the pods of the last agent's sources terminate; a pod without a checkpoint stays `unknown`
   * and is left alone.
   */
  readonly hasNoSource: boolean;
  readonly pulls: { readonly parallel: number | undefined; readonly qps: number; readonly burst: number };
  /** The node's files with registry credentials. */
  readonly dockerConfigs: DockerConfigFiles;
  /**
   * Creates the credential provider plugins, given access to service account tokens; undefined if none are configured.
   */
  readonly createCredentialProviders: CreateCredentialProviders | undefined;
  /**
   * Which present images need credentials to be used (KEP-2535); undefined if the feature is off and no records are
   * kept.
   */
  readonly imageVerification: ImageVerificationSettings | undefined;
  /** Undefined where logs are not rotated. */
  readonly logRotation: LogRotationSettings | undefined;
  readonly startSlots: number;
  /** `--early-probes`: whether early tries are repeated until the first success. If false there is one early try, as with the kubelet. */
  readonly earlyProbes: boolean;
  /** `--keep-referenced-objects`: keeps on the disk what pods refer to, for a boot without the API server. */
  readonly keepsReferencedObjects: boolean;
  readonly changeDetection: ClusterObjectsOptions["changeDetection"];
  /** Where the agent records its work. */
  readonly metrics: KubeletMetrics;
  /** Traces the starts of pods; undefined if that is not configured. */
  readonly traces?: Traces | undefined;
  /** Called some seconds after the last action, session or burst of requests: a good time to release memory. */
  readonly onIdle: () => void;
}

const IDLE_AFTER_MS = 5_000;

/**
 * One source of static pods. `follow` keeps its pods up to date in `desired` until the signal aborts, and never
 * rejects.
 */
export interface PodSource {
  readonly kind: StaticKind;
  readonly follow: (desired: DesiredPods, signal: AbortSignal) => Promise<void>;
}

/** All components of a node agent, connected by the sync loop. */
export interface Agent {
  readonly desired: DesiredPods;
  readonly podReports: PodReports;
  readonly nodeSummary: NodeSummary;
  readonly clusterSync: ClusterSync | undefined;
  /** The ends of containers, for the clients that follow their logs. */
  readonly containerEnds: Pick<ContainerEnds, "waitFor">;
  /** Every source has listed its pods. */
  readonly sourcesReady: Pick<EventSource, "subscribe">;
  /** The runtime was listed: at the start, and after each outage. */
  readonly runtimeListed: Pick<EventSource, "subscribe">;
  /** The runtime was listed, at the start or after an outage, and the starts that followed are over, or a minute has passed. */
  readonly networkAuditDue: Pick<EventSource, "subscribe">;
  /**
   * Restores the checkpoints, then calls `onRestored` and follows the sources and the runtime until the signal aborts.
   * Resolves when the loop has ended. Rejects with `FilesError` if the checkpoints cannot be read.
   */
  run(signal: AbortSignal, onRestored?: () => void): Promise<void>;
  /** Syncs every pod, because something that affects all of them has changed. */
  wakeAll(): void;
  /** Images were added or removed by other means than a pod's pull: each is inspected again when a pod needs it. */
  invalidateImages(): void;
  /** Returns unused memory to the kernel once the agent is idle: for work besides the syncs that takes memory. */
  releaseMemorySoon(): void;
  /** Adds the call of a network plugin, which has just ended, to the trace of the pod's start. */
  onPluginCallFinished(uid: PodUid, call: PluginCallRecord): void;
  /** Sets the gauges of the metrics that are about pods, for a page that is asked for. */
  setPodGauges(): void;
  /** How long the longest sync of a pod has been running, or the most overdue one has been due; milliseconds. */
  longestSyncDelayMs(): number;
  /** Resolves when no sync, no call and no write is under way. */
  settled(): Promise<void>;
}

/** Builds the components in the order of their dependencies. The loop, which all of them wake, comes last. */
export function createAgent(options: AgentOptions): Agent {
  const { runtimeStatus, clock, log, disk, clusterAccess, traces } = options;
  const loopRequests = createLoopRequests();
  const runtimeListed = createEventSource();
  const { networkAuditDue, ...networkAudits } = createNetworkAuditTimes({ clock, runtimeListed });
  const idleTimer = createIdleTimer(clock, IDLE_AFTER_MS, inOrder(options.onIdle, networkAudits.onIdle));
  const nodeSummary = createNodeSummary(clock);
  // Also a change without any action may have taken memory: a thousand manifests that are refused.
  nodeSummary.subscribe(idleTimer.touch);
  const podEvents: PodEventSource = createEventSource();
  const podReports = createPodReports({ log, clock, recordEvent: podEvents.emit });
  const { images, podCache, usage } = createPodObservation(options, loopRequests.wake);
  const recordedCache = withRelistMetrics(podCache, options);
  const podsInRuntime = withRuntimeOutages(recordedCache, runtimeStatus, nodeSummary.onRuntimeAway);
  const { onProbeFailed } = podReports;
  const probes = createProbes(options, loopRequests.wake, { recordEvent: podEvents.emit, onProbeFailed });
  const desiredDeps = { loopRequests, podCache, nodeSummary, podEvents };
  const { desired, sourcesReady, duplicateNames } = createDesired(options, desiredDeps);

  function wakeAll(): void {
    loopRequests.retryAfterOutage();
    for (const { uid } of desired.all()) loopRequests.wake(uid);
    podCache.wakeAll();
  }

  sourcesReady.subscribe(wakeAll);
  const imageSizeBytes = imageSizeReader(images);
  const statusSaved: StatusSavedSource = createEventSource();
  if (traces !== undefined) statusSaved.subscribe(traces.onStatusSaved);
  const clusterSync = clusterAccess?.createSync({
    ...{ desired, podEvents, sourcesReady, duplicateNames },
    imageSizeBytes,
    onStatusSaved: statusSaved.emit,
    isImageAccessVerified: options.imageVerification !== undefined,
    objectDeps: { ...options, ...loopRequests, root: disk.root, wakeAll },
  });
  const clusterDeps = { serviceAccounts: clusterAccess?.serviceAccounts, objects: clusterSync?.objects };
  const imageVerifier = createImageVerifier(options, clusterDeps, loopRequests.wake);
  const writers = { ...createLogWriters(options), probeMarks: createProbeMarks(disk.root, log), imageVerifier };
  const containerEnds = createContainerEnds();
  const subscriberDeps = { desired, podCache, probes, containerEnds, ...writers, podReports, clusterSync, idleTimer };
  const { settings, facts } = withRuntimeAndCluster(options, clusterSync);
  const podMetrics = createPodMetrics(options, { facts, imageSizeBytes, desired, statusSaved });
  const loop = createLoop({
    clock,
    settings,
    startSlots: options.startSlots,
    ports: {
      desired: desired.get,
      observe: createObservePort({ usage, podCache, imageVerifier, probes }),
      toFailure,
      act: createActPort({ ...options, facts }, { podCache, images, clusterSync, podEvents, ...imageVerifier }),
      subscribers: createSyncSubscribers({ ...subscriberDeps, networkAudits, podMetrics, traces, log }),
    },
  });
  loopRequests.connect(loop);
  const runDeps = { ...subscriberDeps, loop, images, podsInRuntime, nodeSummary, runtimeListed, wakeAll };
  const run = createRun(options, { ...runDeps, networkAudits });
  async function settled(): Promise<void> {
    await loop.settled();
    await Promise.all(Object.values(writers).map((each) => each.settled()));
  }

  return {
    ...{ desired, podReports, nodeSummary, clusterSync, containerEnds, sourcesReady },
    ...{ run, wakeAll, settled, runtimeListed, networkAuditDue },
    ...{ longestSyncDelayMs: loop.longestDelayMs, invalidateImages: images.invalidate },
    releaseMemorySoon: idleTimer.touch,
    onPluginCallFinished: (uid, call) => traces?.onPluginCallFinished(uid, call),
    setPodGauges: podMetrics.setGauges,
  };
}

const inOrder =
  (...callbacks: readonly (() => void)[]) =>
  () => {
    for (const callback of callbacks) callback();
  };

/**
 * The settings and the node facts together with what the runtime has reported and with the cluster's objects. A
 * standalone node has none of the latter.
 */
function withRuntimeAndCluster(options: AgentOptions, clusterSync: ClusterSync | undefined) {
  const { runtimeStatus } = options;
  const classes = () => clusterSync?.objects.facts().runtimeHandlers ?? new Map<string, string>();
  return {
    settings: () => ({
      ...options.settings(),
      ...recursiveReadOnlyClasses(runtimeStatus, classes),
      networkProblem: networkProblemOf(runtimeStatus.now()),
      ...(clusterSync && { cluster: clusterSync.objects.settings() }),
      runtimeName: runtimeStatus.name(),
    }),
    facts: () => ({
      ...options.facts(),
      ...handlerFacts(runtimeStatus),
      ...recursiveReadOnlyClasses(runtimeStatus, classes),
      ...(clusterSync && { cluster: clusterSync.objects.facts() }),
    }),
  };
}

/** Which runtime handlers support user namespaces, once the runtime has reported it. */
function handlerFacts({ features }: RuntimeStatusReader): Pick<NodeFacts, "handlersWithUsers"> {
  const handlers = features()?.handlers;
  return handlers === undefined
    ? {}
    : { handlersWithUsers: new Map(handlers.map(({ name, userNamespaces }) => [name, userNamespaces])) };
}

/** Which RuntimeClasses have a handler that supports recursive read-only mounts, once the runtime has reported it. */
function recursiveReadOnlyClasses(
  { features }: RuntimeStatusReader,
  classes: () => ReadonlyMap<string, string>,
): Pick<NodeFacts, "recursiveReadOnlyClasses"> {
  const handlers = (features()?.handlers ?? []).filter(({ recursiveReadOnlyMounts }) => recursiveReadOnlyMounts);
  if (handlers.length === 0) return {};
  const names = new Set(handlers.map(({ name }) => name));
  const supported = [["", ""] as const, ...classes()].filter(([, handler]) => names.has(handler));
  return { recursiveReadOnlyClasses: new Set(supported.map(([name]) => name)) };
}
