import type { PodDNSConfig, PodSpec, Toleration } from "../gen/types.ts";
import { checkNotNegative, checkRange, errorIf, type FieldErrors, forEach } from "./checks.ts";
import { forbidden, invalid, required } from "./field-error.ts";
import { validateLabels } from "./metadata.ts";
import {
  checkIp,
  checkLabel,
  checkLabelValue,
  checkOptional,
  checkQualifiedName,
  checkSearchDomain,
  checkSubdomain,
} from "./names.ts";
import { validatePodResources } from "./resources.ts";

const MAX_NAMESERVERS = 3;
const MAX_SEARCHES = 32;
const MAX_SEARCH_CHARS = 2048;
const MAX_HOSTNAME_LENGTH = 64;

/** The fields of the spec that do not depend on containers or volumes. Rule: ValidatePodSpec. */
export function validatePodSpec(spec: PodSpec): FieldErrors {
  return [
    ...validateNames(spec),
    ...checkNotNegative("spec.terminationGracePeriodSeconds", spec.terminationGracePeriodSeconds),
    ...checkRange("spec.activeDeadlineSeconds", spec.activeDeadlineSeconds, 1, 2 ** 31 - 1),
    ...validateLabels("spec.nodeSelector", spec.nodeSelector ?? {}),
    ...validatePodResources("spec.resources", spec.resources),
    ...validateHostNetwork(spec),
    ...validateDns(spec),
    ...validateHostname(spec),
    ...forEach("spec.hostAliases", spec.hostAliases, (path, { hostnames, ip }) => [
      ...checkIp(`${path}.ip`, ip),
      ...forEach(`${path}.hostnames`, hostnames, checkSubdomain),
    ]),
    ...forEach("spec.tolerations", spec.tolerations, validateToleration),
    ...forEach("spec.readinessGates", spec.readinessGates, (path, gate) =>
      checkQualifiedName(`${path}.conditionType`, gate.conditionType),
    ),
    ...errorIf(spec.ephemeralContainers?.length, () =>
      forbidden("spec.ephemeralContainers", "cannot be set on create"),
    ),
    ...errorIf(spec.nodeName && spec.schedulingGates?.length, () =>
      forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"),
    ),
  ];
}

function validateNames(spec: PodSpec): FieldErrors {
  return [
    ...checkOptional("spec.serviceAccountName", spec.serviceAccountName, checkSubdomain),
    ...checkOptional("spec.nodeName", spec.nodeName, checkSubdomain),
    ...checkOptional("spec.hostname", spec.hostname, checkLabel),
    ...checkOptional("spec.subdomain", spec.subdomain, checkLabel),
    ...checkOptional("spec.priorityClassName", spec.priorityClassName, checkSubdomain),
    ...checkOptional("spec.runtimeClassName", spec.runtimeClassName, checkSubdomain),
  ];
}

/** Under hostNetwork, the host port equals the container port. */
function validateHostNetwork({ containers, hostNetwork }: PodSpec): FieldErrors {
  if (hostNetwork !== true) return [];
  return containers.flatMap(({ ports }, index) =>
    forEach(`spec.containers[${index}].ports`, ports, (path, { containerPort, hostPort }) =>
      errorIf(hostPort !== containerPort, () =>
        invalid(`${path}.hostPort`, hostPort ?? 0, "must match `containerPort` when `hostNetwork` is true"),
      ),
    ),
  );
}

function validateDns({ dnsConfig, dnsPolicy }: PodSpec): FieldErrors {
  if (dnsPolicy !== "None") return dnsConfig === undefined ? [] : validateDnsConfig(dnsConfig);
  if (dnsConfig === undefined) return [required("spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")];
  if (!dnsConfig.nameservers?.length)
    return [
      required("spec.dnsConfig.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None"),
    ];
  return validateDnsConfig(dnsConfig);
}

function validateDnsConfig({ nameservers = [], options, searches = [] }: PodDNSConfig): FieldErrors {
  const path = "spec.dnsConfig";
  const text = searches.join(" ");
  const tooMuch = (field: string, what: string) => invalid(`${path}.${field}`, "", `must not have more than ${what}`);
  return [
    ...errorIf(nameservers.length > MAX_NAMESERVERS, () => tooMuch("nameservers", `${MAX_NAMESERVERS} nameservers`)),
    ...forEach(`${path}.nameservers`, nameservers, checkIp),
    ...errorIf(searches.length > MAX_SEARCHES, () => tooMuch("searches", `${MAX_SEARCHES} search paths`)),
    ...errorIf(text.length > MAX_SEARCH_CHARS, () =>
      tooMuch("searches", `${MAX_SEARCH_CHARS} characters (including spaces) in the search list`),
    ),
    ...forEach(`${path}.searches`, searches, checkSearchDomain),
    ...forEach(`${path}.options`, options, (field, { name }) =>
      errorIf(!name, () => required(field, "must not be empty")),
    ),
  ];
}

function validateHostname({ hostNetwork, hostnameOverride, setHostnameAsFQDN }: PodSpec): FieldErrors {
  const field = "spec.hostnameOverride";
  if (hostnameOverride === undefined) return [];
  return [
    ...errorIf(setHostnameAsFQDN, () => forbidden(field, "may not be specified when setHostnameAsFQDN is true")),
    ...errorIf(hostNetwork, () => forbidden(field, "may not be specified when hostNetwork is true")),
    ...errorIf(hostnameOverride.length > MAX_HOSTNAME_LENGTH, () =>
      invalid(field, hostnameOverride, `must be no more than ${MAX_HOSTNAME_LENGTH} bytes`),
    ),
    ...checkSubdomain(field, hostnameOverride),
  ];
}

/** Rule: ValidateTolerations. An empty key with Exists tolerates everything. */
function validateToleration(
  path: string,
  { effect, key = "", operator, tolerationSeconds, value = "" }: Toleration,
): FieldErrors {
  const field = `${path}.operator`;
  const isEqual = !operator || operator === "Equal";
  return [
    ...checkOptional(`${path}.key`, key, checkQualifiedName),
    ...errorIf(key === "" && operator !== "Exists", () =>
      invalid(field, operator ?? "", "must be Exists when `key` is empty"),
    ),
    ...errorIf(tolerationSeconds !== undefined && effect !== "NoExecute", () =>
      invalid(`${path}.effect`, effect ?? "", "effect must be 'NoExecute' when `tolerationSeconds` is set"),
    ),
    ...(isEqual ? checkLabelValue(field, value) : []),
    ...errorIf(operator === "Exists" && value !== "", () =>
      invalid(field, value, "value must be empty when `operator` is 'Exists'"),
    ),
    ...errorIf((operator === "Gt" || operator === "Lt") && !/^(0|-?[1-9]\d{0,17})$/.test(value), () =>
      invalid(`${path}.value`, value, "must be a decimal integer"),
    ),
  ];
}
