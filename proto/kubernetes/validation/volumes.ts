import type { DownwardAPIVolumeFile, KeyToPath, Pod, Volume, VolumeProjection } from "../gen/types.ts";
import { compareQuantities, parseQuantity } from "../values/quantity.ts";
import { checkAtMostOne, checkRange, checkUnique, errorIf, type FieldErrors, forEach } from "./checks.ts";
import { validateFieldRef, validateResourceFieldRef } from "./environment.ts";
import { type FieldError, forbidden, invalid, required, unsupported } from "./field-error.ts";
import { checkLabel, checkLocalPath, checkNoDotDot, checkRequired, checkSubdomain } from "./names.ts";

const zero = parseQuantity("0");
const fileFields = ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const MAX_MODE = 0o777;
const tokenSeconds = { from: 600, to: 2 ** 32 };

/** Names, and exactly one source each. Rule: ValidateVolumes, except the volumes of single storage systems. */
export function validateVolumes({ metadata, spec }: Pod): FieldErrors {
  const volumes = spec.volumes ?? [];
  return [
    ...forEach("spec.volumes", volumes, (path, volume) => [
      ...validateSource(path, volume),
      ...checkRequired(`${path}.name`, volume.name, checkLabel),
      ...(volume.ephemeral ? checkSubdomain(`${path}.name`, `${metadata.name}-${volume.name}`) : []),
      ...validateProjectedTokens(path, volume, spec.serviceAccountName),
    ]),
    ...checkUnique(volumes.map(({ name }, index) => [`spec.volumes[${index}].name`, name])),
  ];
}

function validateSource(path: string, volume: Volume): FieldErrors {
  const kinds = Object.keys(volume).filter((key) => key !== "name");
  if (kinds.length === 0) return [required(path, "must specify a volume type")];
  const { configMap, downwardAPI, ephemeral, hostPath, image, persistentVolumeClaim, projected, secret } = volume;
  return [
    ...checkAtMostOne(
      path,
      ["emptyDir", "hostPath", ...kinds.filter((kind) => kind !== "emptyDir" && kind !== "hostPath")],
      volume,
      "volume type",
    ),
    ...validateEmptyDir(`${path}.emptyDir`, volume.emptyDir),
    ...(hostPath ? checkRequired(`${path}.hostPath.path`, hostPath.path, checkNoDotDot) : []),
    ...(persistentVolumeClaim
      ? checkRequired(`${path}.persistentVolumeClaim.claimName`, persistentVolumeClaim.claimName)
      : []),
    ...(image ? checkRequired(`${path}.image.reference`, image.reference) : []),
    ...errorIf(ephemeral && !ephemeral.volumeClaimTemplate, () => required(`${path}.ephemeral.volumeClaimTemplate`)),
    ...(configMap ? checkRequired(`${path}.configMap.name`, configMap.name) : []),
    ...(secret ? checkRequired(`${path}.secret.secretName`, secret.secretName) : []),
    ...(["configMap", "secret"] as const).flatMap((kind) =>
      validateItems(`${path}.${kind}.items`, volume[kind]?.items),
    ),
    ...(["configMap", "downwardAPI", "projected", "secret"] as const).flatMap((kind) =>
      checkMode(`${path}.${kind}.defaultMode`, volume[kind]?.defaultMode),
    ),
    ...(downwardAPI?.items ?? []).flatMap((file) => validateFile(`${path}.downwardAPI`, file)),
    ...forEach(`${path}.projected.sources`, projected?.sources, (field, source) =>
      validateProjection(`${path}.projected`, field, source),
    ),
  ];
}

function validateEmptyDir(path: string, emptyDir: Volume["emptyDir"]): FieldErrors {
  const { medium = "", sizeLimit = "0" } = emptyDir ?? {};
  const isMedium = ["", "Memory", "HugePages"].includes(medium) || medium.startsWith("HugePages-");
  return [
    ...errorIf(!isMedium, () => unsupported(`${path}.medium`, medium, ["", "Memory", "HugePages", "HugePages-<size>"])),
    ...errorIf(compareQuantities(parseQuantity(sizeLimit), zero) < 0, () =>
      forbidden(`${path}.sizeLimit`, "SizeLimit field must be a valid resource quantity"),
    ),
  ];
}

function validateItems(field: string, items: readonly KeyToPath[] | undefined): FieldErrors {
  return forEach(field, items, (path, item) => [
    ...checkRequired(`${path}.key`, item.key),
    ...checkRequired(`${path}.path`, item.path, checkLocalPath),
    ...checkMode(`${path}.mode`, item.mode),
  ]);
}

/** A file with a field of the pod (downward API). */
function validateFile(path: string, file: DownwardAPIVolumeFile): FieldErrors {
  const { fieldRef, mode, resourceFieldRef } = file;
  const field = `${path}.resourceFieldRef`;
  return [
    ...checkRequired(`${path}.path`, file.path, checkLocalPath),
    ...(fieldRef ? validateFieldRef(`${path}.fieldRef`, fieldRef, fileFields) : []),
    ...errorIf(fieldRef && resourceFieldRef, () =>
      invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"),
    ),
    ...errorIf(!(fieldRef || resourceFieldRef), () =>
      required(path, "one of fieldRef and resourceFieldRef is required"),
    ),
    ...(!fieldRef && resourceFieldRef ? validateResourceFieldRef(field, resourceFieldRef) : []),
    ...(!fieldRef && resourceFieldRef ? checkRequired(`${field}.containerName`, resourceFieldRef.containerName) : []),
    ...checkMode(`${path}.mode`, mode),
  ];
}

function validateProjection(projected: string, path: string, source: VolumeProjection): FieldErrors {
  const { configMap, downwardAPI, secret, serviceAccountToken } = source;
  return [
    ...errorIf(Object.keys(source).length > 1, () =>
      forbidden(path, "may not specify more than 1 volume type per source"),
    ),
    ...(secret ? checkRequired(`${path}.secret.name`, secret.name) : []),
    ...(configMap ? checkRequired(`${path}.configMap.name`, configMap.name) : []),
    ...validateItems(`${path}.secret.items`, secret?.items),
    ...validateItems(`${path}.configMap.items`, configMap?.items),
    ...(downwardAPI?.items ?? []).flatMap((file) => validateFile(`${path}.downwardAPI`, file)),
    ...(serviceAccountToken
      ? [
          ...checkRange(
            `${path}.serviceAccountToken.expirationSeconds`,
            serviceAccountToken.expirationSeconds,
            tokenSeconds.from,
            tokenSeconds.to,
          ),
          ...checkRequired(`${projected}.path`, serviceAccountToken.path, checkLocalPath),
        ]
      : []),
  ];
}

function validateProjectedTokens(
  path: string,
  { projected }: Volume,
  serviceAccountName: string | undefined,
): FieldErrors {
  if (serviceAccountName) return [];
  return forEach(`${path}.projected.sources`, projected?.sources, (field, source) =>
    errorIf(source.serviceAccountToken, () =>
      forbidden(`${field}.serviceAccountToken`, "must not be specified when serviceAccountName is not set"),
    ),
  );
}

function checkMode(field: string, mode: number | undefined): readonly FieldError[] {
  const isMode = mode === undefined || (mode >= 0 && mode <= MAX_MODE);
  return errorIf(!isMode, () =>
    invalid(field, mode ?? 0, "must be a number between 0 and 0777 (octal), both inclusive"),
  );
}
