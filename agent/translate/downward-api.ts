import { containerNamed } from "../../proto/kubernetes/containers.ts";
import type { Container, Pod, ResourceFieldSelector } from "../../proto/kubernetes/gen/types.ts";
import { parseQuantity, toScaled } from "../../proto/kubernetes/values/quantity.ts";
import type { NodeFacts } from "./node-facts.ts";

/*
 * The downward API: what a pod can read about itself, in variables and in files.
 * https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
 */

/** The value of a `metadata` field, such as `metadata.labels['app']`; undefined for any other field. */
export function metadataFieldValue({ metadata }: Pick<Pod, "metadata">, path: string): string | undefined {
  const [, which, key] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? [];
  if (which !== undefined && key !== undefined)
    return ownValue(which === "labels" ? metadata.labels : metadata.annotations, key) ?? "";
  const fields = {
    "metadata.name": metadata.name,
    "metadata.namespace": metadata.namespace,
    "metadata.uid": metadata.uid,
  };
  return ownValue(fields, path);
}

const NANOS = 1_000_000_000n;

/**
 * A request or limit in units of the divisor, rounded up. An unset limit is the node's allocatable amount. `own` is the
 * container that is meant where the selector names none. Throws `toError(message)` in the kubelet's words.
 */
export function resourceFieldValue(
  { pod, facts }: { readonly pod: Pod; readonly facts: Pick<NodeFacts, "allocatable"> },
  { containerName, resource, divisor = "1" }: ResourceFieldSelector,
  own: Container | undefined,
  toError: (message: string) => Error,
): string {
  const [kind = "", name = ""] = resource.split(/\.(.*)/s);
  const target = containerName ? containerNamed(pod, containerName) : own;
  if (target === undefined) throw toError(`container ${containerName ?? ""} not found`);
  const { resources } = target;
  const amount = kind === "limits" ? limitOf(facts, resources?.limits, name) : ownValue(resources?.requests, name);
  if (kind !== "limits" && kind !== "requests") throw toError(`unsupported container resource : ${resource}`);
  // The API server turns an unset divisor into "0".
  const unit = toScaled(parseQuantity(divisor), -9) || NANOS;
  const nanos = toScaled(parseQuantity(amount ?? "0"), -9);
  return String((nanos + unit - 1n) / unit);
}

/** A limit of 0 counts as unset. */
function limitOf(
  facts: Pick<NodeFacts, "allocatable">,
  limits: Readonly<Record<string, string>> | undefined,
  name: string,
) {
  const limit = ownValue(limits, name);
  const isSet = limit !== undefined && toScaled(parseQuantity(limit), -9) !== 0n;
  return isSet ? limit : (allocatableOf(facts, name) ?? limit);
}

/**
 * The value of an unset limit as a quantity; undefined for extended resources and huge pages, which have no default.
 */
function allocatableOf({ allocatable }: Pick<NodeFacts, "allocatable">, name: string): string | undefined {
  if (!["cpu", "memory", "ephemeral-storage"].includes(name)) return undefined;
  return `${allocatable.get(name) ?? 0n}${name === "cpu" ? "m" : ""}`;
}

/** Own properties only: a key such as `constructor` comes from the user. */
export function ownValue<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}
