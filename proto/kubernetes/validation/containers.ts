import type { Container, ContainerPort, PodSpec } from "../gen/types.ts";
import { checkRange, checkUnique, errorIf, type FieldErrors, forEach } from "./checks.ts";
import { validateEnv, validateEnvFrom } from "./environment.ts";
import { duplicate, type FieldError, forbidden, invalid, required, tooMany, unsupported } from "./field-error.ts";
import { validateLifecycle, validateProbe } from "./handlers.ts";
import { validateMounts } from "./mounts.ts";
import { checkIp, checkLabel, checkOptional, checkPortName, checkPortNumber, checkRequired } from "./names.ts";
import { validateContainerResources } from "./resources.ts";
import { validateContainerSecurity } from "./security.ts";

const probes = ["livenessProbe", "readinessProbe", "startupProbe"] as const;
const MAX_RESTART_RULES = 20;

/** Rule: validateContainers and validateInitContainers. */
export function validateContainers(spec: PodSpec): FieldErrors {
  const initContainers = spec.initContainers ?? [];
  const names = [
    ...spec.containers.map(({ name }, index) => [`spec.containers[${index}].name`, name] as const),
    ...initContainers.map(({ name }, index) => [`spec.initContainers[${index}].name`, name] as const),
  ];
  return [
    ...errorIf(spec.containers.length === 0, () => required("spec.containers")),
    ...forEach("spec.containers", spec.containers, (path, container) => [
      ...validateContainer(path, container, spec),
      ...validateProbesAndLifecycle(path, container, spec),
    ]),
    ...forEach("spec.initContainers", initContainers, (path, container) => [
      ...validateContainer(path, container, spec),
      ...(container.restartPolicy === "Always"
        ? validateProbesAndLifecycle(path, container, spec)
        : forbidProbesAndLifecycle(path, container)),
      ...checkHostPorts([[path, container]]),
    ]),
    ...checkUnique(names),
    ...checkHostPorts(spec.containers.map((container, index) => [`spec.containers[${index}]`, container])),
  ];
}

/** The checks of every container. */
function validateContainer(path: string, container: Container, spec: PodSpec): FieldErrors {
  const image = container.image ?? "";
  return [
    ...checkRequired(`${path}.name`, container.name, checkLabel),
    ...errorIf(image === "", () => required(`${path}.image`)),
    ...errorIf(image.trim() !== image, () =>
      invalid(`${path}.image`, image, "must not have leading or trailing whitespace"),
    ),
    ...validatePorts(`${path}.ports`, container.ports ?? []),
    ...validateEnv(`${path}.env`, container.env, spec.volumes ?? []),
    ...validateEnvFrom(`${path}.envFrom`, container.envFrom),
    ...validateMounts(path, container, spec),
    ...validateContainerResources(`${path}.resources`, container.resources),
    ...validateResizePolicy(`${path}.resizePolicy`, container, spec),
    ...validateRestartRules(path, container),
    ...validateContainerSecurity(`${path}.securityContext`, container.securityContext, spec),
  ];
}

/** Probes and hooks are forbidden for init containers that run to completion. */
function validateProbesAndLifecycle(path: string, container: Container, spec: PodSpec): FieldErrors {
  return [
    ...validateLifecycle(`${path}.lifecycle`, container.lifecycle, spec),
    ...probes.flatMap((kind) => validateProbe(`${path}.${kind}`, kind, container[kind])),
  ];
}

function forbidProbesAndLifecycle(path: string, container: Container): FieldErrors {
  return (["lifecycle", ...probes] as const).flatMap((field) =>
    errorIf(container[field], () =>
      forbidden(`${path}.${field}`, "may not be set for init containers without restartPolicy=Always"),
    ),
  );
}

function validatePorts(field: string, ports: readonly ContainerPort[]): FieldErrors {
  return [
    ...forEach(field, ports, (path, { containerPort, hostIP, hostPort, name }) => [
      ...checkOptional(`${path}.name`, name, checkPortName),
      ...(containerPort === 0
        ? [required(`${path}.containerPort`)]
        : checkPortNumber(`${path}.containerPort`, containerPort)),
      ...(hostPort ? checkPortNumber(`${path}.hostPort`, hostPort) : []),
      ...checkOptional(`${path}.hostIP`, hostIP, checkIp),
    ]),
    ...checkUnique(ports.map(({ name }, index) => [`${field}[${index}].name`, name])),
  ];
}

/** Host ports must be unique. */
function checkHostPorts(containers: readonly (readonly [path: string, container: Container])[]): readonly FieldError[] {
  const usedPorts = new Set<string>();
  return containers.flatMap(([path, { ports }]) =>
    forEach(`${path}.ports`, ports, (field, { hostIP = "", hostPort, protocol = "TCP" }) => {
      const address = `${protocol}/${hostIP}/${hostPort}`;
      if (!hostPort) return [];
      if (usedPorts.has(address)) return [duplicate(`${field}.hostPort`, address)];
      usedPorts.add(address);
      return [];
    }),
  );
}

function validateResizePolicy(field: string, { resizePolicy }: Container, { restartPolicy }: PodSpec): FieldErrors {
  return [
    ...forEach(field, resizePolicy, (_, policy) => [
      ...errorIf(!["cpu", "memory"].includes(policy.resourceName), () =>
        unsupported(field, policy.resourceName, ["cpu", "memory"]),
      ),
      ...errorIf(restartPolicy === "Never" && policy.restartPolicy !== "NotRequired", () =>
        invalid(field, policy.restartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"),
      ),
    ]),
    ...checkUnique((resizePolicy ?? []).map(({ resourceName }, index) => [`${field}[${index}]`, resourceName])),
  ];
}

function validateRestartRules(path: string, { restartPolicy, restartPolicyRules = [] }: Container): FieldErrors {
  return [
    ...errorIf(restartPolicyRules.length > 0 && !restartPolicy, () =>
      required(`${path}.restartPolicy`, "must specify restartPolicy when restart rules are used"),
    ),
    ...errorIf(restartPolicyRules.length > MAX_RESTART_RULES, () =>
      tooMany(`${path}.restartPolicyRules`, restartPolicyRules.length, MAX_RESTART_RULES),
    ),
    ...forEach(`${path}.restartPolicyRules`, restartPolicyRules, (field, { exitCodes }) => [
      ...errorIf(!exitCodes, () => required(`${field}.exitCodes`, "must be specified")),
      ...forEach(`${field}.exitCodes.values`, exitCodes?.values, (codeField, code) =>
        checkRange(codeField, code, 0, 255),
      ),
    ]),
  ];
}
