import { type CpuMoment, nanoCoresBetween, RATE_MS } from "../../decide/stats/nano-cores.ts";
import type { UsageReading } from "../../decide/stats/readings.ts";

interface KnownRate extends CpuMoment {
  readonly nanoCores: number | undefined;
}

/** The last CPU time of each cgroup or container, from which the next reading gets its rate. */
export interface CpuRates {
  /** Whether the last pass is too long ago to compute rates from. */
  isOutdated(nowMs: number): boolean;
  /** Begins a pass; what it does not read is forgotten at its end, unless a pass that began later has ended before. */
  begin(nowMs: number): CpuRatePass;
}

export interface CpuRatePass {
  /** The reading with its rate, if there is one; `key` identifies the cgroup or container. */
  withRate(key: string, reading: UsageReading): UsageReading;
  end(): void;
}

export function createCpuRates(): CpuRates {
  let known: ReadonlyMap<string, KnownRate> = new Map();
  let lastPassMs = Number.NEGATIVE_INFINITY;
  let started = 0;
  /** The number of the pass that `known` is of. */
  let lastPass = 0;
  return {
    isOutdated: (nowMs) => nowMs - lastPassMs > RATE_MS.max || nowMs < lastPassMs,
    begin(nowMs) {
      const next = new Map<string, KnownRate>();
      const number = ++started;
      return {
        withRate(key, reading) {
          const { cpu, atMs, startedAtMs } = reading;
          if (cpu === undefined) return reading;
          const rate = nextRate(known.get(key), { atMs, usageNs: cpu.usageNs }, startedAtMs);
          next.set(key, rate);
          const nanoCores = rate.nanoCores ?? cpu.nanoCores;
          return nanoCores === undefined ? reading : { ...reading, cpu: { ...cpu, nanoCores } };
        },
        end() {
          if (number < lastPass) return;
          lastPass = number;
          known = next;
          lastPassMs = nowMs;
        },
      };
    },
  };
}

/**
 * Readings of two clients that follow each other within a second have the rate of the earlier one. A cgroup that is new
 * had used nothing when it was made.
 */
function nextRate(known: KnownRate | undefined, current: CpuMoment, startedAtMs: number | undefined): KnownRate {
  const isSooner = known !== undefined && current.atMs >= known.atMs && current.atMs - known.atMs < RATE_MS.min;
  if (isSooner && current.usageNs >= known.usageNs) return known;
  const earlier = known ?? (startedAtMs === undefined ? undefined : { atMs: startedAtMs, usageNs: 0 });
  return { ...current, nanoCores: nanoCoresBetween(earlier, current) };
}
