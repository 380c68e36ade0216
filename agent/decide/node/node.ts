import type { PodUid } from "../../../proto/ids.ts";
import type { PodEvent } from "../events/pod-event.ts";
import type { DesiredPod, TerminationRequest } from "../pod/desired.ts";
import type { CgroupRuleSettings } from "./cgroup-rule.ts";
import { dueActions, type NodeAction, type NodeActionMemory } from "./node-action.ts";
import { type NodeObservation, type NodePressure, noPressure } from "./observed-node.ts";
import { decidePressure, emptyPressureMemory, type PressureMemory, type PressureSettings } from "./pressure.ts";

export interface NodeInput {
  readonly pods: readonly DesiredPod[];
  /** Every source has listed its pods; until then `pods` may lack some that run. */
  readonly areSourcesReady: boolean;
  readonly observed: NodeObservation;
  readonly memory: NodeMemory;
  readonly settings: NodeDecisionSettings;
  readonly rules: readonly NodeRule[];
  readonly now: number;
}

/** The settings of the decisions about the node; a rule adds those that it reads. */
export type NodeDecisionSettings = PressureSettings & CgroupRuleSettings;

/**
 * One reason for which the node ends pods or acts by itself: an eviction, a preemption, a shutdown, the removal of unused
 * images. A rule may request the same with every decision: of the requests that end a pod only the first counts, and a
 * later one can only shorten its grace period; an action that runs or waits for its retry is not started again. Like the
 * kubelet, evictions and preemptions spare critical pods (`isCritical`); a shutdown ends them too.
 */
export interface NodeRule<Memory = unknown> {
  /** Names the rule in the memory. */
  readonly name: string;
  /** What the rule remembers before its first decision, and after a restart of the agent; missing if it has no memory. */
  readonly emptyMemory?: Memory;
  /** The rule reads `observed.images`. Without a cluster they are listed only for such a rule. */
  readonly needsImages?: true;
  decide(input: NodeRuleInput, memory: Memory): NodeRuleDecision<Memory>;
}

export interface NodeRuleInput extends Pick<NodeInput, "pods" | "areSourcesReady" | "observed" | "settings" | "now"> {
  readonly pressure: NodePressure;
}

export interface NodeRuleDecision<Memory = unknown> {
  readonly terminationRequests?: readonly PodTerminationRequest[];
  readonly actions?: readonly NodeAction[];
  /** Events of the Node object. */
  readonly events?: readonly PodEvent[];
  /** Missing: the memory stays. */
  readonly memory?: Memory;
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
  /** Events of the Node object. */
  readonly events: readonly PodEvent[];
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

/** What is remembered between two decisions. If it is lost, a pressure that is over ends at once. */
export interface NodeMemory {
  /** When the signals of the last decision were measured: each measurement counts once. */
  readonly measuredAt: number | undefined;
  readonly status: NodePressureStatus;
  readonly pressure: PressureMemory;
  /** What each rule remembers, by its name. */
  readonly rules: ReadonlyMap<string, unknown>;
  readonly actions: NodeActionMemory;
}

export const emptyNodeMemory: NodeMemory = {
  measuredAt: undefined,
  status: { pressure: noPressure, thresholdsMet: [] },
  pressure: emptyPressureMemory,
  rules: new Map(),
  actions: new Map(),
};

/** The whole policy for the node. Pure: equal arguments give equal decisions. */
export function decideNode(input: NodeInput): NodeDecision {
  const { rules, now } = input;
  const measured = withMeasurement(input);
  const { status } = measured;
  const ruleInput: NodeRuleInput = { ...input, pressure: status.pressure };
  const decisions = rules.map((rule) => decideRule(rule, ruleInput, measured));
  const due = dueActions(
    decisions.flatMap(({ actions = [] }) => actions),
    measured.actions,
    now,
  );
  return {
    status,
    terminationRequests: decisions.flatMap(({ terminationRequests = [] }) => terminationRequests),
    actions: due.actions,
    events: decisions.flatMap(({ events = [] }) => events),
    memory: { ...measured, rules: new Map(decisions.map(({ name, memory }) => [name, memory])), actions: due.memory },
    lookAgainAt: Math.min(
      due.lookAgainAt,
      ...decisions.map(({ lookAgainAt = Number.POSITIVE_INFINITY }) => lookAgainAt),
    ),
  };
}

function decideRule(rule: NodeRule, input: NodeRuleInput, { rules }: NodeMemory) {
  const before = rules.has(rule.name) ? rules.get(rule.name) : rule.emptyMemory;
  return { memory: before, ...rule.decide(input, before), name: rule.name };
}

/** The memory after the latest measurement of the eviction signals. */
function withMeasurement({ observed: { signals }, memory, settings, now }: NodeInput): NodeMemory {
  if (signals === undefined || signals.at === memory.measuredAt) return memory;
  const { memory: pressureMemory, ...status } = decidePressure(signals.observations, memory.pressure, settings, now);
  return { ...memory, measuredAt: signals.at, status, pressure: pressureMemory };
}
