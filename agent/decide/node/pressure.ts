import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { thresholdAmount } from "./eviction-thresholds.ts";
import type { NodeSettings } from "./node-settings.ts";
import { type NodePressure, noPressure, type SignalObservation, type SignalObservations } from "./observed-node.ts";

export type PressureSettings = Pick<
  NodeSettings,
  | "evictionHard"
  | "evictionSoft"
  | "evictionSoftGracePeriodMs"
  | "evictionMinimumReclaim"
  | "evictionPressureTransitionPeriodMs"
>;

/**
 * What is remembered between two observations. If it is lost, a pressure that is over ends at once, as with the
 * kubelet.
 */
export interface PressureMemory {
  /** When each met threshold was first observed. */
  readonly thresholdsFirstObservedAt: ReadonlyMap<string, number>;
  /** When each pressure was last observed. */
  readonly lastObservedAt: ReadonlyMap<keyof NodePressure, number>;
}

export const emptyPressureMemory: PressureMemory = { thresholdsFirstObservedAt: new Map(), lastObservedAt: new Map() };

export interface PressureDecision {
  readonly pressure: NodePressure;
  /** The thresholds that are met now, a sentence each. */
  readonly thresholdsMet: readonly string[];
  readonly memory: PressureMemory;
}

interface Threshold {
  readonly signal: string;
  readonly value: string;
  readonly kind: "hard" | "soft";
  readonly graceMs: number;
}

const pressureOf: ReadonlyMap<string, keyof NodePressure> = new Map([
  ["memory.available", "memory"],
  ["nodefs.available", "disk"],
  ["nodefs.inodesFree", "disk"],
  ["imagefs.available", "disk"],
  ["imagefs.inodesFree", "disk"],
  ["pid.available", "pid"],
]);

/** The signals that have a threshold: only these have to be measured. */
export function signalsOf({ evictionHard, evictionSoft }: PressureSettings): ReadonlySet<string> {
  return new Set(
    thresholdsOf({ evictionHard, evictionSoft, evictionSoftGracePeriodMs: {} }).map(({ signal }) => signal),
  );
}

/**
 * The node's pressures, from its eviction signals. The rules are the kubelet's:
 *
 * - below a threshold there is pressure at once, also for a soft threshold: its grace period only delays evictions;
 * - once evictions are due, the pressure lasts until the signal exceeds the threshold by `evictionMinimumReclaim`;
 * - a pressure is reported until it was not observed for `evictionPressureTransitionPeriod`, so that it does not flap.
 *
 * A signal that could not be measured causes no pressure. A clock that is set back makes no wait longer than
 * configured.
 */
export function decidePressure(
  observations: SignalObservations,
  memory: PressureMemory,
  settings: PressureSettings,
  now: number,
): PressureDecision {
  const thresholdsFirstObservedAt = new Map<string, number>();
  const lastObservedAt = new Map([...memory.lastObservedAt].map(([pressure, at]) => [pressure, Math.min(at, now)]));
  const thresholdsMet: string[] = [];
  for (const threshold of thresholdsOf(settings)) {
    const { signal, kind, graceMs } = threshold;
    const [pressure, observation] = [pressureOf.get(signal), observations[signal]];
    if (pressure === undefined || observation === undefined) continue;
    const key = `${kind} ${signal}`;
    const before = memory.thresholdsFirstObservedAt.get(key);
    const since = before === undefined ? now : Math.min(before, now);
    const isDue = before !== undefined && now - since >= graceMs;
    if (!isThresholdMet(threshold, observation, isDue ? settings.evictionMinimumReclaim[signal] : undefined)) continue;
    thresholdsFirstObservedAt.set(key, since);
    lastObservedAt.set(pressure, now);
    thresholdsMet.push(describeThreshold(threshold, observation));
  }
  const lastsMs = settings.evictionPressureTransitionPeriodMs;
  const active = [...lastObservedAt].filter(([, at]) => at === now || now - at < lastsMs);
  const pressure = { ...noPressure, ...Object.fromEntries(active.map(([name]) => [name, true])) };
  return { pressure, thresholdsMet, memory: { thresholdsFirstObservedAt, lastObservedAt: new Map(active) } };
}

function thresholdsOf({
  evictionHard,
  evictionSoft,
  evictionSoftGracePeriodMs,
}: Pick<PressureSettings, "evictionHard" | "evictionSoft" | "evictionSoftGracePeriodMs">): readonly Threshold[] {
  const hard = Object.entries(evictionHard).map(
    ([signal, value]) => ({ signal, value, kind: "hard", graceMs: 0 }) as const,
  );
  const soft = Object.entries(evictionSoft).map(
    ([signal, value]) => ({ signal, value, kind: "soft", graceMs: evictionSoftGracePeriodMs[signal] ?? 0 }) as const,
  );
  return [...hard, ...soft].filter(({ value }) => value !== "0%" && value !== "100%");
}

function isThresholdMet(
  { value }: Threshold,
  { available, capacity }: SignalObservation,
  reclaim: string | undefined,
): boolean {
  const capacityQuantity = parseQuantity(capacity);
  return (
    available <
    toNumber(thresholdAmount(value, capacityQuantity)) + toNumber(thresholdAmount(reclaim, capacityQuantity))
  );
}

function describeThreshold({ signal, value, kind }: Threshold, { available, capacity }: SignalObservation): string {
  return `${signal} is ${available} of ${capacity}, its ${kind} threshold ${value}`;
}
