import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { isOutage, isServerUnavailable } from "../../../kube/error.ts";
import { nodes } from "../../../kube/resource.ts";
import type { Node, NodeAddress } from "../../../proto/kubernetes/gen/types.ts";
import type { Config } from "../../config/config.ts";
import { hostIPsOf, nodeAddresses } from "../../decide/node/node-addresses.ts";
import { type NodeEvent, nodeReference } from "../../decide/node/node-report.ts";
import type { NodeSettings } from "../../decide/node/node-settings.ts";
import { createNodeObject, type NodeObject } from "../../desired/node-object.ts";
import { createNodeLease, type LeaseState } from "../../report/node/lease.ts";
import {
  createNodeStatusReporter,
  type NodeStatusOptions,
  type NodeStatusState,
} from "../../report/node/node-status.ts";
import type { LocalNode } from "../local-node.ts";
import type { NodeObjectReader } from "./cluster.ts";

export interface NodeSyncOptions {
  readonly node: Pick<LocalNode, "observed" | "firstDecision" | "subscribe" | "invalidateImages">;
  /** The machine's addresses, the primary first. */
  readonly addresses: () => readonly string[];
  readonly kube: Pick<KubeClient, "get" | "create" | "replace" | "patch" | "listAndWatch" | "subscribeToRecovery">;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
  readonly settings: NodeSettings;
  readonly registerNode: boolean;
  readonly record: (event: NodeEvent) => void;
  readonly onRegistration?: NodeStatusOptions["onRegistration"];
  /** The Node object was created, deleted or changed: pods that wait for its labels may be admitted. */
  readonly onNodeChanged: (node: Node | undefined | "unknown") => void;
  /** The result of `hostIPs` has changed, because the addresses in the Node object have. */
  readonly onHostIPsChanged: () => void;
}

export interface NodeState {
  readonly status: NodeStatusState;
  readonly lease: LeaseState;
}

/** Keeps this machine's Node object, its status and its lease up to date. */
export interface NodeSync extends NodeObjectReader {
  /** Runs until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** The node's addresses for pods, the primary first. With an external cloud provider, those of the Node object. */
  hostIPs(): readonly string[];
  state(): NodeState;
  /** The node's addresses may have changed. */
  invalidateAddresses(): void;
}

/** The node's settings from the configuration. `kubeletPort` is undefined if the node API does not listen. */
export function nodeSettingsOf(
  { nodeName, nodeIPs, node }: Pick<Config, "nodeName" | "nodeIPs" | "node">,
  kubeletVersion: string,
  kubeletPort: number | undefined,
): NodeSettings {
  return { ...node, nodeName, nodeIPs, kubeletVersion, kubeletPort };
}

/** Connects the node, its object in the API server, its status reports and its lease. */
export function createNodeSync(options: NodeSyncOptions): NodeSync {
  const { node: localNode, log, settings, record } = options;
  const deadlineMs = Math.min(settings.nodeStatusUpdateFrequencyMs, settings.nodeLeaseDurationSeconds * 1000);

  const { nodeName } = settings;
  const nodeObject = createNodeObject({ ...options, nodeName, onChange: onNodeChanged, onRecovered: retryNow });
  const lease = createNodeLease({ ...options, nodeUid, deadlineMs });
  const statusReporter = createNodeStatusReporter({
    ...options,
    observed: localNode.observed,
    known: nodeObject,
    // Images also change without this agent: list them again after each report.
    onReported: localNode.invalidateImages,
    deadlineMs,
  });
  localNode.subscribe(statusReporter.wake);
  let leaseNodeUid: string | undefined;
  const hostIPs = createPodHostIPs(options, nodeObject);

  function onNodeChanged(): void {
    statusReporter.wake();
    if (nodeUid() !== leaseNodeUid) lease.retryNow();
    leaseNodeUid = nodeUid();
    options.onNodeChanged(nodeObject.latest());
    hostIPs.onNodeChanged();
  }

  function retryNow(): void {
    statusReporter.retryNow();
    lease.retryNow();
  }

  function nodeUid(): string | undefined {
    const node = nodeObject.latest();
    return node === "unknown" ? undefined : node?.metadata.uid;
  }

  return {
    async run(signal) {
      record({ object: nodeReference(settings), type: "Normal", reason: "Starting", message: "Starting kubelet." });
      options.kube.subscribeToRecovery(retryNow, signal);
      await localNode.firstDecision;
      await Promise.all([nodeObject.run(signal), statusReporter.run(signal), lease.run(signal)]);
      log.debug({}, "the agent no longer reports the status of the node nor renews its lease: it is stopping");
    },
    latest: nodeObject.latest,
    refresh: () => refreshNode(options, nodeObject),
    hostIPs: hostIPs.now,
    state: () => ({ status: statusReporter.state(), lease: lease.state() }),
    invalidateAddresses: statusReporter.wake,
  };
}

/** The node's addresses for pods. */
function createPodHostIPs({ settings, addresses, onHostIPsChanged }: NodeSyncOptions, nodeObject: NodeObject) {
  const now = () =>
    settings.isCloudExternal ? hostIPsOf(nodeAddresses(addresses(), cloudAddresses(), settings)) : addresses();
  let before = now().join();

  function cloudAddresses(): readonly NodeAddress[] {
    const node = nodeObject.latest();
    return (node === "unknown" ? undefined : node?.status?.addresses) ?? [];
  }

  return {
    now,
    onNodeChanged() {
      // Changes of this machine's own addresses come from the kernel, not from the Node object.
      if (!settings.isCloudExternal || now().join() === before) return;
      before = now().join();
      onHostIPsChanged();
    },
  };
}

/** An error from a server that responds is only logged for debugging: the watch of the object reports it as well. */
async function refreshNode({ kube, settings, log }: NodeSyncOptions, nodeObject: NodeObject): Promise<boolean> {
  try {
    nodeObject.observed(await kube.get(nodes, settings.nodeName));
  } catch (error) {
    if (isOutage(error) || isServerUnavailable(error)) return false;
    log.debug({ err: error }, "cannot get the Node object");
  }
  return true;
}
