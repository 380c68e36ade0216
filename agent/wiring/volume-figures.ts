import type { Clock } from "../../host/clock.ts";
import { createVolumeStats, type VolumeStatsOptions } from "../observed/volumes/volume-stats.ts";
import type { VolumeListing } from "../serve/local/volume-list.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import { measurableVolumes } from "../translate/volumes/measurable-volumes.ts";
import type { Agent } from "./agent.ts";

/** Returns a function that measures the volumes of all pods. Nothing is measured before it is called. */
export function createVolumeFigures(
  options: VolumeStatsOptions,
  { podReports, clusterSync }: Pick<Agent, "podReports" | "clusterSync">,
  fixed: Pick<NodeFacts, "rootDir" | "allocatable">,
): () => Promise<VolumeListing> {
  const measure = createVolumeStats(options);
  return async () => {
    const facts = { ...fixed, ...(clusterSync && { cluster: clusterSync.objects.facts() }) };
    const pods = podReports.all().map(({ pod }) => ({ pod, volumes: measurableVolumes(pod, facts) }));
    const stats = (await measure(pods.flatMap(({ volumes }) => volumes))).values();
    return {
      pods: pods.map(({ pod: { metadata }, volumes }) => ({
        namespace: metadata.namespace ?? "",
        name: metadata.name ?? "",
        uid: metadata.uid ?? "",
        volumes: volumes.map(() => stats.next().value).filter((each) => each !== undefined),
      })),
    };
  };
}

/** Figures of volumes, and when they were measured, in milliseconds since the epoch. */
export interface DatedVolumes extends VolumeListing {
  readonly measuredAtMs: number;
}

/**
 * The figures for pages that clients read every few seconds: those of the last `periodMs` are shown again, since to measure
 * them walks through all files. Clients that ask at once share one measurement. With a period of 0 or less there are none.
 * Rejects as `measure` does; the next client has it measure again.
 * Rule: the kubelet's volumeStatsAggPeriod.
 */
export function keepVolumeFigures(
  measure: () => Promise<VolumeListing>,
  periodMs: number,
  clock: Pick<Clock, "now">,
): () => Promise<DatedVolumes> {
  let last: { readonly startedAtMs: number; readonly volumes: Promise<DatedVolumes> } | undefined;
  return async () => {
    const now = clock.now();
    if (periodMs <= 0) return { pods: [], measuredAtMs: now };
    const isRecent = last !== undefined && now >= last.startedAtMs && now - last.startedAtMs < periodMs;
    if (last === undefined || !isRecent) {
      const volumes = measure().then((listing) => ({ ...listing, measuredAtMs: clock.now() }));
      last = { startedAtMs: now, volumes };
    }
    const shown = last;
    try {
      return await shown.volumes;
    } catch (error) {
      if (last === shown) last = undefined;
      throw error;
    }
  };
}
