import type { Container, EphemeralContainer, Pod, Volume, VolumeProjection } from "./gen/types.ts";
import { type FieldError, forbidden } from "./validation/field-error.ts";

/**
 * All references of a pod to other API objects. A static pod must have none: the node may run it without an API server,
 * and no server has authorized the node to read these objects. Rule: the kubelet's PreventStaticPodAPIReferences.
 */
export function staticPodReferences({ spec }: Pod): readonly FieldError[] {
  return [
    ...forbidReference("spec.serviceAccountName", spec.serviceAccountName || spec.serviceAccount, "serviceaccounts"),
    ...(spec.imagePullSecrets ?? []).flatMap((secret, index) =>
      forbidReference(`spec.imagePullSecrets[${index}]`, secret.name, "secrets"),
    ),
    ...forbidReference("spec.resourceClaims", spec.resourceClaims?.length, "resourceclaims"),
    ...(["initContainers", "containers", "ephemeralContainers"] as const).flatMap((list) =>
      (spec[list] ?? []).flatMap((container, index) => containerReferences(`spec.${list}[${index}]`, container)),
    ),
    ...(spec.volumes ?? []).flatMap((volume, index) => volumeReferences(`spec.volumes[${index}]`, volume)),
  ];
}

function forbidReference(field: string, reference: unknown, resource: string): readonly FieldError[] {
  return reference ? [forbidden(field, `static pods may not reference ${resource}`)] : [];
}

function containerReferences(
  path: string,
  { env = [], envFrom = [] }: Container | EphemeralContainer,
): readonly FieldError[] {
  return [
    ...env.flatMap(({ valueFrom }, index) => [
      ...forbidReference(`${path}.env[${index}].valueFrom.secretKeyRef`, valueFrom?.secretKeyRef, "secrets"),
      ...forbidReference(`${path}.env[${index}].valueFrom.configMapKeyRef`, valueFrom?.configMapKeyRef, "configmaps"),
    ]),
    ...envFrom.flatMap(({ configMapRef, secretRef }, index) => [
      ...forbidReference(`${path}.envFrom[${index}].secretRef`, secretRef, "secrets"),
      ...forbidReference(`${path}.envFrom[${index}].configMapRef`, configMapRef, "configmaps"),
    ]),
  ];
}

function volumeReferences(path: string, volume: Volume): readonly FieldError[] {
  return [
    ...forbidReference(`${path}.azureFile`, volume.azureFile, "secrets (via azureFile volumes)"),
    ...forbidReference(`${path}.configMap`, volume.configMap, "configmaps (via configmap volumes)"),
    ...forbidReference(`${path}.csi`, volume.csi, "csidrivers (via CSI volumes)"),
    ...forbidReference(`${path}.ephemeral`, volume.ephemeral, "persistentvolumeclaims (via ephemeral volumes)"),
    ...forbidReference(`${path}.glusterfs`, volume.glusterfs, "endpoints (via glusterFS volumes)"),
    ...forbidReference(`${path}.persistentVolumeClaim`, volume.persistentVolumeClaim, "persistentvolumeclaims"),
    ...forbidReference(`${path}.secret`, volume.secret, "secrets (via secret volumes)"),
    ...(["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] as const).flatMap((kind) =>
      forbidReference(`${path}.${kind}.secretRef`, volume[kind]?.secretRef, "secrets"),
    ),
    ...(volume.projected?.sources ?? []).flatMap((source, index) =>
      projectionReferences(`${path}.projected.sources[${index}]`, source),
    ),
  ];
}

function projectionReferences(path: string, source: VolumeProjection): readonly FieldError[] {
  return [
    ...forbidReference(`${path}.clusterTrustBundle`, source.clusterTrustBundle, "clustertrustbundles"),
    ...forbidReference(`${path}.configMap`, source.configMap, "configmaps (via projected volumes)"),
    ...forbidReference(`${path}.podCertificate`, source.podCertificate, "podcertificates"),
    ...forbidReference(`${path}.secret`, source.secret, "secrets (via projected volumes)"),
    ...forbidReference(
      `${path}.serviceAccountToken`,
      source.serviceAccountToken,
      "serviceaccounts (via projected volumes)",
    ),
  ];
}
