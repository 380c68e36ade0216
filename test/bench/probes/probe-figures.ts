import { pair } from "../cluster/cluster-figures.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import { type Figure, limit, tailRows } from "../figures.ts";
import { cpuPercentOf, type Periods, type UsageWindow } from "../idle-windows.ts";
import { median, medianOf, pairsOf, percentile } from "../statistics.ts";
import type { ProbeResult } from "./probe-bench.ts";
import { PERIOD_SECONDS, PROBES, type ProbeKind, type ProbingCost } from "./probe-rounds.ts";
import { PROBED_BATCH, type ProbedPodRounds, type ProbedPods } from "./probed-pod-rounds.ts";
import { FLOOD, type Flood } from "./status-flood.ts";

/** All figures of probes, readiness and status reports, in the order of the requirements. */
export function probeFigures({ probing, readiness, probedPods, floods }: ProbeResult): readonly Figure[] {
  return [
    ...costFigures("tcp", "TCP", probing, 0.5),
    ...costFigures("http", "HTTP", probing),
    ...costFigures("exec", "exec", probing),
    ...readinessFigures(readiness),
    ...probedPodFigures(probedPods),
    ...floodFigures("50 requests a second, as by default", floods.limited),
    ...floodFigures("no limit of requests", floods.unlimited),
  ];
}

/** The agent's CPU usage with probes, minus its usage with as many pods without probes after another of its starts. */
function costFigures(kind: ProbeKind, name: string, probing: PerAgent<ProbingCost>, most?: number): readonly Figure[] {
  const perSecond = PROBES / PERIOD_SECONDS[kind];
  const cpuOf = (periods: Periods<UsageWindow>) => periods.ofStarts.map(cpuPercentOf);
  const cost = ({ probed, unprobed }: ProbingCost) =>
    medianOf(pairsOf(cpuOf(probed[kind]), cpuOf(unprobed), (own, without) => own - without));
  const secondsOf = (periods: Periods<UsageWindow>) =>
    periods.ofStarts.reduce((sum, { lastedMs }) => sum + lastedMs, 0) / 1000;
  const counted = (side: ProbingCost) =>
    kind === "exec" ? Number.NaN : side.counted[kind] / secondsOf(side.probed[kind]);
  return [
    pair(`CPU of the agent, of one core, for ${perSecond} ${name} probes a second`, "%", probing, cost, most),
    pair(`CPU of the agent, of one core, with ${PROBES} pods with ${name} probes`, "%", probing, ({ probed }) =>
      medianOf(cpuOf(probed[kind])),
    ),
    ...(kind === "exec"
      ? []
      : [{ ...pair(`${name} probes a second`, "", probing, (side) => medianOf([counted(side)])), isCount: true }]),
  ];
}

function readinessFigures({ agents, floor }: ProbeResult["readiness"]): readonly Figure[] {
  const what = "a probe's answer → readiness in the API";
  return [
    { ...pair(what, "ms", agents, medianOf), floor: medianOf(floor), isSingle: true, goal: limit(20) },
    ...tailRows(`${what}, p90`, "ms", { floor, peer: agents.kubelet, berth: agents.berth }),
  ];
}

/**
 * The goals are those of pods without probes and hooks, except for the CPU while they run, which has the goal of probes.
 */
function probedPodFigures(probedPods: ProbeResult["probedPods"]): readonly Figure[] {
  const row = (rest: string, unit: Figure["unit"], read: (of: ProbedPodRounds) => readonly number[], most?: number) =>
    pair(`${PROBED_BATCH} pods with probes and hooks, ${rest}`, unit, probedPods, (of) => medianOf(read(of)), most);
  const each = (read: (of: ProbedPods) => number) => (all: ProbedPodRounds) => all.rounds.map(read);
  const rest = (read: (of: UsageWindow) => number) => (all: ProbedPodRounds) => all.rest.ofStarts.map(read);
  return [
    row(
      "created → Ready, wall",
      "s",
      each(({ ready }) => ready.wall / 1000),
      0.65,
    ),
    row(
      "created → Ready, p50",
      "s",
      each(({ ready }) => percentile(ready.each, 0.5) / 1000),
      0.33,
    ),
    row(
      "deleted → gone, wall",
      "s",
      each(({ gone }) => gone.wall / 1000),
    ),
    row(
      "CPU of the agent for their starts",
      "s",
      each(({ startCpuMs }) => startCpuMs / 1000),
      0.8,
    ),
    row("CPU of the agent, of one core, while they run", "%", rest(cpuPercentOf), 0.5),
    row(
      "PSS while they run",
      "MB",
      rest(({ memory }) => memory.pssBytes / 1e6),
      0.7,
    ),
    row(
      "anonymous memory while they run",
      "MB",
      rest(({ memory }) => memory.anonymousBytes / 1e6),
    ),
  ];
}

/**
 * The queue may fill up during the first 20 %; from then on it must not grow. There is no verdict: the ages of one run depend on
 * each other, so they have no interval.
 */
function floodFigures(rate: string, { ages, shown, lastedMs }: Flood): readonly Figure[] {
  const part = (from: number, until: number) => ages.slice(from * ages.length, until * ages.length);
  const what = `${FLOOD.perSecond} status changes a second on ${FLOOD.pods} pods, ${rate}`;
  const age = (when: string, all: readonly number[]): Figure => ({
    what: `${what}: age of the oldest unreported one, p50 ${when}`,
    unit: "ms",
    berth: medianOf([median(all)]),
  });
  return [
    age("from 20 % to 60 % of the time", part(0.2, 0.6)),
    age("from 60 % on", part(0.6, 1)),
    { what: `${what}: reported per second`, unit: "", berth: medianOf([(shown * 1000) / lastedMs]) },
  ];
}
