import { type Figure, limit, tailRows } from "../figures.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import { cpuPercentOf, perMinute } from "../idle-windows.ts";
import type { Round } from "../measure-rounds.ts";
import { type Measured, medianOf, mostOf, percentile, percentileOf } from "../statistics.ts";
import type { ClusterResult } from "./cluster-bench.ts";
import type { NodeIdle, NodeIdleWindow, PerAgent, SinglePod } from "./cluster-rounds.ts";

/** All figures of the comparison with the reference kubelet, in the order of the requirements. */
export function clusterFigures(result: ClusterResult): readonly Figure[] {
  return [
    ...podFigures(result),
    ...usualFigures(result),
    ...agentFigures(result),
    ...idleFigures("without pods", result.idleEmpty, { cpu: 0.15, pss: 0.75 }),
    ...idleFigures(`with ${BATCH_SIZE} pods`, result.idleFull, { cpu: 0.1, pss: 0.7 }),
    ...startFigures(result),
    ...exitFigures(result),
  ];
}

/**
 * A figure with the kubelet's value of the same run and Berth's. `most` is the goal as a multiple of the kubelet's.
 */
export function pair<T>(
  what: string,
  unit: Figure["unit"],
  samples: PerAgent<T>,
  measure: (samples: T) => Measured,
  most?: number,
): Figure {
  const peer = measure(samples.kubelet);
  const figure = { what, unit, peer, berth: measure(samples.berth) };
  return most === undefined ? figure : { ...figure, goal: { kind: "ratio", to: "kubelet", atMost: most } };
}

const seconds = (ms: number) => ms / 1000;

function podFigures({ singles, batches, floor }: ClusterResult): readonly Figure[] {
  type Single = (typeof singles)["berth"][number];
  const one = (what: string, read: (pod: Single) => number, ofFloor: readonly number[], most: number) => [
    {
      ...pair(`one pod, ${what}`, "ms", singles, (all) => medianOf(all.map(read)), most),
      ...{ floor: medianOf(ofFloor), isSingle: true },
    },
    ...tailRows(`one pod, ${what}, p90`, "ms", {
      floor: ofFloor,
      peer: singles.kubelet.map(read),
      berth: singles.berth.map(read),
    }),
  ];
  const removals = floor.singles.map(({ removal }) => removal.wall);
  // The floor is measured in the same turn, so that a slow phase of the machine affects both.
  const overFloor = (all: (typeof singles)["berth"]) =>
    medianOf(all.map(({ goneMs }, at) => goneMs - (removals[at] ?? Number.NaN)));
  const starts = floor.singles.map(({ start }) => start.wall);
  const gone = batchRows("deleted → gone", batches, ({ gone: round }) => round, {});
  return [
    ...one("created → Ready", ({ readyMs }) => readyMs, starts, 0.9),
    ...withFloor(
      batchRows("created → Ready", batches, ({ ready }) => ready, { wall: 0.65, p50: 0.33 }),
      floor.batches.map(({ start }) => start),
    ),
    ...one("deleted → gone", ({ goneMs }) => goneMs, removals, 0.2),
    {
      ...pair("one pod, deleted → gone, over the floor beside it", "ms", singles, overFloor),
      ...{ isSingle: true, goal: limit(60) },
    },
    ...withFloor(
      gone,
      floor.batches.map(({ removal }) => removal),
    ),
  ];
}

const p50 = ({ each }: Round) => seconds(percentile(each, 0.5));
const wall = (round: Round) => seconds(round.wall);
const eachOf = (rounds: readonly Round[]) => rounds.flatMap(({ each }) => each.map(seconds));

/** The wall time, the median and the 90th percentile of pods at once, in this order. */
function batchRows(
  what: string,
  batches: ClusterResult["batches"],
  read: (batch: ClusterResult["batches"]["berth"][number]) => Round,
  most: { readonly wall?: number; readonly p50?: number },
): readonly Figure[] {
  const rounds = { kubelet: batches.kubelet.map(read), berth: batches.berth.map(read) };
  const atOnce = `${BATCH_SIZE} pods at once, ${what}`;
  return [
    pair(`${atOnce}, wall`, "s", rounds, (all) => medianOf(all.map(wall)), most.wall),
    pair(`${atOnce}, p50`, "s", rounds, (all) => medianOf(all.map(p50)), most.p50),
    ...tailRows(`${atOnce}, p90`, "s", { peer: eachOf(rounds.kubelet), berth: eachOf(rounds.berth) }),
  ];
}

/** Adds the floor's rounds to those rows. */
function withFloor(rows: readonly Figure[], rounds: readonly Round[]): readonly Figure[] {
  const floors = [medianOf(rounds.map(wall)), medianOf(rounds.map(p50)), percentileOf(eachOf(rounds), 0.9)];
  return rows.map((row, at) => ({ ...row, ...(floors[at] !== undefined && { floor: floors[at] }) }));
}

function usualFigures({ usualSingles }: ClusterResult): readonly Figure[] {
  const row = (what: string, read: (pod: SinglePod) => number, most?: number): Figure => ({
    ...pair(`one usual pod, ${what}`, "ms", usualSingles, (all) => medianOf(all.map(read)), most),
    isSingle: true,
  });
  return [row("created → Ready", ({ readyMs }) => readyMs, 0.6), row("deleted → gone", ({ goneMs }) => goneMs)];
}

function agentFigures({ batches }: ClusterResult): readonly Figure[] {
  const cpu = (all: (typeof batches)["berth"]) => medianOf(all.map(({ startCpuMs }) => seconds(startCpuMs)));
  return [pair(`CPU of the agent for ${BATCH_SIZE} starts`, "s", batches, cpu, 0.8)];
}

/** The requests are those of the windows that last longest: a shorter one has fewer, whatever the agent does. */
export function idleFigures(
  when: string,
  idle: PerAgent<NodeIdle>,
  most: { readonly cpu?: number; readonly pss?: number },
): readonly Figure[] {
  const windows = { kubelet: idle.kubelet.ofStarts, berth: idle.berth.ofStarts };
  const row = (rest: string, unit: Figure["unit"], read: (window: NodeIdleWindow) => number, atMost?: number) =>
    pair(what(rest), unit, windows, (all) => medianOf(all.map(read)), atMost);
  const longestMs = Math.max(...windows.berth.map(({ lastedMs }) => lastedMs));
  // A window lasts some milliseconds more or less than it should.
  const longest = (all: readonly NodeIdleWindow[]) => all.filter(({ lastedMs }) => lastedMs > 0.9 * longestMs);
  const longWindows = { kubelet: longest(windows.kubelet), berth: longest(windows.berth) };
  const minutes = longestMs / 60_000;
  const lasted = minutes < 1 ? `${Math.round(minutes * 60)} s` : `${minutes.toFixed(0)} min`;
  const what = (rest: string) => `idle ${when}: ${rest}`;
  const requests = (rest: string, read: (window: NodeIdleWindow) => number, atMost?: number): Figure => ({
    ...pair(what(`${rest} in ${lasted}`), "", longWindows, (all) => mostOf(all.map(read))),
    isCount: true,
    ...(atMost !== undefined && { goal: { kind: "total", atMost } }),
  });
  return [
    row("CPU of the agent, of one core", "%", cpuPercentOf, most.cpu),
    row("PSS", "MB", ({ memory }) => memory.pssBytes / 1e6, most.pss),
    row("anonymous memory", "MB", ({ memory }) => memory.anonymousBytes / 1e6),
    {
      ...pair(what("to disk per minute"), "B", windows, (all) => perMinute(all, ({ diskBytes }) => diskBytes)),
      goal: { kind: "total", atMost: 0 },
    },
    requests("lease renewals", ({ requests: { leaseRenewals } }) => leaseRenewals, Math.ceil(6 * minutes)),
    requests("node status reports", ({ requests: { statusReports } }) => statusReports, Math.ceil(minutes / 5)),
    requests("other requests", ({ requests: { others } }) => others.length, 0),
    requests("watches resumed", ({ requests: { watches } }) => watches),
  ];
}

function startFigures({ starts }: ClusterResult): readonly Figure[] {
  return [{ ...pair("process start → new node Ready", "ms", starts, medianOf), isSingle: true, goal: limit(300) }];
}

function exitFigures({ exits }: ClusterResult): readonly Figure[] {
  return (["1.6", "2.1"] as const).flatMap((version) => {
    const what = `a container's exit → its status, containerd ${version}`;
    const { kubelet: peer, berth } = exits[version];
    return [
      { ...pair(what, "ms", exits[version], medianOf), isSingle: true, goal: limit(20) },
      ...tailRows(`${what}, p90`, "ms", { peer, berth }),
    ];
  });
}
