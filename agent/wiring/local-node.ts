import { createEventSource, type EventSource } from "../../host/async/event-source.ts";
import type { Log } from "../../host/log/log.ts";
import type { CgroupDriver } from "../../proto/kubelet/config.ts";
import { type NodeActDeps, type NodeCgroupWriter, performNodeAction } from "../act/performers/node-performers.ts";
import { driverMismatch } from "../decide/node/cgroup-drivers.ts";
import { nodeCgroups as nodeCgroupsOf } from "../decide/node/cgroup-rule.ts";
import type { NodeDecisionSettings, NodeRule } from "../decide/node/node.ts";
import { networkProblemOf } from "../decide/node/node-conditions.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import type { ObservedNode } from "../decide/node/observed-node.ts";
import { signalsOf } from "../decide/node/pressure.ts";
import { createNodeLoop, type NodeLoopPods, type NodeLoopPorts } from "../loop/node-loop.ts";
import { createNodeCgroups, type NodeCgroupsOptions } from "../observed/node/node-cgroups.ts";
import { createNodeObserver, type NodeObserverOptions } from "../observed/node/node-observer.ts";
import type { RuntimeStatusReader } from "../observed/node/runtime-status.ts";
import type { NodeSummary } from "../report/local/node-summary.ts";

export interface LocalNodeOptions
  extends Omit<
    NodeObserverOptions,
    "runtime" | "signals" | "needsImages" | "refreshEveryMs" | "onChange" | "onMeasured"
  > {
  readonly runtime: NodeObserverOptions["runtime"] & NodeActDeps["runtime"];
  /** The Node object contains the images. */
  readonly isInCluster: boolean;
  readonly settings: NodeDecisionSettings & Pick<NodeSettings, "nodeStatusUpdateFrequencyMs">;
  readonly rules: readonly NodeRule[];
  /** The cgroups above those of pods; undefined where the agent makes none. */
  readonly cgroups: NodeCgroupAccess | undefined;
}

/** Reads and writes the cgroups above those of pods. Every method rejects with `CgroupError`. */
export interface NodeCgroupAccess extends NodeCgroupWriter, Pick<NodeCgroupsOptions, "read"> {
  /** Resolves when the driver is known. */
  readonly driver: Promise<CgroupDriver>;
}

/** What the node needs of the agent. */
export interface LocalNodeDeps {
  readonly desired: NodeLoopPods;
  readonly sourcesReady: Pick<EventSource, "subscribe">;
  /** The network of pods is ready, or no longer, or for another reason: pods wait for it. */
  readonly wakeAll: () => void;
  /** The node has removed an image, or may have: the pods inspect theirs again. */
  readonly invalidateImages: () => void;
  readonly nodeSummary: Pick<NodeSummary, "onRuntimeObserved">;
  /** Records an event of the Node object; without a cluster there is none. */
  readonly recordEvent: NodeActDeps["recordEvent"];
}

/** This machine as a node: its observation, and its own loop. It exists without a cluster, too. */
export interface LocalNode {
  readonly runtimeStatus: RuntimeStatusReader;
  /** The node as observed and decided last. */
  observed(): ObservedNode;
  /** Resolves when the node was observed and decided once, or when that took too long. */
  readonly firstDecision: Promise<void>;
  /** Calls back after each change of what `observed` returns. */
  subscribe(changed: () => void): void;
  /** An image was, or may have been, added or removed. */
  invalidateImages(): void;
  /** Observes, decides and acts until the signal aborts; never rejects. */
  run(deps: LocalNodeDeps, signal: AbortSignal): Promise<void>;
}

/** A runtime that hangs must not delay the registration of the node. */
const FIRST_OBSERVATION_TIMEOUT_MS = 1_000;

export function createLocalNode(options: LocalNodeOptions): LocalNode {
  const { runtime, clock, log, settings, rules, machine, isInCluster, cgroups } = options;
  const firstDecision = Promise.withResolvers<void>();
  const observations = createEventSource();
  const changes = createEventSource();
  const observer = createNodeObserver({
    ...options,
    signals: signalsOf(settings),
    needsImages: isInCluster || rules.some(({ needsImages }) => needsImages === true),
    refreshEveryMs: settings.nodeStatusUpdateFrequencyMs,
    onChange() {
      observations.emit();
      changes.emit();
    },
    onMeasured: () => observations.emit(),
  });
  const onStatusChanged = changes.emit;
  const nodeCgroups =
    cgroups &&
    createNodeCgroups({
      cgroups: nodeCgroupsOf(settings),
      read: cgroups.read,
      ...{ clock, log, onChange: observations.emit },
    });
  let ownCgroups: ObservedNode["ownCgroups"] = cgroups === undefined ? "none" : undefined;
  const observed = () => ({ ...observer.now(), ownCgroups, cgroups: nodeCgroups?.now() });
  const loop = createNodeLoop({ clock, log, settings, rules, observed, onStatusChanged });
  observations.subscribe(loop.wake);

  return {
    runtimeStatus: observer.runtimeStatus,
    observed: () => ({ ...observer.now(), ownCgroups, pressure: loop.status().pressure }),
    firstDecision: firstDecision.promise,
    subscribe: changes.subscribe,
    invalidateImages: observer.invalidateImages,
    async run({ desired, sourcesReady, wakeAll, invalidateImages, nodeSummary, recordEvent }, signal) {
      changes.subscribe(() => nodeSummary.onRuntimeObserved(observed()));
      changes.subscribe(createNetworkWatch(() => networkProblemOf(observer.now().runtime), wakeAll));
      changes.subscribe(createMismatchLog(log, observed));
      void cgroups?.driver.then((driver) => {
        ownCgroups = driver;
        changes.emit();
      });
      const { cpuCount, memoryBytes, storageBytes } = machine;
      log.debug({ cpuCount, memoryBytes, storageBytes }, "the node's capacity");
      // If the runtime responds in time, the first status already says Ready.
      await observer.observe(FIRST_OBSERVATION_TIMEOUT_MS);
      const onImagesChanged = () => {
        observer.invalidateImages();
        invalidateImages();
      };
      const onCgroupsChanged = () => nodeCgroups?.invalidate();
      const actDeps = { runtime, onImagesChanged, cgroups, onCgroupsChanged, recordEvent };
      const act: NodeLoopPorts["act"] = (action, signal) => performNodeAction(actDeps, action, signal);
      sourcesReady.subscribe(loop.wake);
      const decided = loop.run({ desired, act, recordEvent }, signal);
      firstDecision.resolve();
      await Promise.all([observer.run(signal), nodeCgroups?.run(signal), decided]);
    },
  };
}

/** Returns a function that calls back if the problem of the network is another one than at its last call. */
function createNetworkWatch(problem: () => string | undefined, onChanged: () => void): () => void {
  let last = problem();
  return () => {
    const now = problem();
    if (now === last) return;
    last = now;
    onChanged();
  };
}

/** Returns a function that logs a mismatch of cgroup drivers, once each. */
function createMismatchLog(log: Log, observed: () => Pick<ObservedNode, "runtime" | "ownCgroups">): () => void {
  let last: string | undefined;
  return () => {
    const message = driverMismatch(observed())?.message;
    if (message !== undefined && message !== last) log.warn({}, message);
    last = message;
  };
}
