import type { ContainerdVersion } from "../bed/containerd/containerd.ts";
import { benchApi, describeApiEffort, publishedApiEffort, quickApiEffort, thoroughApiEffort } from "./api/api-bench.ts";
import { benchCluster } from "./cluster/cluster-bench.ts";
import {
  describeClusterEffort,
  publishedClusterEffort,
  quickClusterEffort,
  thoroughClusterEffort,
} from "./cluster/cluster-rounds.ts";
import { benchFloor } from "./floor/floor-bench.ts";
import {
  describeFloorEffort,
  publishedFloorEffort,
  quickFloorEffort,
  thoroughFloorEffort,
} from "./floor/floor-rounds.ts";
import { benchNetwork, describeNetworkEffort } from "./network/network-bench.ts";
import { publishedNetworkEffort, quickNetworkEffort, thoroughNetworkEffort } from "./network/network-rounds.ts";
import {
  benchOwnShare,
  describeOwnShareEffort,
  publishedOwnShareEffort,
  quickOwnShareEffort,
  thoroughOwnShareEffort,
} from "./own-share/own-share-bench.ts";
import {
  benchProbes,
  describeProbeEffort,
  publishedProbeEffort,
  quickProbeEffort,
  thoroughProbeEffort,
} from "./probes/probe-bench.ts";
import type { Measurements } from "./results.ts";
import {
  benchStarts,
  describeStartsEffort,
  publishedStartsEffort,
  quickStartsEffort,
  thoroughStartsEffort,
} from "./starts/starts-bench.ts";
import type { BenchPart } from "./table.ts";
import {
  benchVolumes,
  describeVolumesEffort,
  publishedVolumesEffort,
  quickVolumesEffort,
  thoroughVolumesEffort,
} from "./volumes/volumes-bench.ts";

const efforts = {
  quick: {
    floor: quickFloorEffort,
    kubelet: quickClusterEffort,
    "own-share": quickOwnShareEffort,
    probes: quickProbeEffort,
    starts: quickStartsEffort,
    volumes: quickVolumesEffort,
    api: quickApiEffort,
    network: quickNetworkEffort,
  },
  published: {
    floor: publishedFloorEffort,
    kubelet: publishedClusterEffort,
    "own-share": publishedOwnShareEffort,
    probes: publishedProbeEffort,
    starts: publishedStartsEffort,
    volumes: publishedVolumesEffort,
    api: publishedApiEffort,
    network: publishedNetworkEffort,
  },
  thorough: {
    floor: thoroughFloorEffort,
    kubelet: thoroughClusterEffort,
    "own-share": thoroughOwnShareEffort,
    probes: thoroughProbeEffort,
    starts: thoroughStartsEffort,
    volumes: thoroughVolumesEffort,
    api: thoroughApiEffort,
    network: thoroughNetworkEffort,
  },
} as const;

/** The number of repetitions. */
export type Effort = keyof typeof efforts;

export const isEffort = (text: string): text is Effort => Object.hasOwn(efforts, text);

interface PartOptions {
  readonly binary: string;
  readonly version: ContainerdVersion;
  readonly folder: string;
  /** Rejects when the benchmark must end early. */
  readonly interruption: Promise<never>;
}

/** Measures everything of one table. `how` is a sentence about the repetitions. */
export async function measurePart(
  part: BenchPart,
  effort: Effort,
  options: PartOptions,
): Promise<Measurements & { readonly how: string }> {
  const of = efforts[effort];
  switch (part) {
    case "floor": {
      const measurements = await benchFloor({ ...options, effort: of.floor });
      return { part, measurements, how: describeFloorEffort(of.floor) };
    }
    case "kubelet": {
      const measurements = await benchCluster({ ...options, effort: of.kubelet });
      return { part, measurements, how: describeClusterEffort(of.kubelet) };
    }
    case "own-share": {
      const measurements = await benchOwnShare({ ...options, effort: of["own-share"] });
      return { part, measurements, how: describeOwnShareEffort(of["own-share"]) };
    }
    case "probes": {
      const measurements = await benchProbes({ ...options, effort: of.probes });
      return { part, measurements, how: describeProbeEffort(of.probes) };
    }
    case "starts": {
      const measurements = await benchStarts({ ...options, effort: of.starts });
      return { part, measurements, how: describeStartsEffort(of.starts) };
    }
    case "volumes": {
      const measurements = await benchVolumes({ ...options, effort: of.volumes });
      return { part, measurements, how: describeVolumesEffort(of.volumes) };
    }
    case "api": {
      const measurements = await benchApi({ ...options, effort: of.api });
      return { part, measurements, how: describeApiEffort(of.api) };
    }
    case "network": {
      const measurements = await benchNetwork({ ...options, effort: of.network });
      return { part, measurements, how: describeNetworkEffort(of.network) };
    }
  }
}
