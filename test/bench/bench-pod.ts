import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";

/** The node's name in the test bed, which static pods carry at the end of theirs. */
export const nodeName = "berth";

/** A pod that costs the machine nothing while it runs, and whose one container exits at once on SIGTERM. */
export function benchPod(name: string): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: { containers: [{ name: "main", image: busyboxImage, command: ["catatonit", "-P"] }] },
  };
}

/** Names that no round has used before: a pod that comes back under its old name is another case. */
export function createPodNames(): (count: number) => readonly string[] {
  let used = 0;
  return (count) => Array.from({ length: count }, () => `bench-${used++}`);
}
