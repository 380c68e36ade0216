import { isObject } from "./is-object.ts";

/** Equal as JSON. The order of keys does not count: a checkpoint of another release may have another one. */
export function isJsonEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b))
    return a.length === b.length && a.every((item, index) => isJsonEqual(item, b[index]));
  if (!isObject(a) || !isObject(b)) return false;
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => isJsonEqual(a[key], b[key]));
}
