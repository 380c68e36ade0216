import type { Container, EphemeralContainer, PodSpec, Volume, VolumeMount } from "../gen/types.ts";
import { errorIf, type FieldErrors, forEach } from "./checks.ts";
import { forbidden, invalid, notFound } from "./field-error.ts";
import { checkDescendingPath, checkNoDotDot, checkOptional, checkRequired } from "./names.ts";

type AnyContainer = Container | EphemeralContainer;

/** Rule: ValidateVolumeMounts and ValidateVolumeDevices. */
export function validateMounts(path: string, container: AnyContainer, spec: PodSpec): FieldErrors {
  const volumes = new Map((spec.volumes ?? []).map((volume) => [volume.name, volume]));
  const { volumeDevices = [], volumeMounts = [] } = container;
  const field = `${path}.volumeMounts`;
  return [
    ...forEach(field, volumeMounts, (mountPath, mount, index) => [
      ...checkRequired(`${mountPath}.name`, mount.name),
      ...errorIf(!volumes.has(mount.name), () => notFound(`${mountPath}.name`, mount.name)),
      ...checkRequired(`${mountPath}.mountPath`, mount.mountPath),
      ...errorIf(volumeMounts.findIndex((other) => other.mountPath === mount.mountPath) < index, () =>
        invalid(`${mountPath}.mountPath`, mount.mountPath, "must be unique"),
      ),
      ...errorIf(
        volumeDevices.some(({ name }) => name === mount.name),
        () => invalid(`${mountPath}.name`, mount.name, "must not already exist in volumeDevices"),
      ),
      ...validateSubPath(mountPath, mount),
      ...validatePropagation(mountPath, mount, container),
    ]),
    ...validateDevices(`${path}.volumeDevices`, container, volumes),
  ];
}

function validateSubPath(path: string, { subPath, subPathExpr }: VolumeMount): FieldErrors {
  return [
    ...checkOptional(`${path}.subPath`, subPath, checkDescendingPath),
    ...checkOptional(`${path}.subPathExpr`, subPathExpr, checkDescendingPath),
    ...errorIf(subPath && subPathExpr, () =>
      invalid(`${path}.subPathExpr`, subPathExpr ?? "", "subPathExpr and subPath are mutually exclusive"),
    ),
  ];
}

function validatePropagation(path: string, mount: VolumeMount, { securityContext }: AnyContainer): FieldErrors {
  const { mountPropagation = "None", recursiveReadOnly = "Disabled" } = mount;
  const isRecursive = recursiveReadOnly !== "Disabled";
  const field = `${path}.recursiveReadOnly`;
  return [
    ...errorIf(mountPropagation === "Bidirectional" && securityContext?.privileged !== true, () =>
      forbidden(
        `${path}.mountPropagation`,
        "Bidirectional mount propagation is available only to privileged containers",
      ),
    ),
    ...errorIf(isRecursive && mount.readOnly !== true, () =>
      forbidden(field, "may only be specified when readOnly is true"),
    ),
    ...errorIf(isRecursive && mountPropagation !== "None", () =>
      forbidden(field, "may only be specified when mountPropagation is None or not specified"),
    ),
  ];
}

function validateDevices(
  field: string,
  { volumeDevices = [] }: AnyContainer,
  volumes: ReadonlyMap<string, Volume>,
): FieldErrors {
  return forEach(field, volumeDevices, (path, { devicePath, name }, index) => {
    const volume = volumes.get(name);
    const isClaim = volume?.persistentVolumeClaim !== undefined || volume?.ephemeral !== undefined;
    return [
      ...checkRequired(`${path}.name`, name),
      ...errorIf(volume === undefined, () => notFound(`${path}.name`, name)),
      ...errorIf(volume && !isClaim, () =>
        invalid(
          `${path}.name`,
          name,
          "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode",
        ),
      ),
      ...checkRequired(`${path}.devicePath`, devicePath, checkNoDotDot),
      ...errorIf(volumeDevices.findIndex((other) => other.devicePath === devicePath) < index, () =>
        invalid(`${path}.devicePath`, devicePath, "must be unique"),
      ),
    ];
  });
}
