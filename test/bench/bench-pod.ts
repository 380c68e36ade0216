import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";

/** The node's name in the test bed, which is the suffix of static pods' names. */
export const nodeName = "berth";

/** Says which pods were measured. */
export const podShape = "All pods are bare: without a service account token and without volumes.";

/** What a usual pod has more than a bare one: it mounts its service account's token, as the API server adds it. */
export const usualPod: Partial<PodSpec> = { automountServiceAccountToken: true };

/** A pod that uses no CPU while it runs and whose container exits at once on SIGTERM. */
export function benchPod(name: string): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: [{ name: "main", image: busyboxImage, command: ["catatonit", "-P"] }] },
  };
}

/** Creates pod names that no earlier round has used, because reusing a pod's name would measure another case. */
export function createPodNames(): (count: number) => readonly string[] {
  let used = 0;
  return (count) => Array.from({ length: count }, () => `bench-${used++}`);
}
