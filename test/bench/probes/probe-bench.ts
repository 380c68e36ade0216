import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import {
  measureProbing,
  measureReadiness,
  type ProbeEffort,
  type ProbingCost,
  type ReadinessChanges,
} from "./probe-rounds.ts";
import { measureProbedPods, type ProbedPodRounds } from "./probed-pod-rounds.ts";
import { type Flood, measureFlood } from "./status-flood.ts";

export interface ProbeBenchEffort extends ProbeEffort {
  readonly floodMs: number;
  /** The turns of pods with probes and hooks. */
  readonly probedBatches: number;
}

export const thoroughProbeEffort: ProbeBenchEffort = {
  periods: 7,
  periodMs: 30_000,
  changes: 200,
  floodMs: 30_000,
  probedBatches: 10,
};

/** The fewest repetitions that decide anything. */
export const publishedProbeEffort: ProbeBenchEffort = {
  periods: 5,
  // The period of exec probes: each container has one in it.
  periodMs: 10_000,
  changes: 60,
  floodMs: 20_000,
  probedBatches: 5,
};

/** Shows that everything runs; decides nothing. */
export const quickProbeEffort: ProbeBenchEffort = {
  periods: 1,
  periodMs: 10_000,
  changes: 4,
  floodMs: 10_000,
  probedBatches: 1,
};

export function describeProbeEffort(effort: ProbeBenchEffort): string {
  const { periods, periodMs, changes, floodMs, probedBatches } = effort;
  const probed = `Probes for ${periodMs / 1000} s after each of ${periods} starts of both agents, minus the cost of as many pods without probes in as many such periods, both at the same time`;
  const others = `${changes} readiness changes, statuses for ${floodMs / 1000} s, pods with probes and hooks ${probedBatches} times, then for ${periods} such periods`;
  return `${probed}; ${others}; otherwise kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. ${podShape}`;
}

export interface ProbeResult {
  readonly probing: PerAgent<ProbingCost>;
  readonly readiness: ReadinessChanges;
  readonly probedPods: PerAgent<ProbedPodRounds>;
  /** With the agent's default request rate limit, and without a limit. */
  readonly floods: { readonly limited: Flood; readonly unlimited: Flood };
}

/** The defaults of `kubeAPIQPS` and `kubeAPIBurst`. */
export const DEFAULT_RATE = { qps: 50, burst: 100 } as const;

/**
 * Measures probes, readiness and status reports of the agent and the reference kubelet as nodes of one cluster. Always
 * cleans up.
 */
export async function benchProbes(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: ProbeBenchEffort },
): Promise<ProbeResult> {
  const { folder, version, effort, interruption } = options;
  const plane = await startPlane(folder);
  const api = connectApi(plane);
  try {
    const shared = { api, watch: await watchApi(api), names: createPodNames(), print: console.log };
    const measured = await withNodes(plane, options, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      const subjects = { ...shared, members };
      const measure = async () => ({
        readiness: await measureReadiness(subjects, effort),
        probing: await measureProbing(subjects, effort),
        probedPods: await measureProbedPods(subjects, effort),
      });
      return await Promise.race([measure(), interruption]);
    });
    const flood = (name: string, rate: typeof DEFAULT_RATE | undefined) => {
      console.log(`${effort.floodMs / 1000} s of status changes, ${rate === undefined ? "unlimited" : "limited"}`);
      return Promise.race([measureFlood(plane, api, name, { rate, lastMs: effort.floodMs }), interruption]);
    };
    const limited = await flood("flooded", DEFAULT_RATE);
    return { ...measured, floods: { limited, unlimited: await flood("unlimited", undefined) } };
  } finally {
    api.close();
    await plane.stop();
  }
}

async function startPlane(folder: string) {
  await mkdir(folder, { recursive: true });
  return await startControlPlane({ stateDir: join(folder, "probes-plane"), print: console.log });
}
