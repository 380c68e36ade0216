import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type ClusterBenchOptions, onNodes } from "../cluster/cluster-bench.ts";
import type { Both } from "../cluster/cluster-rounds.ts";
import {
  measureProbing,
  measureReadiness,
  type ProbeEffort,
  type Probing,
  type ReadinessChanges,
} from "./probe-rounds.ts";
import { type Equipped, measureEquipped } from "./probed-pod-rounds.ts";
import { type Flood, measureFlood } from "./status-flood.ts";

export interface ProbeBenchEffort extends ProbeEffort {
  readonly floodMs: number;
  /** For how long pods with probes and hooks are left alone. */
  readonly equippedMs: number;
}

export const fullProbeEffort: ProbeBenchEffort = {
  unaskedMs: 60_000,
  askedMs: 120_000,
  turns: 100,
  floodMs: 30_000,
  equippedMs: 60_000,
};

export const quickProbeEffort: ProbeBenchEffort = {
  unaskedMs: 20_000,
  askedMs: 30_000,
  turns: 20,
  floodMs: 20_000,
  equippedMs: 20_000,
};

export function describeProbeEffort(effort: ProbeBenchEffort): string {
  const { unaskedMs, askedMs, turns, floodMs, equippedMs } = effort;
  const asked = `Probes for ${askedMs / 1000} s, less what as many pods without cost in ${unaskedMs / 1000} s, both at the same time`;
  const others = `${turns} changes of readiness in turns, statuses for ${floodMs / 1000} s, pods with probes and hooks once, for ${equippedMs / 1000} s`;
  return `${asked}; ${others}; kubelet ${builtVersion().split("-")[0]} and berth as two nodes of one cluster.`;
}

export interface ProbeResult {
  readonly probing: Both<Probing>;
  readonly readiness: ReadinessChanges;
  readonly equipped: Both<Equipped>;
  /** With the agent's own limit of requests as it is by default, and without one. */
  readonly floods: { readonly limited: Flood; readonly unlimited: Flood };
}

/** `kubeAPIQPS` and `kubeAPIBurst` if nobody sets them. */
export const DEFAULT_RATE = { qps: 50, burst: 100 } as const;

/** Probes and what comes of them, of the agent and the reference kubelet as nodes of one cluster. Cleans up whatever happens. */
export async function benchProbes(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: ProbeBenchEffort },
): Promise<ProbeResult> {
  const { folder, version, effort, interruption } = options;
  const plane = await startPlane(folder);
  const api = connectApi(plane);
  try {
    const shared = { api, watch: await watchApi(api), names: createPodNames(), say: console.log };
    const measured = await onNodes(plane, options, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      const subjects = { ...shared, members };
      const measure = async () => ({
        readiness: await measureReadiness(subjects, effort),
        probing: await measureProbing(subjects, effort),
        equipped: await measureEquipped(subjects, effort.equippedMs),
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
  return await startControlPlane({ stateDir: join(folder, "probes-plane"), say: console.log });
}
