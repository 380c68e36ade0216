import type {
  EnvFromSource,
  EnvVar,
  EnvVarSource,
  ObjectFieldSelector,
  ResourceFieldSelector,
  Volume,
} from "../gen/types.ts";
import { compareQuantities, formatQuantity, parseQuantity } from "../values/quantity.ts";
import { errorIf, type FieldErrors, forEach } from "./checks.ts";
import { invalid, notFound, required, unsupported } from "./field-error.ts";
import {
  checkDataKey,
  checkEnvName,
  checkLabel,
  checkNoDotDot,
  checkOptional,
  checkQualifiedName,
  checkRequired,
  checkSubdomain,
} from "./names.ts";

const sources = ["configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"] as const;
const envFields = [
  "metadata.name",
  "metadata.namespace",
  "metadata.uid",
  "spec.nodeName",
  "spec.serviceAccountName",
  "status.hostIP",
  "status.hostIPs",
  "status.podIP",
  "status.podIPs",
];
const resourceFields = ["cpu", "ephemeral-storage", "memory"].flatMap((name) => [`limits.${name}`, `requests.${name}`]);
const cpuDivisors = ["1", "1m"];
const byteDivisors = ["1", ..."kMGTPE".split("").flatMap((unit) => [`1${unit}`, unit === "k" ? "1Ki" : `1${unit}i`])];
const zero = parseQuantity("0");

/** Rule: ValidateEnv. */
export function validateEnv(
  field: string,
  env: readonly EnvVar[] | undefined,
  volumes: readonly Volume[],
): FieldErrors {
  return forEach(field, env, (path, { name, value, valueFrom }) => [
    ...checkRequired(`${path}.name`, name, checkEnvName),
    ...(valueFrom === undefined ? [] : validateSource(`${path}.valueFrom`, valueFrom, value ?? "", volumes)),
  ]);
}

function validateSource(path: string, source: EnvVarSource, value: string, volumes: readonly Volume[]): FieldErrors {
  const given = sources.filter((name) => source[name] !== undefined);
  return [
    ...(source.fieldRef ? validateFieldRef(`${path}.fieldRef`, source.fieldRef, envFields) : []),
    ...(source.resourceFieldRef ? validateResourceFieldRef(`${path}.resourceFieldRef`, source.resourceFieldRef) : []),
    ...(["configMapKeyRef", "secretKeyRef"] as const).flatMap((name) => {
      const selector = source[name];
      if (selector === undefined) return [];
      return [
        ...checkSubdomain(`${path}.${name}.name`, selector.name ?? ""),
        ...checkRequired(`${path}.${name}.key`, selector.key, checkDataKey),
      ];
    }),
    ...(source.fileKeyRef ? validateFileKeyRef(`${path}.fileKeyRef`, source.fileKeyRef, volumes) : []),
    ...errorIf(given.length === 0, () => invalid(path, "", `must specify one of: ${sources.join(", ")}`)),
    ...errorIf(given.length > 0 && value !== "", () =>
      invalid(path, "", "may not be specified when `value` is not empty"),
    ),
    ...errorIf(given.length > 1 && value === "", () =>
      invalid(path, "", "may not have more than one field specified at a time"),
    ),
  ];
}

function validateFileKeyRef(
  path: string,
  selector: NonNullable<EnvVarSource["fileKeyRef"]>,
  volumes: readonly Volume[],
): FieldErrors {
  const volume = volumes.find(({ name }) => name === selector.volumeName);
  const field = `${path}.volumeName`;
  return [
    ...checkRequired(`${path}.key`, selector.key, checkEnvName),
    ...checkRequired(field, selector.volumeName, checkLabel),
    ...checkRequired(`${path}.path`, selector.path, checkNoDotDot),
    ...errorIf(volume === undefined, () => notFound(field, selector.volumeName)),
    ...errorIf(volume && !volume.emptyDir, () =>
      invalid(field, selector.volumeName, "referenced volume must be of type emptyDir"),
    ),
  ];
}

/** A field of the pod, such as `status.podIP` or `metadata.labels['app']`. Rule: validateObjectFieldSelector. */
export function validateFieldRef(
  path: string,
  { apiVersion, fieldPath }: ObjectFieldSelector,
  known: readonly string[],
): FieldErrors {
  const [, field = "", key] = /^(.*?)\['(.*)'\]$/.exec(fieldPath) ?? [];
  if (fieldPath === "") return [required(`${path}.fieldPath`)];
  if ((apiVersion || "v1") !== "v1")
    return [invalid(`${path}.fieldPath`, fieldPath, `its apiVersion ${apiVersion} is none of a pod; v1 is`)];
  if (key === undefined)
    return errorIf(!known.includes(fieldPath), () => unsupported(`${path}.fieldPath`, fieldPath, known));
  if (field !== "metadata.annotations" && field !== "metadata.labels")
    return [invalid(`${path}.fieldPath`, fieldPath, "does not support subscript")];
  return checkQualifiedName(path, field === "metadata.annotations" ? key.toLowerCase() : key);
}

/** A request or limit of a container. Rule: validateContainerResourceFieldSelector. */
export function validateResourceFieldRef(path: string, { divisor, resource }: ResourceFieldSelector): FieldErrors {
  const isHugePages = /^(limits|requests)\.hugepages-/.test(resource);
  const isKnown = resourceFields.includes(resource) || isHugePages;
  const divisors = resource.endsWith(".cpu") ? cpuDivisors : byteDivisors;
  const quantity = parseQuantity(divisor ?? "0");
  const isDivisor = compareQuantities(quantity, zero) === 0 || divisors.includes(formatQuantity(quantity));
  return [
    ...errorIf(resource === "", () => required(`${path}.resource`)),
    ...errorIf(resource !== "" && !isKnown, () => unsupported(`${path}.resource`, resource, resourceFields)),
    ...errorIf(isKnown && !isDivisor, () =>
      invalid(`${path}.divisor`, resource, `only the divisors ${divisors.join(", ")} are supported`),
    ),
  ];
}

/** Rule: ValidateEnvFrom. */
export function validateEnvFrom(field: string, envFrom: readonly EnvFromSource[] | undefined): FieldErrors {
  return forEach(field, envFrom, (path, { configMapRef, prefix, secretRef }) => [
    ...checkOptional(`${path}.prefix`, prefix, checkEnvName),
    ...(configMapRef ? checkRequired(`${path}.configMapRef.name`, configMapRef.name, checkSubdomain) : []),
    ...(secretRef ? checkRequired(`${path}.secretRef.name`, secretRef.name, checkSubdomain) : []),
    ...errorIf(!(configMapRef || secretRef), () =>
      invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"),
    ),
    ...errorIf(configMapRef && secretRef, () =>
      invalid(field, "", "may not have more than one field specified at a time"),
    ),
  ]);
}
