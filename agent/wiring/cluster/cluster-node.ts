import { createEventSource } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import { createExec } from "../../../host/exec.ts";
import type { Files } from "../../../host/fs/files.ts";
import { createKeyPairs } from "../../../host/key-pairs.ts";
import type { Log } from "../../../host/log/log.ts";
import { readProcessFigures } from "../../../host/process-figures.ts";
import type { ClusterEndpointSource } from "../../../kube/auth/cluster-endpoint.ts";
import { readInCluster } from "../../../kube/auth/in-cluster.ts";
import { readKubeconfig } from "../../../kube/auth/kubeconfig.ts";
import { createKubeClient, type KubeClient } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { createReviews, type Reviews } from "../../../kube/reviews.ts";
import { createKubeConnection } from "../../../kube/transport/connection.ts";
import type { RequestAttempt } from "../../../kube/transport/request-sender.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { kubeletVersion, kubernetesVersion } from "../../../proto/kubernetes/version.ts";
import type { ClusterConfigSource, Config } from "../../config/config.ts";
import { type NodeEvent, nodeReference } from "../../decide/node/node-report.ts";
import { recordOf } from "../../decide/pod/action.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import { StartError } from "../../preflight/start-error.ts";
import { createEventRecorder } from "../../report/events/recorder.ts";
import type { MirrorNetworkStatus } from "../../report/pod/mirror-network-status.ts";
import type { ClusterStatus } from "../../serve/local/agent-status.ts";
import { createApiRequestRecorder } from "../../serve/metrics/call-recorder.ts";
import type { KubeletMetrics } from "../../serve/metrics/kubelet-metrics.ts";
import { createNodeStartRecorder, type NodeStartTimes } from "../../serve/metrics/node-start-recorder.ts";
import type { LocalNode } from "../local-node.ts";
import { type ClusterAccess, type ClusterSync, createClusterAccess } from "./cluster.ts";
import { clusterStatus, withWatchHealth } from "./cluster-status.ts";
import { createNodeSync, nodeSettingsOf } from "./node-sync.ts";

export interface ClusterNodeOptions {
  readonly config: Config;
  /** Where the cluster's endpoint and credentials are configured. */
  readonly clusterConfigSource: ClusterConfigSource;
  /** Rooted at `/`. */
  readonly hostFiles: Files;
  readonly node: LocalNode;
  readonly addresses: () => readonly string[];
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly metrics: KubeletMetrics;
  /** Something that affects every pod has changed: its network or its addresses. */
  readonly wakeAllPods: () => void;
}

/** This machine as a node of a cluster: its connection, its Node object and its lease. */
export interface ClusterNode {
  /** What the agent uses of the cluster. */
  readonly access: ClusterAccess;
  /** Reads and patches what concerns the network of pods. */
  readonly kube: Pick<KubeClient, "get" | "patch">;
  /** Calls `onMirror` with each mirror pod of this node, when it is created, after each change, and when it is deleted. */
  subscribeMirrors(onMirror: MirrorNetworkStatus["onMirror"]): () => void;
  /** Reviews of the requests to the node's API. */
  readonly reviews: Reviews;
  /** Keeps the Node object and its lease up to date until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Calls `onNode` with the Node object after each change; undefined if there is none. */
  subscribeNode(onNode: (node: Node | undefined) => void): void;
  /** Records an event of the node. */
  recordEvent(event: Omit<NodeEvent, "object">): void;
  /** The node's addresses may have changed. */
  invalidateAddresses(): void;
  /** The node's addresses for pods (`status.hostIPs`), the primary first. */
  hostIPs(): readonly string[];
  /** The client certificate in PEM that the API server was last shown; undefined if none was. */
  clientCertificate(): string | undefined;
  /** The cluster's part of `berth status`. */
  state(): ClusterStatus;
  close(): void;
}

/**
 * Creates the adapters and components that only a node of a cluster needs; a standalone node never loads this file.
 * Throws `StartError` if the kubeconfig or the in-cluster configuration cannot be used. Sends nothing before `run`.
 */
export async function createClusterNode(options: ClusterNodeOptions): Promise<ClusterNode> {
  const { config, node, clock, log, random } = options;
  const endpoint = await readCluster(options);
  const { nodeName } = config;
  const rateLimits = { main: config.kubeAPI, events: config.events };
  const requestOptions = { cluster: endpoint, nodeName, userAgent: userAgent(), rateLimits };
  const recordRequest = createApiRequestRecorder(options.metrics);
  let clientCertificate: string | undefined;
  const onAttempt = (attempt: RequestAttempt) => {
    clientCertificate = attempt.certificate;
    recordRequest(attempt);
  };
  const connection = createKubeConnection({ ...requestOptions, clock, log, random, onAttempt });
  const kube = createKubeClient({ connection, clock, log, random });
  const watchedClient = withWatchHealth(kube, clock);
  const recorder = createEventRecorder({ kube: watchedClient.kube, nodeName, clock, log, random });
  const nodeChanges = createEventSource<[node: Node | undefined]>();
  const mirrorChanges = createEventSource<Parameters<MirrorNetworkStatus["onMirror"]>>();
  const nodeStart = createNodeStartRecorder(options.metrics, clock, nodeStartTimes);
  nodeChanges.subscribe((changed) => isReady(changed) && nodeStart.onReady());
  const nodeSync = createNodeSync({
    ...{ kube, node, clock, log, random },
    settings: nodeSettingsOf(config, kubeletVersion, config.api?.port),
    registerNode: config.node.registerNode,
    onRegistration: (step) => nodeStart[step === "created" ? "onRegistered" : "onRegistering"](),
    addresses: options.addresses,
    record: ({ object, ...event }) => recorder.record(object, event),
    onNodeChanged(changed) {
      if (changed !== "unknown") nodeChanges.emit(changed);
    },
    onHostIPsChanged: options.wakeAllPods,
  });
  const deps = { kube: watchedClient.kube, recorder, nodeObject: nodeSync };
  const access = createClusterAccess({
    ...deps,
    ...{ nodeName, clock, log, random },
    keyPairs: createKeyPairs(),
    certificateGates: config.certificateGates,
    onMirror: mirrorChanges.emit,
  });

  return {
    access: {
      ...access,
      createSync(podDeps) {
        const sync = access.createSync(podDeps);
        nodeChanges.subscribe(sync.onNodeChanged);
        const onActionFinished: ClusterSync["onActionFinished"] = (finished) => {
          if (hasAddedImage(finished)) node.invalidateImages();
          sync.onActionFinished(finished);
        };
        return { ...sync, onActionFinished };
      },
    },
    kube: watchedClient.kube,
    subscribeMirrors: mirrorChanges.subscribe,
    reviews: createReviews(connection),
    run: nodeSync.run,
    subscribeNode: (onNode) => void nodeChanges.subscribe(onNode),
    recordEvent: (event) => recorder.record(nodeReference(config), event),
    invalidateAddresses: nodeSync.invalidateAddresses,
    hostIPs: nodeSync.hostIPs,
    clientCertificate: () => clientCertificate,
    state() {
      const [server, watch] = [endpoint.server(), watchedClient.watch()];
      return clusterStatus({ server, connection: connection.state(), node: nodeSync.state(), watch });
    },
    close: connection.close,
  };
}

async function readCluster({
  clusterConfigSource,
  hostFiles,
  clock,
  log,
}: ClusterNodeOptions): Promise<ClusterEndpointSource> {
  const readerOptions = { files: hostFiles, environment: process.env, clock, log };
  try {
    if (clusterConfigSource.kind === "in-cluster") return readInCluster(readerOptions);
    return await readKubeconfig({ ...readerOptions, path: clusterConfigSource.path, exec: createExec() });
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    throw new StartError(error.message, { cause: error });
  }
}

const isReady = (node: Node | undefined) =>
  node?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");

/** When this machine has booted, and this process has started. */
function nodeStartTimes(): NodeStartTimes {
  const { bootSeconds, startedSeconds } = readProcessFigures();
  return { bootAt: bootSeconds * 1000, agentAt: startedSeconds * 1000 };
}

function hasAddedImage({ action, result }: ActionFinished): boolean {
  return recordOf(action).addsImage === true && typeof result !== "string" && result.ok;
}

/** In the kubelet's format: program/version (platform). */
function userAgent(): string {
  return `berth/${kubernetesVersion} (linux/${process.arch === "x64" ? "amd64" : process.arch})`;
}
