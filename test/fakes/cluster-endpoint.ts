import type { Cluster, ClusterSource } from "../../kube/auth/cluster-endpoint.ts";

/** A cluster of which nothing ever changes. */
export function fixedCluster(cluster: Cluster): ClusterSource {
  return { server: () => cluster.server, latest: () => Promise.resolve(cluster) };
}
