import { fnv128a } from "../../fnv.ts";
import type { Pod } from "../gen/types.ts";
import { hashedOrigin, type StaticPodOrigin } from "../static-pod-origin.ts";
import { dumpInternalPod } from "./pod.ts";

/**
 * The uid that the kubelet gives a static pod whose manifest has none: the hash of the pod and of where it comes from.
 * The manifest must have been decoded (decodeStrict). A change of the agents of a node therefore keeps its static pods,
 * and the annotation `kubernetes.io/config.hash` of their mirror pods. Rule: applyDefaults in the kubelet's
 * pkg/kubelet/config/common.go.
 */
export function staticPodUid(manifest: Pod, origin: StaticPodOrigin): string {
  return fnv128a(`${dumpInternalPod(manifest)}${hashedOrigin(origin)}`);
}
