import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { metadataFieldValue, ownValue, resourceFieldValue } from "../downward-api.ts";
import type { NodeFacts } from "../node-facts.ts";
import { configError } from "../translate-error.ts";
import { type EnvFiles, fileKeyValue } from "./file-key-ref.ts";
import { referencedValue, variablesOf } from "./object-references.ts";
import { serviceEnvironment } from "./service-links.ts";
import type { BoundedExpander } from "./variable-expansion.ts";

/** Everything the environment and the arguments of a container are built from. */
export interface EnvironmentInput {
  readonly pod: Pod;
  readonly container: Container;
  readonly podIPs: readonly string[];
  /** The files that `fileKeyRef` names, as read for this instance. */
  readonly files: EnvFiles;
  readonly facts: NodeFacts;
}

/**
 * Builds the environment of a container: service links first, then `envFrom`, then `env`, in the order of the spec.
 * When a name occurs twice, the last value wins. `$(NAME)` expands to a variable before it, `$$` to a dollar sign. An
 * optional value that does not exist sets no variable and hides none. Throws `TranslateError` for a source that cannot
 * be read, and when the expander's byte limit is exceeded.
 */
export function environmentOf(input: EnvironmentInput, { add, expand }: BoundedExpander): ReadonlyMap<string, string> {
  const environment = new Map(serviceEnvironment(input.pod, input.facts.cluster?.services ?? []));
  const put = (name: string, value: string) => {
    environment.delete(name);
    environment.set(add(name), value);
  };
  for (const source of input.container.envFrom ?? [])
    for (const [name, value] of variablesOf(input, source)) put(name, add(value));
  for (const variable of input.container.env ?? []) {
    const { name, value: text = "", valueFrom: source } = variable;
    if (source === undefined) put(name, expand(text.toWellFormed(), environment));
    else {
      const value = valueFrom(input, variable);
      if (value !== undefined) put(name, add(value));
    }
  }
  return environment;
}

function valueFrom(input: EnvironmentInput, { name, valueFrom: source }: EnvVar): string | undefined {
  if (source?.fieldRef !== undefined) return fieldValue(input, source.fieldRef.fieldPath);
  if (source?.resourceFieldRef !== undefined)
    return resourceFieldValue(input, source.resourceFieldRef, input.container, configError);
  if (source?.configMapKeyRef !== undefined || source?.secretKeyRef !== undefined)
    return referencedValue(input, source);
  if (source?.fileKeyRef !== undefined) return fileKeyValue(input, source.fileKeyRef);
  throw configError(`environment variable ${name}: its valueFrom is not supported by this release`);
}

/**
 * The fields of the downward API. A container that refers to the node's address waits until the node has one: the
 * environment of a running process cannot be corrected later.
 */
function fieldValue({ pod, podIPs, facts }: EnvironmentInput, path: string): string {
  const usesHostNetwork = pod.spec.hostNetwork === true;
  const ips = usesHostNetwork ? facts.hostIPs : podIPs;
  if (facts.hostIPs.length === 0 && (usesHostNetwork ? /^status\.(host|pod)IPs?$/ : /^status\.hostIPs?$/).test(path))
    throw configError(`${path}: this node has no address yet`);
  const fields: Readonly<Record<string, string | undefined>> = {
    "spec.nodeName": pod.spec.nodeName,
    "spec.serviceAccountName": pod.spec.serviceAccountName ?? "",
    "status.hostIP": facts.hostIPs[0] ?? "",
    "status.hostIPs": facts.hostIPs.join(","),
    "status.podIP": ips[0] ?? "",
    "status.podIPs": ips.join(","),
  };
  const value = metadataFieldValue(pod, path) ?? ownValue(fields, path);
  if (value === undefined) throw configError(`unsupported fieldPath: ${path}`);
  return value;
}
