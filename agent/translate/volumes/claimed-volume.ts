import { type ClaimReference, claimKey, claimReferenceOf } from "../../../proto/kubernetes/claims.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { mountOptionAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import type { NodeFacts } from "../node-facts.ts";
import { unprocessedVolumeError, type VolumeNames } from "./missing-drivers.ts";

/** A persistent volume that a pod uses by a claim. */
export interface ClaimedVolume {
  readonly names: VolumeNames;
  readonly spec: PersistentVolume["spec"];
  /** By the pod's `persistentVolumeClaim.readOnly`, or the volume's `mountOptions`. Like the kubelet, access modes alone do not make a volume read-only. */
  readonly isReadOnly: boolean;
  /** The pod's `persistentVolumeClaim.readOnly` alone. */
  readonly isClaimedReadOnly: boolean;
  /** By the volume's older annotation, or its `mountOptions`. */
  readonly mountOptions: readonly string[];
}

export interface ClaimedVolumeInput {
  readonly pod: Pod;
  readonly facts: Pick<NodeFacts, "cluster">;
}

/**
 * The persistent volume behind a volume of a pod; undefined for a volume without a claim. Throws `TranslateError`, in the
 * kubelet's words, if the pod cannot use it.
 */
export function claimedVolumeOf({ pod, facts }: ClaimedVolumeInput, volume: Volume): ClaimedVolume | undefined {
  const reference = claimReferenceOf(pod, volume);
  if (reference === undefined) return undefined;
  const toError = (why: string) => unprocessedVolumeError({ nameInPod: volume.name }, why);
  const known = facts.cluster?.claims.get(claimKey(reference)) ?? {
    failure: "failed to fetch PVC from API server: timed out waiting for the condition",
  };
  if ("failure" in known) throw toError(`error processing PVC ${fullNameOf(reference)}: ${known.failure}`);
  const { claim, persistentVolume } = known;
  if (volume.ephemeral !== undefined && !isOwnedBy(claim, pod)) {
    const podName = `${pod.metadata.namespace}/${pod.metadata.name}`;
    throw toError(`PVC ${fullNameOf(reference)} was not created for pod ${podName} (pod is not owner)`);
  }
  const { volumeMode = "Filesystem" } = persistentVolume.spec;
  const misuse = misuseOf(pod, volume, volumeMode);
  if (misuse !== undefined)
    throw toError(`volume ${volume.name} has volumeMode ${volumeMode}, but is specified in ${misuse}`);
  const isClaimedReadOnly = volume.persistentVolumeClaim?.readOnly === true;
  const mountOptions = mountOptionsOf(persistentVolume);
  return {
    names: { specName: persistentVolume.metadata.name ?? "", nameInPod: volume.name },
    spec: persistentVolume.spec,
    isReadOnly: isClaimedReadOnly || mountOptions.includes("ro"),
    isClaimedReadOnly,
    mountOptions,
  };
}

/** https://kubernetes.io/docs/concepts/storage/persistent-volumes/#mount-options */
function mountOptionsOf({ metadata, spec }: PersistentVolume): readonly string[] {
  const annotated = metadata.annotations?.[mountOptionAnnotation];
  return annotated === undefined ? (spec.mountOptions ?? []) : annotated.split(",").filter((option) => option !== "");
}

const fullNameOf = ({ namespace, name }: ClaimReference) => `${namespace}/${name}`;

/** The claim of an `ephemeral` volume is the pod's own: another one of its name may hold the data of others. */
function isOwnedBy({ metadata }: PersistentVolumeClaim, { metadata: { uid } }: Pod): boolean {
  return (metadata.ownerReferences ?? []).some((owner) => owner.controller === true && owner.uid === uid);
}

/** The field by which a container uses the volume and may not. */
function misuseOf({ spec }: Pod, { name }: Volume, volumeMode: string): "volumeMounts" | "volumeDevices" | undefined {
  const isUsedIn = (field: "volumeMounts" | "volumeDevices") =>
    allContainers(spec).some((container) => container[field]?.some((each) => each.name === name));
  if (volumeMode !== "Filesystem" && isUsedIn("volumeMounts")) return "volumeMounts";
  return volumeMode !== "Block" && isUsedIn("volumeDevices") ? "volumeDevices" : undefined;
}
