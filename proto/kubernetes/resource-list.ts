import type { Quantity as QuantityText } from "./gen/types.ts";
import { formatQuantity, type ParsedQuantity, parseQuantity, QuantityError, toScaled } from "./values/quantity.ts";

/** Quantities by the name of the resource, as the API has them: `{ cpu: "500m" }`. */
export type ResourceList = Readonly<Record<string, QuantityText>>;

/** The parsed form of a resource list: exact. */
export type ResourceQuantities = ReadonlyMap<string, ParsedQuantity>;

/** The scheduler's units, rounded up: thousandths of a CPU, and whole numbers of everything else. */
export type ResourceAmounts = ReadonlyMap<string, bigint>;

/** Parses a resource list of the API. An unreadable amount counts as zero: it was validated where it was written. */
export function parseResourceList(resources: ResourceList = {}): ResourceQuantities {
  return new Map(Object.entries(resources).map(([name, text]) => [name, parseOrZero(text)]));
}

const ZERO: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

function parseOrZero(text: QuantityText): ParsedQuantity {
  try {
    return parseQuantity(text);
  } catch (error) {
    if (error instanceof QuantityError) return ZERO;
    throw error;
  }
}

/** The API's form of parsed quantities, each in its canonical notation. */
export function formatResourceList(quantities: ResourceQuantities): ResourceList {
  return Object.fromEntries([...quantities].map(([name, quantity]) => [name, formatQuantity(quantity)]));
}

export function toAmounts(quantities: ResourceQuantities): ResourceAmounts {
  return new Map([...quantities].map(([name, quantity]) => [name, toScaled(quantity, name === "cpu" ? -3 : 0)]));
}

/** Whether the resource is one of Kubernetes' own. Rule: IsNativeResource. */
export function isNativeResource(name: string): boolean {
  return !name.includes("/") || name.includes("kubernetes.io/");
}

/** True for `hugepages-2Mi` and the like. Rule: IsHugePageResourceName. */
export function isHugePages(name: string): boolean {
  return name.startsWith(HUGE_PAGES_PREFIX);
}

export const HUGE_PAGES_PREFIX = "hugepages-";

/** The resources that `spec.resources` of a pod may have. Rule: component-helpers, IsSupportedPodLevelResource. */
export function isPodLevelResource(name: string): boolean {
  return name === "cpu" || name === "memory" || isHugePages(name);
}
