import type { FloorRound } from "../cluster/cluster-rounds.ts";
import { type Figure, limit, tailRows } from "../figures.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import type { Goal } from "../goals.ts";
import type { Round } from "../measure-rounds.ts";
import { medianOf, percentile } from "../statistics.ts";
import type { NetworkResult } from "./network-rounds.ts";

/**
 * All figures of the network of pods. Their `berth` is Berth with the built-in network, their `chain` Berth with the chain that the
 * runtime executes.
 */
export function networkFigures(result: NetworkResult): readonly Figure[] {
  return [...callFigures(result), ...singleFigures(result), ...batchFigures(result), ...removalFigures(result)];
}

const ratio = (to: "kubelet" | "floor" | "chain", atMost: number): Goal => ({ kind: "ratio", to, atMost });
const seconds = (ms: number) => ms / 1000;

function callFigures({ builtinCalls, networkCpuMs, singles }: NetworkResult): readonly Figure[] {
  const { ADD, DEL } = builtinCalls;
  const overChain = singles.delegate.map(({ start }, at) => start.wall - (singles.chain[at]?.start.wall ?? Number.NaN));
  return [
    {
      what: "ADD of the built-in network in the agent",
      unit: "ms",
      berth: medianOf(ADD),
      isSingle: true,
      goal: limit(2),
    },
    {
      what: "DEL of the built-in network in the agent",
      unit: "ms",
      berth: medianOf(DEL),
      isSingle: true,
      goal: limit(3),
    },
    {
      what: "CPU for the network of one sandbox, ADD and DEL",
      unit: "ms",
      chain: medianOf(networkCpuMs.chain),
      berth: medianOf(networkCpuMs.builtin),
      goal: ratio("chain", 0.35),
    },
    {
      what: "one pod, created → Ready: the chain by the agent less the chain by the runtime",
      unit: "ms",
      berth: medianOf(overChain),
      isSingle: true,
      goal: limit(5),
    },
  ];
}

function singleFigures({ singles, floorSingles }: NetworkResult): readonly Figure[] {
  const ready = (rounds: readonly FloorRound[]) => rounds.map(({ start }) => start.wall);
  const gone = (rounds: readonly FloorRound[]) => rounds.map(({ removal }) => removal.wall);
  const row = (what: string, read: typeof ready, goal: Goal): Figure => ({
    ...{ what, unit: "ms", isSingle: true, goal },
    floor: medianOf(read(floorSingles)),
    chain: medianOf(read(singles.chain)),
    peer: medianOf(read(singles.kubelet)),
    berth: medianOf(read(singles.builtin)),
  });
  return [
    row("one pod, created → Ready", ready, ratio("kubelet", 0.8)),
    row("one pod, created → Ready, less than with the chain", ready, { kind: "overChain", atMost: -25 }),
    ...tailRows("one pod, created → Ready, p90", "ms", {
      ...{ floor: ready(floorSingles), peer: ready(singles.kubelet), berth: ready(singles.builtin) },
    }),
    row("one pod, deleted → gone", gone, ratio("kubelet", 0.2)),
    row("one pod, deleted → gone, over the floor", gone, { kind: "overFloor", atMost: 60 }),
  ];
}

function batchFigures({ batches }: NetworkResult): readonly Figure[] {
  type Batch = (typeof batches)["builtin"][number];
  const row = (what: string, read: (batch: Batch) => number, goal?: Goal): Figure => ({
    ...{ what, unit: "s" },
    peer: medianOf(batches.kubelet.map(read)),
    berth: medianOf(batches.builtin.map(read)),
    ...(goal !== undefined && { goal }),
  });
  const atOnce = `${BATCH_SIZE} pods at once`;
  return [
    row(`${atOnce}, created → Ready, wall`, ({ ready }) => seconds(ready.wall), ratio("kubelet", 0.8)),
    row(`${atOnce}, created → Ready, p50`, ({ ready }) => seconds(percentile(ready.each, 0.5)), ratio("kubelet", 0.45)),
    row(`${atOnce}, deleted → gone, p50`, ({ gone }) => seconds(percentile(gone.each, 0.5))),
    row(`CPU of the agent for ${BATCH_SIZE} starts`, ({ startCpuMs }) => seconds(startCpuMs), ratio("kubelet", 0.7)),
  ];
}

function removalFigures({ removals }: NetworkResult): readonly Figure[] {
  const p50 = (rounds: readonly Round[]) => medianOf(rounds.map(({ each }) => seconds(percentile(each, 0.5))));
  return [
    {
      what: `${BATCH_SIZE} pods deleted at once with grace 0, deleted → sandbox removed, p50`,
      unit: "s",
      floor: p50(removals.floor),
      berth: p50(removals.builtin),
      goal: ratio("floor", 1.15),
    },
  ];
}
