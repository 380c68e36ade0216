import { parseQuantity, toNumber } from "../../../proto/kubernetes/quantity.ts";
import { thresholdAmount } from "./eviction-thresholds.ts";
import type { NodeSettings } from "./node-settings.ts";
import { noPressure, type Pressure, type Supplies, type Supply } from "./observed-node.ts";

export type PressureSettings = Pick<
  NodeSettings,
  | "evictionHard"
  | "evictionSoft"
  | "evictionSoftGracePeriodMs"
  | "evictionMinimumReclaim"
  | "evictionPressureTransitionPeriodMs"
>;

/** What is kept between two measurements. Lost, a pressure that is over ends at once, as with the kubelet. */
export interface PressureMemory {
  /** Since when there has been too little, by threshold. */
  readonly shortSince: ReadonlyMap<string, number>;
  /** When each pressure was last felt. */
  readonly feltAt: ReadonlyMap<keyof Pressure, number>;
}

export const emptyPressureMemory: PressureMemory = { shortSince: new Map(), feltAt: new Map() };

export interface PressureDecision {
  readonly pressure: Pressure;
  /** What there is too little of now, a sentence each. */
  readonly shortages: readonly string[];
  readonly memory: PressureMemory;
}

interface Threshold {
  readonly signal: string;
  readonly value: string;
  readonly kind: "hard" | "soft";
  readonly graceMs: number;
}

const pressureOf: ReadonlyMap<string, keyof Pressure> = new Map([
  ["memory.available", "memory"],
  ["nodefs.available", "disk"],
  ["nodefs.inodesFree", "disk"],
  ["imagefs.available", "disk"],
  ["imagefs.inodesFree", "disk"],
  ["pid.available", "pid"],
]);

/** The signals that somebody has set a threshold for: nothing else has to be measured. */
export function signalsOf({ evictionHard, evictionSoft }: PressureSettings): ReadonlySet<string> {
  return new Set(
    thresholdsOf({ evictionHard, evictionSoft, evictionSoftGracePeriodMs: {} }).map(({ signal }) => signal),
  );
}

/**
 * Of what the node has too little. The rules are the kubelet's:
 *
 * - below a threshold there is pressure at once, also where the threshold is a soft one, whose grace only delays evictions;
 * - where evictions are due, the pressure lasts until as much more than the threshold is there as `evictionMinimumReclaim` says;
 * - a pressure is told until it was not felt for `evictionPressureTransitionPeriod`, so that it does not come and go.
 *
 * What could not be measured puts no pressure on anything. A clock that is set back makes no wait longer than it was meant to be.
 */
export function decidePressure(
  supplies: Supplies,
  memory: PressureMemory,
  settings: PressureSettings,
  now: number,
): PressureDecision {
  const shortSince = new Map<string, number>();
  const feltAt = new Map([...memory.feltAt].map(([pressure, at]) => [pressure, Math.min(at, now)]));
  const shortages: string[] = [];
  for (const threshold of thresholdsOf(settings)) {
    const { signal, kind, graceMs } = threshold;
    const [pressure, supply] = [pressureOf.get(signal), supplies[signal]];
    if (pressure === undefined || supply === undefined) continue;
    const key = `${kind} ${signal}`;
    const before = memory.shortSince.get(key);
    const since = before === undefined ? now : Math.min(before, now);
    const isDue = before !== undefined && now - since >= graceMs;
    if (!isShort(threshold, supply, isDue ? settings.evictionMinimumReclaim[signal] : undefined)) continue;
    shortSince.set(key, since);
    feltAt.set(pressure, now);
    shortages.push(shortage(threshold, supply));
  }
  const lastsMs = settings.evictionPressureTransitionPeriodMs;
  const felt = [...feltAt].filter(([, at]) => at === now || now - at < lastsMs);
  const pressure = { ...noPressure, ...Object.fromEntries(felt.map(([name]) => [name, true])) };
  return { pressure, shortages, memory: { shortSince, feltAt: new Map(felt) } };
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

function isShort({ value }: Threshold, { available, capacity }: Supply, reclaim: string | undefined): boolean {
  const whole = parseQuantity(capacity);
  return available < toNumber(thresholdAmount(value, whole)) + toNumber(thresholdAmount(reclaim, whole));
}

function shortage({ signal, value, kind }: Threshold, { available, capacity }: Supply): string {
  return `${signal} is ${available} of ${capacity}, its ${kind} threshold ${value}`;
}
