import { createAutoResetEvent } from "../../host/async/auto-reset-event.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import {
  decideNode,
  emptyNodeMemory,
  type NodeDecisionSettings,
  type NodePressureStatus,
  type NodeRule,
} from "../decide/node/node.ts";
import {
  describeNodeAction,
  type NodeAction,
  recordNodeActionEnded,
  recordNodeActionStarted,
} from "../decide/node/node-action.ts";
import type { NodeObservation, NodePressure } from "../decide/node/observed-node.ts";
import type { DesiredPod, TerminationRequest } from "../decide/pod/desired.ts";

export interface NodeLoopOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly settings: NodeDecisionSettings;
  readonly rules: readonly NodeRule[];
  /** The node as it was observed last. */
  readonly observed: () => NodeObservation;
  /** The decided status has changed. */
  readonly onStatusChanged: () => void;
}

/** What the node's loop needs from the other components. */
export interface NodeLoopPorts {
  readonly desired: NodeLoopPods;
  /** Performs one action: one outside call. The signal aborts it. */
  readonly act: (action: NodeAction, signal: AbortSignal) => Promise<void>;
  /** Records an event of the Node object; without a cluster there is none. */
  readonly recordEvent: (event: PodEvent) => void;
}

/** The desired pods, as far as the node's loop needs them. */
export interface NodeLoopPods {
  readonly all: () => readonly DesiredPod[];
  readonly areAllSourcesReady: () => boolean;
  /** Calls the listener with each pod that is added, changed or removed. */
  readonly subscribe: (listener: { readonly onPodUpdated: () => void; readonly onPodRemoved: () => void }) => void;
  /** Never rejects. */
  readonly requestTermination: (uid: PodUid, request: TerminationRequest) => Promise<void>;
}

export interface NodeLoop {
  /** The status as decided last. */
  status(): NodePressureStatus;
  /** The node has changed. Several wakes before the next decision become one. */
  wake(): void;
  /**
   * Decides at once, then with each wake, after each change of a pod, after each action, and when a rule is due, until the
   * signal aborts. Resolves when no action is under way; never rejects.
   */
  run(ports: NodeLoopPorts, signal: AbortSignal): Promise<void>;
}

/**
 * The node's own loop: it decides on the latest observation of the node and on all pods, and performs the node's own
 * actions. It never ends a pod itself: its requests go to the desired pods.
 */
export function createNodeLoop({ clock, log, settings, rules, observed, onStatusChanged }: NodeLoopOptions): NodeLoop {
  const wakeUp = createAutoResetEvent(clock);
  let memory = emptyNodeMemory;
  const underWay = new Set<Promise<void>>();

  /** Returns when to decide again. */
  function decide({ desired, act, recordEvent }: NodeLoopPorts, signal: AbortSignal): number {
    const { pressure: before } = memory.status;
    const pods = desired.all();
    const areSourcesReady = desired.areAllSourcesReady();
    const input = { pods, areSourcesReady, observed: observed(), memory, settings, rules, now: clock.now() };
    const { status, terminationRequests, actions, events, memory: after, lookAgainAt } = decideNode(input);
    memory = after;
    if (logPressure(log, before, status)) onStatusChanged();
    // A request takes effect at once; only its checkpoint is written in the background.
    for (const { uid, ...request } of terminationRequests) void desired.requestTermination(uid, request);
    for (const event of events) recordEvent(event);
    for (const action of actions) start(action, act, signal);
    return lookAgainAt;
  }

  function start(action: NodeAction, act: NodeLoopPorts["act"], signal: AbortSignal): void {
    memory = { ...memory, actions: recordNodeActionStarted(memory.actions, action) };
    const done = perform(action, act, signal).finally(() => underWay.delete(done));
    underWay.add(done);
  }

  /** Never rejects: the next decision handles a failure. */
  async function perform(action: NodeAction, act: NodeLoopPorts["act"], signal: AbortSignal): Promise<void> {
    let result: "succeeded" | "failed" = "succeeded";
    try {
      await act(action, signal);
      log.info({}, describeNodeAction(action));
    } catch (error) {
      if (signal.aborted) return;
      result = "failed";
      log.warn({ err: error }, `failed to ${describeNodeAction(action)}`);
    }
    memory = { ...memory, actions: recordNodeActionEnded(memory.actions, action, result, clock.now()) };
    wakeUp.set();
  }

  /** A bug in one decision must not end the loop: the next wake tries again. */
  function decideSafely(ports: NodeLoopPorts, signal: AbortSignal): number {
    try {
      return decide(ports, signal);
    } catch (error) {
      log.error(
        { err: error },
        "a bug: nothing can be decided about the node; its pressure stays, and the next change of the node or of a pod decides again",
      );
      return Number.POSITIVE_INFINITY;
    }
  }

  return {
    status: () => memory.status,
    wake: wakeUp.set,
    async run(ports, signal) {
      ports.desired.subscribe({ onPodUpdated: wakeUp.set, onPodRemoved: wakeUp.set });
      while (!signal.aborted) await wakeUp.wait(decideSafely(ports, signal), signal);
      await Promise.all(underWay);
    },
  };
}

/** Logs a change of the node's pressure; returns whether there is one. */
function logPressure(log: Log, before: NodePressure, { pressure, thresholdsMet }: NodePressureStatus): boolean {
  const [was, active] = [namesOf(before), namesOf(pressure)];
  if (active.join() === was.join()) return false;
  // The conditions do not say which threshold is met, so the log does.
  if (active.some((name) => !was.includes(name)))
    log.warn({ pressure: active }, `the node is under pressure: ${thresholdsMet.join("; ")}`);
  else if (active.length === 0) log.info({ pressure: active }, "the node is no longer under pressure");
  else log.info({ pressure: active }, `the node is still under pressure: ${active.join(", ")}`);
  return true;
}

function namesOf(pressure: NodePressure): readonly string[] {
  return Object.entries(pressure)
    .filter(([, isActive]) => isActive)
    .map(([name]) => name);
}
