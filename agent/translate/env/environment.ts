import { containerNamed } from "../../../proto/kubernetes/containers.ts";
import type { Container, EnvVar, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { parseQuantity, toScaled } from "../../../proto/kubernetes/quantity.ts";
import type { NodeFacts } from "../node-facts.ts";
import { TranslateError } from "../translate-error.ts";
import { type EnvFiles, fileValue } from "./file-key-ref.ts";
import { referencedValue, variablesOf } from "./object-references.ts";
import { serviceEnvironment } from "./service-links.ts";
import type { Portion } from "./variable-expansion.ts";

/** What environment and arguments may refer to. */
export interface EnvScene {
  readonly pod: Pod;
  readonly container: Container;
  readonly podIPs: readonly string[];
  /** Those that `fileKeyRef` names, as they were read for this instance. */
  readonly files: EnvFiles;
  readonly facts: NodeFacts;
}

/**
 * The environment of a container: the Services that it may know of, then what `envFrom` brings, then what `env` says, in the order of the
 * spec; of a name given twice the last value counts. `$(NAME)` stands for the variables before it, `$$` for a dollar. An optional value
 * that is not there takes no variable's place. Throws `TranslateError` for a source it cannot read, and for more than `portion` has room for.
 */
export function environmentOf(scene: EnvScene, { take, expand }: Portion): ReadonlyMap<string, string> {
  const environment = new Map(serviceEnvironment(scene.pod, scene.facts.cluster?.services ?? []));
  const put = (name: string, value: string) => {
    environment.delete(name);
    environment.set(take(name), value);
  };
  for (const source of scene.container.envFrom ?? [])
    for (const [name, value] of variablesOf(scene, source)) put(name, take(value));
  for (const variable of scene.container.env ?? []) {
    const { name, value: text = "", valueFrom: source } = variable;
    if (source === undefined) put(name, expand(text.toWellFormed(), environment));
    else {
      const value = valueFrom(scene, variable);
      if (value !== undefined) put(name, take(value));
    }
  }
  return environment;
}

function valueFrom(scene: EnvScene, { name, valueFrom: source }: EnvVar): string | undefined {
  if (source?.fieldRef !== undefined) return fieldValue(scene, source.fieldRef.fieldPath);
  if (source?.resourceFieldRef !== undefined) return resourceValue(scene, source.resourceFieldRef);
  if (source?.configMapKeyRef !== undefined || source?.secretKeyRef !== undefined)
    return referencedValue(scene, source);
  if (source?.fileKeyRef !== undefined) return fileValue(scene, source.fileKeyRef);
  throw configError(`environment variable ${name}: its valueFrom is not supported by this release`);
}

/**
 * The fields that the downward API offers to the environment. A container that wants an address which the node does not have yet
 * has to wait for it: it would keep an empty one for life.
 */
function fieldValue({ pod, podIPs, facts }: EnvScene, path: string): string {
  const keyed = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path);
  if (keyed !== null) {
    const [, which, key = ""] = keyed;
    return ownValue(which === "labels" ? pod.metadata.labels : pod.metadata.annotations, key) ?? "";
  }
  const isOnHost = pod.spec.hostNetwork === true;
  const ips = isOnHost ? facts.hostIPs : podIPs;
  if (facts.hostIPs.length === 0 && (isOnHost ? /^status\.(host|pod)IPs?$/ : /^status\.hostIPs?$/).test(path))
    throw configError(`${path}: this node has no address yet`);
  const fields: Readonly<Record<string, string | undefined>> = {
    "metadata.name": pod.metadata.name,
    "metadata.namespace": pod.metadata.namespace,
    "metadata.uid": pod.metadata.uid,
    "spec.nodeName": pod.spec.nodeName,
    "spec.serviceAccountName": pod.spec.serviceAccountName ?? "",
    "status.hostIP": facts.hostIPs[0] ?? "",
    "status.hostIPs": facts.hostIPs.join(","),
    "status.podIP": ips[0] ?? "",
    "status.podIPs": ips.join(","),
  };
  const value = ownValue(fields, path);
  if (value === undefined) throw configError(`unsupported fieldPath: ${path}`);
  return value;
}

const NANOS = 1_000_000_000n;

/** A container's request or limit in units of the divisor, rounded up; a limit that is not set is all that the node has for pods. */
function resourceValue(
  { pod, container, facts }: EnvScene,
  { containerName, resource, divisor = "1" }: NonNullable<NonNullable<EnvVar["valueFrom"]>["resourceFieldRef"]>,
): string {
  const [kind = "", name = ""] = resource.split(/\.(.*)/s);
  const whose = containerName ? containerNamed(pod, containerName) : container;
  if (whose === undefined) throw configError(`container ${containerName} not found`);
  const { resources } = whose;
  const amount = kind === "limits" ? limitOf(facts, resources?.limits, name) : ownValue(resources?.requests, name);
  if (kind !== "limits" && kind !== "requests") throw configError(`unsupported container resource : ${resource}`);
  // A divisor of 0, however it is written, is what an unset one looks like after a round through the API.
  const unit = toScaled(parseQuantity(divisor), -9) || NANOS;
  const nanos = toScaled(parseQuantity(amount ?? "0"), -9);
  return String((nanos + unit - 1n) / unit);
}

/** A limit of 0 is none. */
function limitOf(facts: NodeFacts, limits: Readonly<Record<string, string>> | undefined, name: string) {
  const limit = ownValue(limits, name);
  const isSet = limit !== undefined && toScaled(parseQuantity(limit), -9) !== 0n;
  return isSet ? limit : (allocatableOf(facts, name) ?? limit);
}

/** A limit that is not set, as a quantity, of the resources of which every container can have some. */
function allocatableOf({ allocatable }: NodeFacts, name: string): string | undefined {
  if (!["cpu", "memory", "ephemeral-storage"].includes(name)) return undefined;
  return `${allocatable.get(name) ?? 0n}${name === "cpu" ? "m" : ""}`;
}

/** The value of a key from outside, which may be `constructor`: what every object inherits is not meant. */
function ownValue<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}

function configError(message: string): TranslateError {
  return new TranslateError("CreateContainerConfigError", message);
}
