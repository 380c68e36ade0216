import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames } from "../bench-pod.ts";
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
import { measureProbedPods, type ProbedPods } from "./probed-pod-rounds.ts";
import { type Flood, measureFlood } from "./status-flood.ts";

export interface ProbeBenchEffort extends ProbeEffort {
  readonly floodMs: number;
  /** The duration of the idle phase with pods that have probes and hooks. */
  readonly equippedMs: number;
}

export const fullProbeEffort: ProbeBenchEffort = {
  unprobedMs: 60_000,
  probedMs: 120_000,
  changes: 100,
  floodMs: 30_000,
  equippedMs: 60_000,
};

export const quickProbeEffort: ProbeBenchEffort = {
  unprobedMs: 20_000,
  probedMs: 30_000,
  changes: 20,
  floodMs: 20_000,
  equippedMs: 20_000,
};

export function describeProbeEffort(effort: ProbeBenchEffort): string {
  const { unprobedMs, probedMs, changes, floodMs, equippedMs } = effort;
  const asked = `Probes for ${probedMs / 1000} s, minus the cost of as many pods without probes in ${unprobedMs / 1000} s, both at the same time`;
  const others = `${changes} alternating readiness changes, statuses for ${floodMs / 1000} s, pods with probes and hooks once, for ${equippedMs / 1000} s`;
  return `${asked}; ${others}; kubelet ${builtVersion().split("-")[0]} and berth as two nodes of one cluster.`;
}

export interface ProbeResult {
  readonly probing: PerAgent<ProbingCost>;
  readonly readiness: ReadinessChanges;
  readonly equipped: PerAgent<ProbedPods>;
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
        equipped: await measureProbedPods(subjects, effort.equippedMs),
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
