import type {
  DownwardAPIVolumeFile,
  EphemeralVolumeSource,
  ProjectedVolumeSource,
  Volume,
  VolumeProjection,
} from "../gen/types.ts";
import { formatQuantity, parseQuantity } from "../values/quantity.ts";
import { defaultImagePullPolicy } from "./containers.ts";
import { defaultFieldRef, defaultResourceFieldRef } from "./references.ts";
import { defaultResourceList } from "./resources.ts";

/** `rw-r--r--`: the default file mode of volumes with API objects. */
const defaultMode = 0o644;
const tokenLifetimeSeconds = 3600;

/** Fills in the API's defaults of a volume. A volume without a source is an emptyDir. Rule: SetDefaults_Volume. */
export function defaultVolume(volume: Volume): Volume {
  if (Object.keys(volume).every((key) => key === "name")) return { ...volume, emptyDir: {} };
  const { configMap, downwardAPI, emptyDir, ephemeral, hostPath, image, projected, secret } = volume;
  return {
    ...volume,
    ...(configMap && { configMap: { defaultMode, ...configMap } }),
    ...(downwardAPI && {
      downwardAPI: {
        defaultMode,
        ...downwardAPI,
        ...(downwardAPI.items && { items: downwardAPI.items.map(defaultDownwardFile) }),
      },
    }),
    ...(emptyDir?.sizeLimit !== undefined && {
      emptyDir: { ...emptyDir, sizeLimit: formatQuantity(parseQuantity(emptyDir.sizeLimit)) },
    }),
    ...(ephemeral && { ephemeral: defaultEphemeral(ephemeral) }),
    ...(hostPath && { hostPath: { type: "", ...hostPath } }),
    ...(image && {
      image: { ...image, pullPolicy: image.pullPolicy || defaultImagePullPolicy(image.reference ?? "") },
    }),
    ...(projected && { projected: defaultProjected(projected) }),
    ...(secret && { secret: { defaultMode, ...secret } }),
    ...defaultForeignVolume(volume),
  };
}

/** Defaults of the volumes of single storage systems. */
function defaultForeignVolume({ azureDisk, iscsi, rbd, scaleIO }: Volume): Partial<Volume> {
  return {
    ...(azureDisk && {
      azureDisk: { cachingMode: "ReadWrite", fsType: "ext4", kind: "Shared", readOnly: false, ...azureDisk },
    }),
    ...(iscsi && { iscsi: { ...iscsi, iscsiInterface: iscsi.iscsiInterface || "default" } }),
    ...(rbd && {
      rbd: { ...rbd, keyring: rbd.keyring || "/etc/ceph/keyring", pool: rbd.pool || "rbd", user: rbd.user || "admin" },
    }),
    ...(scaleIO && {
      scaleIO: { ...scaleIO, fsType: scaleIO.fsType || "xfs", storageMode: scaleIO.storageMode || "ThinProvisioned" },
    }),
  };
}

function defaultEphemeral(ephemeral: EphemeralVolumeSource): EphemeralVolumeSource {
  const template = ephemeral.volumeClaimTemplate;
  if (template === undefined) return ephemeral;
  const { limits, requests } = template.spec.resources ?? {};
  const resources = {
    ...template.spec.resources,
    ...(limits && { limits: defaultResourceList(limits) }),
    ...(requests && { requests: defaultResourceList(requests) }),
  };
  return {
    ...ephemeral,
    volumeClaimTemplate: { ...template, spec: { volumeMode: "Filesystem", ...template.spec, resources } },
  };
}

function defaultProjected(projected: ProjectedVolumeSource): ProjectedVolumeSource {
  return { defaultMode, ...projected, ...(projected.sources && { sources: projected.sources.map(defaultProjection) }) };
}

function defaultProjection(projection: VolumeProjection): VolumeProjection {
  const { downwardAPI, serviceAccountToken } = projection;
  return {
    ...projection,
    ...(downwardAPI?.items && { downwardAPI: { ...downwardAPI, items: downwardAPI.items.map(defaultDownwardFile) } }),
    ...(serviceAccountToken && {
      serviceAccountToken: { expirationSeconds: tokenLifetimeSeconds, ...serviceAccountToken },
    }),
  };
}

function defaultDownwardFile(file: DownwardAPIVolumeFile): DownwardAPIVolumeFile {
  const { fieldRef, resourceFieldRef } = file;
  return {
    ...file,
    ...(fieldRef && { fieldRef: defaultFieldRef(fieldRef) }),
    ...(resourceFieldRef && { resourceFieldRef: defaultResourceFieldRef(resourceFieldRef) }),
  };
}
