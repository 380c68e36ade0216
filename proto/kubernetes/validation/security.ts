import type { AppArmorProfile, PodSpec, SeccompProfile, SecurityContext, Sysctl } from "../gen/types.ts";
import { checkRange, errorIf, type FieldErrors, forEach } from "./checks.ts";
import { duplicate, type FieldError, forbidden, invalid, required } from "./field-error.ts";
import { checkDescendingPath, checkRequired } from "./names.ts";

const MAX_ID = 2 ** 31 - 1;

/** Rule: validatePodSpecSecurityContext and validateHostUsers. */
export function validatePodSecurity(spec: PodSpec): FieldErrors {
  const path = "spec.securityContext";
  const { appArmorProfile, fsGroup, runAsGroup, runAsUser, seccompProfile, supplementalGroups, sysctls } =
    spec.securityContext ?? {};
  const isIsolated = spec.hostUsers === false;
  return [
    ...checkRange(`${path}.fsGroup`, fsGroup, 0, MAX_ID),
    ...checkRange(`${path}.runAsUser`, runAsUser, 0, MAX_ID),
    ...checkRange(`${path}.runAsGroup`, runAsGroup, 0, MAX_ID),
    ...forEach(`${path}.supplementalGroups`, supplementalGroups, (field, id) => checkRange(field, id, 0, MAX_ID)),
    ...validateSysctls(`${path}.sysctls`, sysctls ?? [], spec),
    ...validateSeccomp(`${path}.seccompProfile`, seccompProfile),
    ...validateAppArmor(`${path}.appArmorProfile`, appArmorProfile),
    ...errorIf(spec.shareProcessNamespace && spec.hostPID, () =>
      invalid(
        "spec.securityContext.shareProcessNamespace",
        "true",
        "ShareProcessNamespace and HostPID cannot both be enabled",
      ),
    ),
    ...errorIf(isIsolated && spec.hostNetwork, () => forbidden("spec.hostNetwork", "when `hostUsers` is false")),
    ...errorIf(isIsolated && spec.hostPID, () => forbidden("spec.HostPID", "when `hostUsers` is false")),
    ...errorIf(isIsolated && spec.hostIPC, () => forbidden("spec.HostIPC", "when `hostUsers` is false")),
  ];
}

/** Rule: ValidateSecurityContext. */
export function validateContainerSecurity(
  path: string,
  context: SecurityContext | undefined,
  spec: PodSpec,
): FieldErrors {
  if (context === undefined) return [];
  const refusesEscalation = context.allowPrivilegeEscalation === false;
  const addsSysAdmin = context.capabilities?.add?.includes("CAP_SYS_ADMIN");
  const isUnmasked = context.procMount === "Unmasked" && spec.hostUsers !== false;
  const contradiction = (what: string) =>
    invalid(path, "", `cannot set \`allowPrivilegeEscalation\` to false and ${what}`);
  return [
    ...checkRange(`${path}.runAsUser`, context.runAsUser, 0, MAX_ID),
    ...checkRange(`${path}.runAsGroup`, context.runAsGroup, 0, MAX_ID),
    ...errorIf(isUnmasked, () =>
      invalid(`${path}.procMount`, "Unmasked", "`hostUsers` must be false to use `Unmasked`"),
    ),
    ...validateSeccomp(`${path}.seccompProfile`, context.seccompProfile),
    ...errorIf(refusesEscalation && context.privileged, () => contradiction("`privileged` to true")),
    ...errorIf(refusesEscalation && addsSysAdmin, () => contradiction("`capabilities.Add` CAP_SYS_ADMIN")),
    ...validateAppArmor(`${path}.appArmorProfile`, context.appArmorProfile),
  ];
}

function validateSysctls(field: string, sysctls: readonly Sysctl[], spec: PodSpec): FieldErrors {
  const name = /^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$/;
  const checkName = (path: string, value: string): readonly FieldError[] =>
    errorIf(value.length > 253 || !name.test(value), () =>
      invalid(path, value, "must be the name of a sysctl, such as net.core.somaxconn"),
    );
  return forEach(field, sysctls, (path, sysctl, index) => [
    ...checkRequired(`${path}.name`, sysctl.name, checkName),
    ...errorIf(sysctls.findIndex((other) => other.name === sysctl.name) < index, () =>
      duplicate(`${path}.name`, sysctl.name),
    ),
    ...errorIf(spec.hostNetwork && /^net[./]/.test(sysctl.name), () =>
      invalid(`${path}.name`, sysctl.name, "may not be specified when 'hostNetwork' is true"),
    ),
    ...errorIf(spec.hostIPC && /^(kernel[./](shm|msg|sem)|fs[./]mqueue[./])/.test(sysctl.name), () =>
      invalid(`${path}.name`, sysctl.name, "may not be specified when 'hostIPC' is true"),
    ),
  ]);
}

function validateSeccomp(path: string, profile: SeccompProfile | undefined): FieldErrors {
  return profile === undefined ? [] : validateProfile(path, profile, "seccomp", checkDescendingPath);
}

function validateAppArmor(path: string, profile: AppArmorProfile | undefined): FieldErrors {
  const checkName = (field: string, name: string) => [
    ...errorIf(name.trim() !== name, () => invalid(field, name, "must not be padded with whitespace")),
    ...errorIf(name.trim() === "", () => required(field, "must be set when AppArmor type is Localhost")),
  ];
  return profile === undefined ? [] : validateProfile(path, profile, "AppArmor", checkName);
}

function validateProfile(
  path: string,
  { localhostProfile, type }: SeccompProfile | AppArmorProfile,
  what: string,
  checkName: (field: string, name: string) => FieldErrors,
): FieldErrors {
  const field = `${path}.localhostProfile`;
  if (!type) return [required(`${path}.type`, `type is required when the ${what} profile is set`)];
  if (type === "Localhost")
    return localhostProfile === undefined
      ? [required(field, `must be set when ${what} type is Localhost`)]
      : checkName(field, localhostProfile);
  return errorIf(localhostProfile !== undefined, () =>
    invalid(field, localhostProfile ?? "", `can only be set when ${what} type is Localhost`),
  );
}
