import { isObject } from "../is-object.ts";
import type { ResourceRequirements } from "./gen/types.ts";
import { parseResourceList } from "./resource-list.ts";
import { type ParsedQuantity, toMilli, toNumber, ZERO } from "./values/quantity.ts";

/** What the runtime limits a container to: CPU in milli-CPUs and memory in bytes; 0 for none. */
export interface ContainerAmounts {
  readonly cpuRequest: number;
  readonly cpuLimit: number;
  readonly memoryRequest: number;
  readonly memoryLimit: number;
}

/**
 * The amounts of a container's resources. Where it has no limit, the pod's own is its limit. Rule: the kubelet's
 * containerResourcesFromRequirements.
 */
export function containerAmounts(
  { requests, limits }: ResourceRequirements = {},
  podLevel?: ResourceRequirements,
): ContainerAmounts {
  const [own, limit, ofPod] = [requests, limits, podLevel?.limits].map(parseResourceList);
  const limitOf = (name: string, inUnit: (amount: ParsedQuantity) => number) =>
    inUnit(limit?.get(name) ?? ZERO) || inUnit(ofPod?.get(name) ?? ZERO);
  return {
    cpuRequest: toMilli(own?.get("cpu") ?? ZERO),
    cpuLimit: limitOf("cpu", toMilli),
    memoryRequest: toNumber(own?.get("memory") ?? ZERO),
    memoryLimit: limitOf("memory", toNumber),
  };
}

/** The resources that have these amounts, without those of 0. */
export function requirementsOf(amounts: ContainerAmounts): ResourceRequirements {
  const listOf = (cpu: number, memory: number) => ({
    ...(cpu > 0 && { cpu: `${cpu}m` }),
    ...(memory > 0 && { memory: String(memory) }),
  });
  return {
    requests: listOf(amounts.cpuRequest, amounts.memoryRequest),
    limits: listOf(amounts.cpuLimit, amounts.memoryLimit),
  };
}

/** The text of the annotation by which each instance says what it was created with. */
export function formatAmounts({ cpuRequest, cpuLimit, memoryRequest, memoryLimit }: ContainerAmounts): string {
  return JSON.stringify({ cpuRequest, cpuLimit, memoryRequest, memoryLimit });
}

/** The amounts of an annotation; undefined for no annotation, and for one that another program has written. */
export function parseAmounts(text: string | undefined): ContainerAmounts | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isContainerAmounts(value) ? value : undefined;
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** Whether a parsed value is a complete record of amounts. */
export function isContainerAmounts(value: unknown): value is ContainerAmounts {
  if (!isObject(value)) return false;
  const fields = ["cpuRequest", "cpuLimit", "memoryRequest", "memoryLimit"].map((name) => value[name]);
  return fields.every((amount) => typeof amount === "number" && amount >= 0);
}
