import { idleFigures, pair } from "../cluster/cluster-figures.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import { type Figure, limit } from "../figures.ts";
import { medianOf, mostOf, pairsOf } from "../statistics.ts";
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

function startFigures(starts: PerAgent<PairedStarts>): readonly Figure[] {
  const pod = `a pod with a token, ${OBJECTS} ConfigMaps and ${OBJECTS} Secrets, all cached`;
  const more = ({ bare, withObjects }: PairedStarts) =>
    medianOf(pairsOf(withObjects, bare, (own, against) => own - against));
  return [
    { ...pair(`a bare pod, created → Ready`, "ms", starts, ({ bare }) => medianOf(bare)), isSingle: true },
    {
      ...pair(`${pod}, created → Ready`, "ms", starts, ({ withObjects }) => medianOf(withObjects)),
      isSingle: true,
    },
    {
      ...pair(`the pod with objects over the bare one beside it`, "ms", starts, more),
      ...{ isSingle: true, goal: limit(10) },
    },
  ];
}

function changeFigures(changes: PerAgent<readonly number[]>): readonly Figure[] {
  const what = "a ConfigMap's change → the container's file";
  return [
    // The changes of both agents were made at different times, so they are no pairs.
    { ...pair(what, "ms", changes, medianOf), ...{ isTail: true, isSingle: true, goal: limit(300) } },
    {
      ...pair(`${what}, max of ${changes.berth.length}`, "ms", changes, mostOf),
      ...{ isSingle: true, goal: { kind: "total", atMost: 2000 } },
    },
  ];
}
