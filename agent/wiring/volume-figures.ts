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
