import { volumeCertificateKeys } from "../../../proto/kubernetes/certificates.ts";
import { claimKey, claimReferenceOf } from "../../../proto/kubernetes/claims.ts";
import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { referenceKey, type VolumeReference, volumeReferences } from "../../../proto/kubernetes/references.ts";
import { tokenKey, volumeTokenReferences } from "../../../proto/kubernetes/token-references.ts";
import { isContentVolume, volumeFieldPaths, volumeResourceFields } from "../../../proto/kubernetes/volumes.ts";
import type { ClusterSettings, PodSettings } from "../settings.ts";

/**
 * Whether something of the volume's content, or its claim, is still being read. That is no failure, and its arrival wakes the
 * pod; if the read fails, the set-up reports it.
 */
export function isWaitingForContent(pod: Pod, volume: Volume, { cluster }: Pick<PodSettings, "cluster">): boolean {
  if (cluster === undefined) return false;
  const claim = claimReferenceOf(pod, volume);
  return (
    (claim !== undefined && !cluster.settledClaims.has(claimKey(claim))) ||
    volumeReferences(pod, volume).some((each) => !cluster.settledReferences.has(referenceKey(each))) ||
    volumeTokenReferences(pod, volume).some((each) => !cluster.tokenVersions.has(tokenKey(each))) ||
    volumeCertificateKeys(pod, volume).some((key) => cluster.certificateVersions?.has(key) !== true)
  );
}

/** Whether all of the volume's content is known. An object that does not exist is known, too. */
export function isContentKnown(pod: Pod, volume: Volume, { cluster }: Pick<PodSettings, "cluster">): boolean {
  return (
    volumeReferences(pod, volume).every((each) => cluster?.referenceVersions.has(referenceKey(each))) &&
    volumeTokenReferences(pod, volume).every(
      (each) => (cluster?.tokenVersions.get(tokenKey(each)) ?? "failed") !== "failed",
    ) &&
    volumeCertificateKeys(pod, volume).every((key) => (cluster?.certificateVersions?.get(key) ?? "failed") !== "failed")
  );
}

/**
 * Whether the set-up of a volume needs nothing that may be missing, on the node or in the cluster. Such a volume is made
 * while the sandbox starts; any other one before, so that a pod that waits for it holds no address.
 */
export function canBeMadeBesideSandbox(pod: Pod, volume: Volume, settings: Pick<PodSettings, "cluster">): boolean {
  const { hostPath, emptyDir } = volume;
  if (hostPath !== undefined) return (hostPath.type ?? "") === "";
  if (emptyDir !== undefined) return ["", "Memory"].includes(emptyDir.medium ?? "");
  return (
    isContentVolume(volume) &&
    volumeResourceFields(volume).every(({ containerName = "" }) => containerNamed(pod, containerName) !== undefined) &&
    isContentKnown(pod, volume, settings) &&
    volumeReferences(pod, volume).every((each) => isComplete(each, settings.cluster))
  );
}

/** Whether the object has all that a volume needs of it. */
function isComplete(reference: VolumeReference, cluster: ClusterSettings | undefined): boolean {
  const { isOptional, keys } = reference;
  const name = referenceKey(reference);
  if (isOptional) return true;
  if (cluster?.referenceVersions.get(name) === "absent") return false;
  return keys.every((key) => cluster?.hasReferencedKey(name, key));
}

/** Whether the volume has content of the Secret, ConfigMap, token or certificates with this key, or has this claim. */
export function dependsOn(pod: Pod, volume: Volume, key: string): boolean {
  const claim = claimReferenceOf(pod, volume);
  return (
    (claim !== undefined && claimKey(claim) === key) ||
    volumeReferences(pod, volume).some((each) => referenceKey(each) === key) ||
    volumeTokenReferences(pod, volume).some((each) => tokenKey(each) === key) ||
    volumeCertificateKeys(pod, volume).includes(key)
  );
}

/**
 * The version of a volume's content: it differs whenever the files may have to differ. Undefined for a volume whose
 * files the agent does not write.
 */
export function contentVersionOf(
  pod: Pod,
  volume: Volume,
  { cluster }: Pick<PodSettings, "cluster">,
): string | undefined {
  if (!isContentVolume(volume)) return undefined;
  const { labels = {}, annotations = {} } = pod.metadata;
  return JSON.stringify([
    ...volumeReferences(pod, volume).map((each) => cluster?.referenceVersions.get(referenceKey(each)) ?? "unread"),
    ...volumeTokenReferences(pod, volume).map((each) => cluster?.tokenVersions.get(tokenKey(each)) ?? "unread"),
    ...volumeCertificateKeys(pod, volume).map((key) => cluster?.certificateVersions?.get(key) ?? "unread"),
    // Labels, annotations and resources of a pod can change.
    ...(hasField(volume, "metadata.labels") ? [labels] : []),
    ...(hasField(volume, "metadata.annotations") ? [annotations] : []),
    ...volumeResourceFields(volume).map(
      ({ containerName = "" }) => containerNamed(pod, containerName)?.resources ?? {},
    ),
  ]);
}

function hasField(volume: Volume, prefix: string): boolean {
  return volumeFieldPaths(volume).some((path) => path.startsWith(prefix));
}
