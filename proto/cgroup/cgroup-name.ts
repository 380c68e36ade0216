import type { PodQOSClass } from "../kubernetes/gen/types.ts";

/**
 * The place of a cgroup below the agent's root (`cgroupRoot`), whatever the driver calls it:
 * `["kubepods", "burstable", "pod<uid>"]`. `[]` is that root itself.
 */
export type CgroupName = readonly string[];

/** The cgroup of all pods, and the parent of those of Guaranteed pods. */
export const kubepods: CgroupName = ["kubepods"];
const POD_PREFIX = "pod";

/** The cgroup above the pods of each QoS class. Rule: the kubelet's QOSContainersInfo. */
export const qosParents: Readonly<Record<PodQOSClass, CgroupName>> = {
  Guaranteed: kubepods,
  Burstable: [...kubepods, "burstable"],
  BestEffort: [...kubepods, "besteffort"],
};

/** The cgroup of a pod. Rule: the kubelet's GetPodContainerName. */
export function podCgroupName(uid: string, qosClass: PodQOSClass): CgroupName {
  return [...qosParents[qosClass], `${POD_PREFIX}${uid}`];
}

/** The cgroups that a pod of unknown QoS class may have: one of each class. */
export function possiblePodCgroups(uid: string): readonly CgroupName[] {
  return (["Guaranteed", "Burstable", "BestEffort"] as const).map((qosClass) => podCgroupName(uid, qosClass));
}

/** As the API server and manifests without a uid of their own have them. */
const GENERATED_UID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$/;

/**
 * The uid of the pod whose cgroup's name ends with this element; undefined for other cgroups, such as `podman-1`. A uid
 * that a manifest sets itself is none of these: with systemd its name may be ambiguous, and its pod has directories.
 */
export function uidOfPodCgroup(lastElement: string): string | undefined {
  const uid = lastElement.startsWith(POD_PREFIX) ? lastElement.slice(POD_PREFIX.length) : "";
  return GENERATED_UID.test(uid) ? uid : undefined;
}
