import { createEventSource } from "../../host/async/event-source.ts";
import type { NodeRule } from "../decide/node/node.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";
import type { ObservedNode } from "../decide/node/observed-node.ts";
import { type PressureSettings, signalsOf } from "../decide/node/pressure.ts";
import { createNodeLoop, type NodeLoopPorts } from "../loop/node-loop.ts";
import { createNodeObserver, type NodeObserverOptions } from "../observed/node/node-observer.ts";
import type { RuntimeStatusReader } from "../observed/node/runtime-status.ts";

export interface LocalNodeOptions
  extends Omit<NodeObserverOptions, "signals" | "refreshEveryMs" | "onChange" | "onMeasured"> {
  readonly settings: PressureSettings & Pick<NodeSettings, "nodeStatusUpdateFrequencyMs">;
  readonly rules: readonly NodeRule[];
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
  /** Observes and decides until the signal aborts; never rejects. */
  run(ports: NodeLoopPorts, signal: AbortSignal): Promise<void>;
}

/** A runtime that hangs must not delay the registration of the node. */
const FIRST_OBSERVATION_TIMEOUT_MS = 1_000;

export function createLocalNode(options: LocalNodeOptions): LocalNode {
  const { clock, log, settings, rules, machine } = options;
  const firstDecision = Promise.withResolvers<void>();
  const observations = createEventSource();
  const changes = createEventSource();
  const observer = createNodeObserver({
    ...options,
    signals: signalsOf(settings),
    refreshEveryMs: settings.nodeStatusUpdateFrequencyMs,
    onChange() {
      observations.emit();
      changes.emit();
    },
    onMeasured: () => observations.emit(),
  });
  const onStatusChanged = changes.emit;
  const loop = createNodeLoop({ clock, log, settings, rules, observed: observer.now, onStatusChanged });
  observations.subscribe(loop.wake);

  return {
    runtimeStatus: observer.runtimeStatus,
    observed: () => ({ ...observer.now(), pressure: loop.status().pressure }),
    firstDecision: firstDecision.promise,
    subscribe: changes.subscribe,
    invalidateImages: observer.invalidateImages,
    async run(ports, signal) {
      const { cpuCount, memoryBytes, storageBytes } = machine;
      log.debug({ cpuCount, memoryBytes, storageBytes }, "the node's capacity");
      // If the runtime responds in time, the first status already says Ready.
      await observer.observe(FIRST_OBSERVATION_TIMEOUT_MS);
      const decided = loop.run(ports, signal);
      firstDecision.resolve();
      await Promise.all([observer.run(signal), decided]);
    },
  };
}
