import type { Container, EphemeralContainer, Pod, Volume, VolumeProjection } from "./gen/types.ts";
import { type FieldError, forbidden } from "./validation/field-error.ts";

/**
 * Everything in a pod that points to another API object. A static pod may have none, since the node may run it without an
 * API server, and nobody has asked one whether this node may read that object.
 * Rule: the kubelet's PreventStaticPodAPIReferences.
 */
export function staticPodReferences({ spec }: Pod): readonly FieldError[] {
  return [
    ...refuse("spec.serviceAccountName", spec.serviceAccountName || spec.serviceAccount, "serviceaccounts"),
    ...(spec.imagePullSecrets ?? []).flatMap((secret, index) =>
      refuse(`spec.imagePullSecrets[${index}]`, secret.name, "secrets"),
    ),
    ...refuse("spec.resourceClaims", spec.resourceClaims?.length, "resourceclaims"),
    ...(["initContainers", "containers", "ephemeralContainers"] as const).flatMap((list) =>
      (spec[list] ?? []).flatMap((container, index) => containerReferences(`spec.${list}[${index}]`, container)),
    ),
    ...(spec.volumes ?? []).flatMap((volume, index) => volumeReferences(`spec.volumes[${index}]`, volume)),
  ];
}

function refuse(field: string, reference: unknown, resource: string): readonly FieldError[] {
  return reference ? [forbidden(field, `static pods may not reference ${resource}`)] : [];
}

function containerReferences(
  path: string,
  { env = [], envFrom = [] }: Container | EphemeralContainer,
): readonly FieldError[] {
  return [
    ...env.flatMap(({ valueFrom }, index) => [
      ...refuse(`${path}.env[${index}].valueFrom.secretKeyRef`, valueFrom?.secretKeyRef, "secrets"),
      ...refuse(`${path}.env[${index}].valueFrom.configMapKeyRef`, valueFrom?.configMapKeyRef, "configmaps"),
    ]),
    ...envFrom.flatMap(({ configMapRef, secretRef }, index) => [
      ...refuse(`${path}.envFrom[${index}].secretRef`, secretRef, "secrets"),
      ...refuse(`${path}.envFrom[${index}].configMapRef`, configMapRef, "configmaps"),
    ]),
  ];
}

function volumeReferences(path: string, volume: Volume): readonly FieldError[] {
  return [
    ...refuse(`${path}.azureFile`, volume.azureFile, "secrets (via azureFile volumes)"),
    ...refuse(`${path}.configMap`, volume.configMap, "configmaps (via configmap volumes)"),
    ...refuse(`${path}.csi`, volume.csi, "csidrivers (via CSI volumes)"),
    ...refuse(`${path}.ephemeral`, volume.ephemeral, "persistentvolumeclaims (via ephemeral volumes)"),
    ...refuse(`${path}.glusterfs`, volume.glusterfs, "endpoints (via glusterFS volumes)"),
    ...refuse(`${path}.persistentVolumeClaim`, volume.persistentVolumeClaim, "persistentvolumeclaims"),
    ...refuse(`${path}.secret`, volume.secret, "secrets (via secret volumes)"),
    ...(["cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"] as const).flatMap((kind) =>
      refuse(`${path}.${kind}.secretRef`, volume[kind]?.secretRef, "secrets"),
    ),
    ...(volume.projected?.sources ?? []).flatMap((source, index) =>
      projectionReferences(`${path}.projected.sources[${index}]`, source),
    ),
  ];
}

function projectionReferences(path: string, source: VolumeProjection): readonly FieldError[] {
  return [
    ...refuse(`${path}.clusterTrustBundle`, source.clusterTrustBundle, "clustertrustbundles"),
    ...refuse(`${path}.configMap`, source.configMap, "configmaps (via projected volumes)"),
    ...refuse(`${path}.podCertificate`, source.podCertificate, "podcertificates"),
    ...refuse(`${path}.secret`, source.secret, "secrets (via projected volumes)"),
    ...refuse(`${path}.serviceAccountToken`, source.serviceAccountToken, "serviceaccounts (via projected volumes)"),
  ];
}
