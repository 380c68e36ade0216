import type { Cluster, ClusterSource } from "../../kube/cluster.ts";

/** A cluster of which nothing ever changes. */
export function fixedCluster(cluster: Cluster): ClusterSource {
  return { server: () => cluster.server, latest: () => Promise.resolve(cluster) };
}
