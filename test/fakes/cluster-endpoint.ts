import type { ClusterEndpoint, ClusterEndpointSource } from "../../kube/auth/cluster-endpoint.ts";

/** A cluster endpoint source that always returns the same endpoint. */
export function fixedEndpoint(endpoint: ClusterEndpoint): ClusterEndpointSource {
  return { server: () => endpoint.server, latest: () => Promise.resolve(endpoint) };
}
