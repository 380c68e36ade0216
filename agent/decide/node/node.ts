import type { PodUid } from "../../../proto/ids.ts";
import type { DesiredPod, TerminationRequest } from "../pod/desired.ts";
import { type NodeObservation, type NodePressure, noPressure } from "./observed-node.ts";
import { decidePressure, emptyPressureMemory, type PressureMemory, type PressureSettings } from "./pressure.ts";

export interface NodeInput {
  readonly pods: readonly DesiredPod[];
  readonly observed: NodeObservation;
  readonly memory: NodeMemory;
  readonly settings: PressureSettings;
  readonly rules: readonly NodeRule[];
  readonly now: number;
}

/**
 * One reason for which the node itself ends pods: an eviction, a preemption, a shutdown. A rule may request the same
 * with every decision: only the first request of a pod counts, and a later one can only shorten its grace period. Like
 * the kubelet, evictions and preemptions spare critical pods (`isCritical`); a shutdown ends them too.
 */
export type NodeRule = (input: NodeRuleInput) => NodeRuleResult;

export interface NodeRuleInput extends Pick<NodeInput, "pods" | "observed" | "now"> {
  readonly pressure: NodePressure;
}

export interface NodeRuleResult {
  readonly terminationRequests: readonly PodTerminationRequest[];
  /** When to decide again if nothing happens before. */
  readonly lookAgainAt?: number;
}

/** The pods that the node itself ends, in the order in which they are to end. */
export interface PodTerminationRequest extends TerminationRequest {
  readonly uid: PodUid;
}

export interface NodeDecision {
  readonly status: NodePressureStatus;
  readonly terminationRequests: readonly PodTerminationRequest[];
  readonly actions: readonly NodeAction[];
  readonly memory: NodeMemory;
  /** When to decide again if nothing happens before; infinity: only then. */
  readonly lookAgainAt: number;
}

/** The pressure of the node, and why. */
export interface NodePressureStatus {
  readonly pressure: NodePressure;
  /** The thresholds that are met, a sentence each. */
  readonly thresholdsMet: readonly string[];
}

/** What the node does besides ending pods. There is no kind yet: removing unused images will be the first. */
export type NodeAction = never;

/** What is remembered between two decisions. If it is lost, a pressure that is over ends at once. */
export interface NodeMemory {
  /** When the signals of the last decision were measured: each measurement counts once. */
  readonly measuredAt: number | undefined;
  readonly status: NodePressureStatus;
  readonly pressure: PressureMemory;
}

export const emptyNodeMemory: NodeMemory = {
  measuredAt: undefined,
  status: { pressure: noPressure, thresholdsMet: [] },
  pressure: emptyPressureMemory,
};

/** The whole policy for the node. Pure: equal arguments give equal decisions. */
export function decideNode(input: NodeInput): NodeDecision {
  const { pods, observed, rules, now } = input;
  const memory = withMeasurement(input);
  const { status } = memory;
  const results = rules.map((rule) => rule({ pods, observed, pressure: status.pressure, now }));
  return {
    status,
    terminationRequests: results.flatMap(({ terminationRequests }) => terminationRequests),
    actions: [],
    memory,
    lookAgainAt: Math.min(...results.map(({ lookAgainAt = Number.POSITIVE_INFINITY }) => lookAgainAt)),
  };
}

/** The memory after the latest measurement of the eviction signals. */
function withMeasurement({ observed: { signals }, memory, settings, now }: NodeInput): NodeMemory {
  if (signals === undefined || signals.at === memory.measuredAt) return memory;
  const { memory: pressureMemory, ...status } = decidePressure(signals.observations, memory.pressure, settings, now);
  return { measuredAt: signals.at, status, pressure: pressureMemory };
}
