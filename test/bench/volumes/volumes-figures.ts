import { idleFigures, pair } from "../cluster/cluster-figures.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import { type Figure, limit } from "../figures.ts";
import { medianOf, pairsOf, percentileOf } from "../statistics.ts";
import { OBJECTS, REFERENCES } from "./volume-pods.ts";
import { IDLE_PODS, type PairedStarts, type VolumesResult } from "./volumes-bench.ts";

/** All figures of volumes, in the order of the requirements. */
export function volumesFigures({ starts, reads, changes, idle }: VolumesResult): readonly Figure[] {
  return [
    ...startFigures(starts),
    {
      what: `nothing cached: first of ${REFERENCES} objects requested → last one there`,
      unit: "ms",
      floor: medianOf(reads.map(({ slowestGetMs }) => slowestGetMs)),
      berth: medianOf(reads.map(({ agentMs }) => agentMs)),
      isSingle: true,
      goal: { kind: "ratio", to: "floor", atMost: 1.3 },
    },
    ...changeFigures(changes),
    ...idleFigures(`with ${IDLE_PODS} usual pods`, idle, {}),
  ];
}

/** The kubelet has fewer samples. The row says how many. */
const fewer = (samples: readonly number[]) => ` (kubelet: n = ${samples.length})`;

function startFigures(starts: PerAgent<PairedStarts>): readonly Figure[] {
  const pod = `a pod with a token, ${OBJECTS} ConfigMaps and ${OBJECTS} Secrets, all cached`;
  const few = fewer(starts.kubelet.bare);
  const more = ({ bare, withObjects }: PairedStarts) =>
    medianOf(pairsOf(withObjects, bare, (own, against) => own - against));
  return [
    { ...pair(`a bare pod, created → Ready${few}`, "ms", starts, ({ bare }) => medianOf(bare)), isSingle: true },
    {
      ...pair(`${pod}, created → Ready${few}`, "ms", starts, ({ withObjects }) => medianOf(withObjects)),
      isSingle: true,
    },
    {
      ...pair(`the pod with objects over the bare one beside it${few}`, "ms", starts, more),
      ...{ isSingle: true, goal: limit(10) },
    },
  ];
}

function changeFigures(changes: PerAgent<readonly number[]>): readonly Figure[] {
  const what = "a ConfigMap's change → the container's file";
  const few = fewer(changes.kubelet);
  const most = (all: readonly number[]) => percentileOf(all, 1);
  return [
    // The changes of both agents were made at different times, so they are no pairs.
    { ...pair(`${what}${few}`, "ms", changes, medianOf), ...{ isTail: true, isSingle: true, goal: limit(300) } },
    {
      ...pair(`${what}, max of ${changes.berth.length}${few}`, "ms", changes, most),
      goal: { kind: "total", atMost: 2000 },
    },
  ];
}
