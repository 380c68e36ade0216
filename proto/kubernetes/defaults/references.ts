import type { ObjectFieldSelector, ResourceFieldSelector } from "../gen/types.ts";
import { formatQuantity, parseQuantity } from "../values/quantity.ts";

/** Rule: SetDefaults_ObjectFieldSelector. */
export function defaultFieldRef(selector: ObjectFieldSelector): ObjectFieldSelector {
  return { ...selector, apiVersion: selector.apiVersion || "v1" };
}

/** The API represents an unset divisor as zero. */
export function defaultResourceFieldRef(selector: ResourceFieldSelector): ResourceFieldSelector {
  return { ...selector, divisor: formatQuantity(parseQuantity(selector.divisor ?? "0")) };
}
