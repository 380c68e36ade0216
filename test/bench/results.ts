import type { ApiResult } from "./api/api-bench.ts";
import { apiFigures } from "./api/api-figures.ts";
import type { ClusterResult } from "./cluster/cluster-bench.ts";
import { clusterFigures } from "./cluster/cluster-figures.ts";
import type { Conditions } from "./conditions.ts";
import { type Figure, floorFigures } from "./figures.ts";
import type { FloorMeasurements } from "./floor/floor-rounds.ts";
import { networkFigures } from "./network/network-figures.ts";
import type { NetworkResult } from "./network/network-rounds.ts";
import type { OwnShareResult } from "./own-share/own-share-bench.ts";
import { drawOwnShares, ownShareFigures } from "./own-share/own-share-figures.ts";
import type { ProbeResult } from "./probes/probe-bench.ts";
import { probeFigures } from "./probes/probe-figures.ts";
import type { StartsResult } from "./starts/starts-bench.ts";
import { startsFigures } from "./starts/starts-figures.ts";
import type { VolumesResult } from "./volumes/volumes-bench.ts";
import { volumesFigures } from "./volumes/volumes-figures.ts";

/** All samples of one table. */
export type Measurements =
  | { readonly part: "floor"; readonly measurements: FloorMeasurements }
  | { readonly part: "kubelet"; readonly measurements: ClusterResult }
  | { readonly part: "own-share"; readonly measurements: OwnShareResult }
  | { readonly part: "probes"; readonly measurements: ProbeResult }
  | { readonly part: "starts"; readonly measurements: StartsResult }
  | { readonly part: "volumes"; readonly measurements: VolumesResult }
  | { readonly part: "api"; readonly measurements: ApiResult }
  | { readonly part: "network"; readonly measurements: NetworkResult };

/** The samples of one run for one table, as they are committed below docs/benchmarks/. */
export type Result = Measurements & { readonly conditions: Conditions };

/** The rows of a table follow from its samples alone. */
export function figuresOf(result: Measurements): readonly Figure[] {
  switch (result.part) {
    case "floor":
      return floorFigures(result.measurements);
    case "kubelet":
      return clusterFigures(result.measurements);
    case "own-share":
      return ownShareFigures(result.measurements);
    case "probes":
      return probeFigures(result.measurements);
    case "starts":
      return startsFigures(result.measurements);
    case "volumes":
      return volumesFigures(result.measurements);
    case "api":
      return apiFigures(result.measurements);
    case "network":
      return networkFigures(result.measurements);
  }
}

/** What a table shows besides its rows. */
export function drawingOf(result: Measurements): string | undefined {
  return result.part === "own-share" ? drawOwnShares(result.measurements) : undefined;
}
