import { pair } from "../cluster/cluster-figures.ts";
import type { Figure } from "../figures.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import { medianOf, percentile, percentileOf } from "../statistics.ts";
import type { ProbeResult } from "./probe-bench.ts";
import { type CpuUsage, PROBES, type ProbingCost } from "./probe-rounds.ts";
import type { ProbedPods } from "./probed-pod-rounds.ts";
import { FLOOD, type Flood } from "./status-flood.ts";

/** All figures of probes, readiness and status reports, in the order of the requirements. */
export function probeFigures({ probing, readiness, equipped, floods }: ProbeResult): readonly Figure[] {
  return [
    pair(`CPU of one core for ${PROBES} TCP probes a second`, "%", probing, (of) => medianOf([cpuOfProbes(of)]), 0.5),
    pair(`CPU of one core with ${PROBES} such pods`, "%", probing, ({ asked }) => medianOf([percentOf(asked)])),
    pair("probes a second", "", probing, ({ probes, asked }) => medianOf([(probes * 1000) / asked.lastedMs])),
    ...readinessFigures(readiness),
    ...equippedFigures(equipped),
    ...floodFigures("50 requests a second, as by default", floods.limited),
    // No target here: without a limit the figure depends on the API server's speed, not on the agent's queue.
    ...floodFigures("no limit of requests", floods.unlimited).map(({ target: _, ...figure }) => figure),
  ];
}

/** The agent's CPU usage with probes, minus its usage with as many pods without probes. */
function cpuOfProbes({ asked, unasked }: ProbingCost): number {
  return percentOf(asked) - percentOf(unasked);
}

const percentOf = ({ cpuMs, lastedMs }: CpuUsage) => (100 * cpuMs) / lastedMs;

function readinessFigures({ agents, floor }: ProbeResult["readiness"]): readonly Figure[] {
  const row = (which: string, share: number): Figure => ({
    ...pair(`a probe's answer → readiness in the API, ${which}`, "ms", agents, (all) => percentileOf(all, share)),
    floor: percentileOf(floor, share),
  });
  return [{ ...row("p50", 0.5), target: { words: "20 ms", atMost: 20 } }, row("p99", 0.99)];
}

/**
 * The targets are those of pods without probes and hooks, except for the CPU afterwards, which has the target of
 * probes.
 */
function equippedFigures(equipped: ProbeResult["equipped"]): readonly Figure[] {
  const row = (rest: string, unit: Figure["unit"], read: (of: ProbedPods) => number, most?: number) =>
    pair(`${BATCH_SIZE} pods with probes and hooks, ${rest}`, unit, equipped, (of) => medianOf([read(of)]), most);
  return [
    row("created → Ready, wall", "s", ({ ready }) => ready.wall / 1000, 0.65),
    row("created → Ready, p50", "s", ({ ready }) => percentile(ready.each, 0.5) / 1000, 0.33),
    row("deleted → gone, wall", "s", ({ gone }) => gone.wall / 1000),
    row("CPU of the agent for their starts", "s", ({ startCpuMs }) => startCpuMs / 1000, 0.8),
    row("CPU of one core afterwards", "%", ({ rest }) => percentOf(rest), 0.5),
    row("PSS afterwards", "MB", ({ memory }) => memory.pssBytes / 1e6, 0.7),
  ];
}

/** The queue may fill up during the first 20 %; from then on it must not grow. */
function floodFigures(limit: string, { ages, shown, lastedMs }: Flood): readonly Figure[] {
  const part = (from: number, until: number) => ages.slice(from * ages.length, until * ages.length);
  const [before, after] = [part(0.2, 0.6), part(0.6, 1)];
  const usual = percentile(before, 0.5);
  const what = `${FLOOD.perSecond} status changes a second on ${FLOOD.pods} pods, ${limit}`;
  return [
    {
      what: `${what}: age of the oldest unreported one, p50 of the last 40 %`,
      unit: "ms",
      berth: percentileOf(after, 0.5),
      target: { words: `1.25 × the ${usual.toFixed(0)} ms of the 40 % before`, atMost: 1.25 * usual },
    },
    { what: `${what}: reported per second`, unit: "", berth: medianOf([(shown * 1000) / lastedMs]) },
  ];
}
