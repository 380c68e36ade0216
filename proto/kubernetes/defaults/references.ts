import type { ObjectFieldSelector, ResourceFieldSelector } from "../gen/types.ts";
import { formatQuantity, parseQuantity } from "../quantity.ts";

/** Rule: SetDefaults_ObjectFieldSelector. */
export function defaultFieldRef(selector: ObjectFieldSelector): ObjectFieldSelector {
  return { ...selector, apiVersion: selector.apiVersion || "v1" };
}

/** A divisor of zero is the API's way to write "none". */
export function defaultResourceFieldRef(selector: ResourceFieldSelector): ResourceFieldSelector {
  return { ...selector, divisor: formatQuantity(parseQuantity(selector.divisor ?? "0")) };
}
