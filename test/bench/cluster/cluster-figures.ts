import type { Figure } from "../figures.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import { type Measured, median, medianOf, percentile, percentileOf } from "../statistics.ts";
import type { ClusterResult } from "./cluster-bench.ts";
import type { NodeIdle, PerAgent } from "./cluster-rounds.ts";

/** All figures of the comparison with the reference kubelet, in the order of the requirements. */
export function clusterFigures(result: ClusterResult): readonly Figure[] {
  return [
    ...podFigures(result),
    ...agentFigures(result),
    ...idleFigures("without pods", result.idleEmpty, { cpu: 0.15, pss: 0.75 }),
    ...idleFigures(`with ${BATCH_SIZE} pods`, result.idleFull, { cpu: 0.1, pss: 0.7 }),
    ...startFigures(result),
    ...exitFigures(result),
  ];
}

/**
 * A figure with the kubelet's value of the same run and Berth's. `most` is the target as a multiple of the kubelet's.
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
  if (most === undefined) return figure;
  return { ...figure, target: { words: `${most.toFixed(2)} × the kubelet's`, atMost: most * peer.value } };
}

const seconds = (ms: number) => ms / 1000;

function podFigures({ singles, batches, floor }: ClusterResult): readonly Figure[] {
  const of = (share: number) => ({
    ready: (all: (typeof singles)["berth"]) =>
      percentileOf(
        all.map(({ readyMs }) => readyMs),
        share,
      ),
    gone: (all: (typeof singles)["berth"]) =>
      percentileOf(
        all.map(({ goneMs }) => goneMs),
        share,
      ),
    start: percentileOf(
      floor.map(({ startMs }) => startMs),
      share,
    ),
    removal: percentileOf(
      floor.map(({ removalMs }) => removalMs),
      share,
    ),
  });
  const [middle, high] = [of(0.5), of(0.99)];
  // The floor is measured in the same round, so that a slow phase of the machine affects both.
  const overFloor = (all: (typeof singles)["berth"]) =>
    percentileOf(
      all.map(({ goneMs }, at) => goneMs - (floor[at]?.removalMs ?? Number.NaN)),
      0.5,
    );
  type Batches = (typeof batches)["berth"];
  const wall = (read: (one: Batches[number]) => { readonly wall: number }) => (all: Batches) =>
    medianOf(all.map((one) => seconds(read(one).wall)));
  const p50 = (read: (one: Batches[number]) => { readonly each: readonly number[] }) => (all: Batches) =>
    medianOf(all.map((one) => seconds(percentile(read(one).each, 0.5))));
  const atOnce = `${BATCH_SIZE} pods at once`;
  return [
    { ...pair("one pod, created → Ready, p50", "ms", singles, middle.ready, 0.9), floor: middle.start },
    { ...pair("one pod, created → Ready, p99", "ms", singles, high.ready, 1), floor: high.start },
    pair(
      `${atOnce}, created → Ready, wall`,
      "s",
      batches,
      wall(({ ready }) => ready),
      0.65,
    ),
    pair(
      `${atOnce}, created → Ready, p50`,
      "s",
      batches,
      p50(({ ready }) => ready),
      0.33,
    ),
    { ...pair("one pod, deleted → gone, p50", "ms", singles, middle.gone, 0.2), floor: middle.removal },
    { ...pair("one pod, deleted → gone, p99", "ms", singles, high.gone), floor: high.removal },
    {
      ...pair("one pod, deleted → gone, over the floor beside it, p50", "ms", singles, overFloor),
      target: { words: "60 ms", atMost: 60 },
    },
    pair(
      `${atOnce}, deleted → gone, wall`,
      "s",
      batches,
      wall(({ gone }) => gone),
    ),
    pair(
      `${atOnce}, deleted → gone, p50`,
      "s",
      batches,
      p50(({ gone }) => gone),
    ),
  ];
}

function agentFigures({ batches }: ClusterResult): readonly Figure[] {
  const cpu = (all: (typeof batches)["berth"]) => medianOf(all.map(({ startCpuMs }) => seconds(startCpuMs)));
  return [pair(`CPU of the agent for ${BATCH_SIZE} starts`, "s", batches, cpu, 0.8)];
}

/**
 * Counts requests over the whole idle time, which the row names, because a status report comes only every five minutes.
 */
function idleFigures(
  when: string,
  idle: PerAgent<NodeIdle>,
  most: { readonly cpu: number; readonly pss: number },
): readonly Figure[] {
  const one = (read: (idle: NodeIdle) => number) => (of: NodeIdle) => medianOf([read(of)]);
  const minutes = idle.berth.lastedMs / 60_000;
  const lasted = minutes < 1 ? `${Math.round(minutes * 60)} s` : `${minutes.toFixed(0)} min`;
  const what = (rest: string) => `idle ${when}: ${rest}`;
  const requests = (rest: string, read: (idle: NodeIdle) => number, atMost?: number): Figure => ({
    ...pair(what(`${rest} in ${lasted}`), "", idle, one(read)),
    ...(atMost !== undefined && { target: { words: `${atMost}`, atMost } }),
  });
  return [
    pair(
      what("CPU of one core"),
      "%",
      idle,
      one(({ cpuMs, lastedMs }) => (100 * cpuMs) / lastedMs),
      most.cpu,
    ),
    pair(
      what("PSS"),
      "MB",
      idle,
      one(({ memory }) => memory.pssBytes / 1e6),
      most.pss,
    ),
    {
      ...pair(
        what("to disk per minute"),
        "B",
        idle,
        one(({ diskBytes }) => diskBytes / minutes),
      ),
      target: { words: "0 B", atMost: 0 },
    },
    requests("lease renewals", ({ requests: { leaseRenewals } }) => leaseRenewals, Math.ceil(6 * minutes)),
    requests("node status reports", ({ requests: { statusReports } }) => statusReports, Math.ceil(minutes / 5)),
    requests("other requests", ({ requests: { others } }) => others.length, 0),
    requests("watches resumed", ({ requests: { watches } }) => watches),
  ];
}

function startFigures({ starts }: ClusterResult): readonly Figure[] {
  const figure = pair("process start → new node Ready", "ms", starts, (all) => medianOf(all));
  return [{ ...figure, target: { words: "300 ms", atMost: 300 } }];
}

function exitFigures({ exits }: ClusterResult): readonly Figure[] {
  return (["1.6", "2.1"] as const).flatMap((version) => {
    const what = (which: string) => `a container's exit → its status, ${which}, containerd ${version}`;
    const most = (samples: readonly number[]) => percentileOf(samples, 1);
    const middle = (samples: readonly number[]) => ({ ...medianOf(samples), value: median(samples) });
    return [
      { ...pair(what("p50"), "ms", exits[version], middle), target: { words: "20 ms", atMost: 20 } },
      { ...pair(what("max"), "ms", exits[version], most), target: { words: "60 ms", atMost: 60 } },
    ];
  });
}
