import { isSidecar, sidecarsOf } from "./containers.ts";
import type { Container, Pod, Quantity as QuantityText } from "./gen/types.ts";
import { parseQuantity, QuantityError, toScaled } from "./quantity.ts";

/** Amounts by resource, in the units in which nodes are counted: thousandths of a CPU, and whole numbers of all else. */
export type Amounts = ReadonlyMap<string, bigint>;

type ResourceList = Readonly<Record<string, QuantityText>>;

/** Resources that a pod as a whole may ask for, over the sum of its containers. */
const OF_WHOLE_PODS = /^(?:cpu|memory|hugepages-.*)$/;

/**
 * What a pod asks of its node: what its containers ask together, or an init container beside the sidecars before it, if that is more,
 * and what its runtime class adds. Rule: component-helpers, resource.PodRequests.
 */
export function podRequests({ spec }: Pod): Amounts {
  const { initContainers = [], containers, resources, overhead } = spec;
  const moments = initContainers.map((container, index) => [
    ...initContainers.slice(0, index).filter(isSidecar),
    container,
  ]);
  const most = new Map<string, bigint>();
  for (const moment of [...moments, [...sidecarsOf(spec), ...containers]])
    for (const [name, amount] of sumOf(moment)) if (amount > (most.get(name) ?? 0n)) most.set(name, amount);
  for (const [name, amount] of amountsOf(resources?.requests)) if (OF_WHOLE_PODS.test(name)) most.set(name, amount);
  add(most, amountsOf(overhead));
  return most;
}

function sumOf(containers: readonly Container[]): Amounts {
  const sum = new Map<string, bigint>();
  for (const { resources } of containers) add(sum, amountsOf(resources?.requests));
  return sum;
}

/** Amounts as they are written in the API. What cannot be read counts as nothing: whoever wrote it down has checked it. */
export function amountsOf(resources: ResourceList = {}): Amounts {
  return new Map(Object.entries(resources).map(([name, text]) => [name, read(text, name === "cpu" ? -3 : 0)]));
}

function read(text: QuantityText, unitExponent: number): bigint {
  try {
    return toScaled(parseQuantity(text), unitExponent);
  } catch (error) {
    if (error instanceof QuantityError) return 0n;
    throw error;
  }
}

function add(sum: Map<string, bigint>, amounts: Amounts): void {
  for (const [name, amount] of amounts) sum.set(name, (sum.get(name) ?? 0n) + amount);
}
